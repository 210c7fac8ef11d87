"""Clients that hang up where the loop does not look: the kernel knows, and what they ask again finds them gone."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from counterfoil.registry.request import NOBODY_WAITS, CallRequest
from counterfoil.server.http.ended import far_end_gone, peeked
from tests.kit.web import ACCEPT, LIMIT_S, legacy, modern, open_session
from tests.server import kit
from tests.server.http_kit import ANN, Site, site

pytestmark = pytest.mark.anyio
BEFORE_ITS_TURN = b"POST /mcp HTTP/1.1\r\n"
"""Bytes behind a request that is already with the desk: from then on the server does not read, and so sees no end."""


class Desk(kit.Desk):
    """A desk whose gate tells when a request has let go, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Any] = []
        self.ended_before: list[int] = []

    async def _gate(self, request: CallRequest) -> kit.View:
        self.ended_before.append(len(self.ends))
        try:
            await self.gate.wait()
        except asyncio.CancelledError as error:
            self.ends.append(error.args)
            raise
        return kit.settled(request, request.arguments)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def here(desk: Desk) -> AsyncGenerator[Site]:
    async with site(desk) as served:
        yield served


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.002)


def port_of(here: Site) -> int:
    return int(here.web.url.rsplit(":", 1)[1].split("/")[0])


def wire(here: Site, message: tuple[bytes, dict[str, str]], token: str = "token-of-ann") -> bytes:  # noqa: S107 (a test's)
    body, headers = message
    stated = {"Host": f"127.0.0.1:{port_of(here)}", "Authorization": f"Bearer {token}", "Accept": ACCEPT}
    head = "".join(f"{name}: {value}\r\n" for name, value in (stated | headers).items())
    return f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def connected(here: Site, said: bytes) -> socket.socket:
    """A client that has said this and reads nothing."""
    client = socket.socket()
    client.setblocking(False)  # noqa: FBT003 (the socket's own name for it)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port_of(here)))
    await loop.sock_sendall(client, said)
    return client


async def message(here: Site, era: str, name: str) -> tuple[bytes, dict[str, str]]:
    if era == "modern":
        return modern("tools/call", 2, name=name, arguments={})
    async with here.web.http() as http:
        return legacy("tools/call", 2, await open_session(http, here.web.url), name=name, arguments={})


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("hang_up", [socket.socket.close, half_close])
async def test_what_a_client_asks_again_finds_its_first_request_gone(
    here: Site, desk: Desk, era: str, hang_up: Callable[[socket.socket], None]
) -> None:
    asked = await message(here, era, "gate")
    with await connected(here, wire(here, asked)) as first:
        await until(lambda: desk.requests)
        first.sendall(BEFORE_ITS_TURN)
        hang_up(first)
        with await connected(here, wire(here, await message(here, era, "gate"))):
            await until(lambda: len(desk.requests) == 2)
            assert desk.ended_before == [0, 1]
            assert desk.ends == [(NOBODY_WAITS,)]


async def test_another_subjects_request_and_one_that_is_still_waited_for_stay(here: Site, desk: Desk) -> None:
    asked = await message(here, "modern", "gate")
    with (
        await connected(here, wire(here, asked)) as waiting,
        await connected(here, wire(here, asked)) as gone,
    ):
        await until(lambda: len(desk.requests) == 2)
        gone.sendall(BEFORE_ITS_TURN)
        gone.close()
        with await connected(here, wire(here, modern("tools/call", 3, name="number", arguments={}), "token-of-bob")):
            await until(lambda: len(desk.requests) == 3)
        assert desk.ends == []
        with await connected(here, wire(here, asked)):
            await until(lambda: len(desk.requests) == 4)
        assert desk.ends == [(NOBODY_WAITS,)]
        desk.gate.set()
        assert (await asyncio.get_running_loop().sock_recv(waiting, 12)).startswith(b"HTTP/1.1 200")


async def test_a_request_whose_client_has_gone_before_it_begins_is_not_begun(
    here: Site, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    async def departed(_requests: object, _principal: object) -> bool:
        client.close()
        seen.append(True)
        return True

    monkeypatch.setattr("counterfoil.server.http.open.OpenRequests.departed", departed)
    client = await connected(here, wire(here, await message(here, "modern", "gate")))
    await until(lambda: seen)
    monkeypatch.undo()
    with await connected(here, wire(here, modern("tools/call", 3, name="echo", arguments={}))):
        await until(lambda: desk.requests)
    assert [request.tool for request in desk.requests] == ["echo"]


async def test_an_answer_to_a_client_that_had_hung_up_is_lost_though_it_could_be_written(
    here: Site, desk: Desk
) -> None:
    client = await connected(here, wire(here, await message(here, "modern", "gate")))
    await until(lambda: desk.requests)
    client.sendall(BEFORE_ITS_TURN)
    client.close()
    desk.gate.set()
    await asyncio.wait_for(desk.heard.wait(), LIMIT_S)
    assert (desk.told, desk.lost) == ([], [(("call_gate",), ANN)])


async def test_an_answer_that_is_stuck_in_a_buffer_is_lost_before_the_same_words_are_looked_up(
    here: Site, desk: Desk
) -> None:
    async def much(request: CallRequest) -> kit.View:
        lost_before.append(len(desk.lost))
        return kit.settled(request, {"text": "x" * 16_000_000})

    lost_before: list[int] = []
    desk._large = much  # type: ignore[method-assign]  # more than all buffers between here and there
    asked = wire(here, await message(here, "modern", "large"))
    with await connected(here, asked) as client:
        assert await asyncio.get_running_loop().sock_recv(client, 12) == b"HTTP/1.1 200"
        client.sendall(BEFORE_ITS_TURN)
        client.shutdown(socket.SHUT_WR)
        with await connected(here, asked):
            await until(lambda: len(lost_before) == 2)
    assert lost_before == [0, 1]


async def test_the_second_of_two_requests_on_one_connection_ends_with_it_too(here: Site, desk: Desk) -> None:
    both = [wire(here, modern("tools/call", 1 + n, name=name, arguments={})) for n, name in enumerate(("echo", "gate"))]
    client = await connected(here, b"".join(both))
    await until(lambda: len(desk.requests) == 2)
    client.close()
    await until(lambda: desk.ends)
    assert desk.ends == [(NOBODY_WAITS,)]


async def test_a_request_that_does_not_end_with_its_client_stands_in_the_way_of_the_next(
    here: Site, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.server.http.open.LEAVING_S", 0.05)

    async def stubborn(request: CallRequest) -> kit.View:
        while not desk.gate.is_set():
            try:
                await desk.gate.wait()
            except asyncio.CancelledError:
                continue
        return kit.settled(request, {})

    desk._large = stubborn  # type: ignore[method-assign]  # as no part of ours may be
    client = await connected(here, wire(here, await message(here, "modern", "large")))
    await until(lambda: desk.requests)
    client.sendall(BEFORE_ITS_TURN)
    client.close()
    async with here.web.http() as http:
        body, headers = modern("tools/call", 3, name="echo", arguments={})
        refused = await http.post(here.web.url, content=body, headers=headers)
        assert (refused.status_code, "nothing was sent" in refused.text) == (503, True)
        desk.gate.set()
        await until(lambda: desk.lost)
        assert (await http.post(here.web.url, content=body, headers=headers)).status_code == 200


@pytest.mark.parametrize("gone", [far_end_gone, peeked])
def test_an_end_is_seen_as_soon_as_it_is_there(gone: Callable[[socket.socket], bool]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            assert not gone(server)
            client.sendall(json.dumps({}).encode())
            assert not gone(server)
            client.close()
            assert gone is peeked or gone(server)
            server.recv(100)
            assert gone(server)
        assert gone(server)
