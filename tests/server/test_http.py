"""The HTTP transport as clients meet it: a real socket, the SDK's own client, and requests that it would not send."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from counterfoil.registry.request import NOBODY_WAITS, CallRequest
from tests.kit.web import ACCEPT, LIMIT_S, answer_of, legacy, modern, open_session, shown
from tests.server import kit
from tests.server.http_kit import ANN, BOB, BOUNDS, Site, site

pytestmark = pytest.mark.anyio


@pytest.fixture
def desk() -> kit.Desk:
    return kit.Desk()


@pytest.fixture
async def here(desk: kit.Desk) -> AsyncGenerator[Site]:
    async with site(desk) as served:
        yield served


@pytest.fixture
async def http(here: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with here.web.http() as client:
        yield client


async def post(
    http: httpx2.AsyncClient, url: str, message: tuple[bytes, dict[str, str]], **headers: str
) -> httpx2.Response:
    body, stated = message
    return await http.post(url, content=body, headers=stated | headers)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_real_client_lists_and_calls_in_both_eras_as_whoever_its_token_says(
    here: Site, desk: kit.Desk, mode: Any
) -> None:
    async with here.web.client(mode=mode) as ann, here.web.client("token-of-bob", mode) as bob:
        assert [tool.name for tool in (await ann.list_tools()).tools] == ["tool_search", "status", "echo", "number"]
        assert [tool.name for tool in (await bob.list_tools()).tools] == ["tool_search", "status", "number"]
        assert ann.instructions == "Search first."
        answer = await ann.call_tool("echo", {"a": 12345678901234567890123})
        assert answer.structured_content == {"a": 12345678901234567890123}
        await bob.call_tool("number", {})
    assert [request.principal for request in desk.requests] == [ANN, BOB]
    assert desk.requests[0].principal.claimed == {"name": "web-client", "version": "9"}


@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer", "Bearer token-of-eve", "Basic token-of-ann", "token-of-ann", "Bearer token-of-ann x"],
)
async def test_without_the_right_token_nothing_is_looked_up(
    here: Site, desk: kit.Desk, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with here.web.http("") as http:
        for message in (modern("tools/call", name="echo", arguments={}), legacy("initialize"), (b"{", {})):
            response = await post(http, here.web.url, message, **headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")
    assert desk.requests == []


async def test_two_tokens_in_one_request_are_none(here: Site) -> None:
    body, headers = modern("tools/list")
    stated = [*headers.items(), ("Authorization", "Bearer token-of-ann"), ("Authorization", "Bearer token-of-bob")]
    async with here.web.http("") as http:
        assert (await http.post(here.web.url, content=body, headers=stated)).status_code == 401


async def test_health_needs_no_token_and_says_nothing(here: Site) -> None:
    async with here.web.http("") as http:
        response = await http.get(here.web.url.replace("/mcp", "/health"))
        assert (response.status_code, response.content) == (200, b"")
        assert (await http.get(here.web.url.replace("/mcp", "/other"))).status_code == 401


@pytest.mark.parametrize(
    ("body", "code", "request_id", "path"),
    [
        (
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","name":"echo"}}',
            -32602,
            7,
            "/params/name",
        ),
        (b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"a":1e400}}', -32602, "x", "/params/a"),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":NaN}}', -32602, 1, "/params/a"),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"\\ud800"}}', -32602, 1, "/params/a"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b"[" * 20 + b"]" * 20 + b"}", -32602, 1, None),
        (b'{"jsonrpc":"2.0",', -32700, None, ""),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None, None),
    ],
)
@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_a_body_that_breaks_a_rule_is_answered_and_the_connection_goes_on(
    here: Site, http: httpx2.AsyncClient, era: str, body: bytes, code: int, request_id: object, path: str | None
) -> None:
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": era}
    response = await http.post(here.web.url, content=body, headers=headers)
    answer = answer_of(response)
    assert (response.status_code, answer["id"], answer["error"]["code"]) == (400, request_id, code)
    if path is not None:
        assert answer["error"]["data"]["code"] == "invalid_arguments"
        assert answer["error"]["data"]["path"] == path
    assert shown(await post(http, here.web.url, modern("tools/call", name="echo", arguments={"a": 1}))) == {"a": 1}


async def test_other_bodies_verbs_and_sizes_are_refused(here: Site, http: httpx2.AsyncClient) -> None:
    body, headers = modern("tools/list")
    plain = headers | {"Content-Type": "text/plain"}
    assert (await http.post(here.web.url, content=body, headers=plain)).status_code == 415
    assert (await http.put(here.web.url, content=body, headers=headers)).status_code == 405
    large = b'{"a":"' + b"x" * BOUNDS.bytes + b'"}'

    async def in_pieces() -> AsyncGenerator[bytes]:
        yield large[:10]
        yield large[10:]

    assert (await http.post(here.web.url, content=large, headers=headers)).status_code == 413
    assert (await http.post(here.web.url, content=in_pieces(), headers=headers)).status_code == 413


async def test_a_session_is_its_principals_alone_and_an_unknown_one_is_not_found(
    here: Site, http: httpx2.AsyncClient
) -> None:
    session = await open_session(http, here.web.url)
    mine = await post(http, here.web.url, legacy("tools/call", 2, session, name="echo", arguments={"a": 1}))
    assert shown(mine) == {"a": 1}
    async with here.web.http("token-of-bob") as other:
        foreign = await post(other, here.web.url, legacy("tools/list", 3, session))
    unknown = await post(http, here.web.url, legacy("tools/list", 3, "0" * 32))
    assert (foreign.status_code, foreign.text) == (unknown.status_code, unknown.text)
    assert foreign.status_code == 404
    gone = await http.delete(here.web.url, headers={"Mcp-Session-Id": session})
    assert gone.status_code == 200
    assert (await post(http, here.web.url, legacy("tools/list", 4, session))).status_code == 404


async def test_an_id_that_is_open_in_its_session_is_refused_and_the_first_keeps_its_answer(
    here: Site, desk: kit.Desk, http: httpx2.AsyncClient
) -> None:
    session = await open_session(http, here.web.url)
    call = legacy("tools/call", 5, session, name="gate", arguments={"a": "first"})
    first = asyncio.create_task(post(http, here.web.url, call))
    await until(lambda: bool(desk.requests))
    for request_id in (5, "5", "_GET_stream"):
        again = await post(http, here.web.url, legacy("tools/call", request_id, session, name="echo", arguments={}))
        assert (again.status_code, answer_of(again)["error"]["code"]) == (400, -32600)
    desk.gate.set()
    assert shown(await first) == {"a": "first"}


async def test_a_call_counts_as_delivered_once_its_answer_was_written(
    here: Site, desk: kit.Desk, http: httpx2.AsyncClient
) -> None:
    session = await open_session(http, here.web.url)
    for message in (modern("tools/call", name="echo", arguments={}), legacy("tools/call", 2, session, name="echo")):
        desk.heard.clear()
        await post(http, here.web.url, message)
        await asyncio.wait_for(desk.heard.wait(), LIMIT_S)
    assert desk.told == [(("call_echo",), ANN)] * 2
    assert desk.lost == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_that_leaves_ends_the_waiting_and_nothing_else(here: Site, desk: kit.Desk, era: str) -> None:
    ended: asyncio.Future[tuple[Any, ...]] = asyncio.get_running_loop().create_future()

    async def wait_for_ever(request: CallRequest) -> kit.View:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            ended.set_result(error.args)
            raise
        raise AssertionError(request)

    desk._gate = wait_for_ever  # type: ignore[method-assign]  # what the runtime would be told
    async with here.web.http() as http:
        session = await open_session(http, here.web.url) if era == "legacy" else ""
        call = {"name": "gate", "arguments": {}}
        message = legacy("tools/call", 2, session, **call) if session else modern("tools/call", 2, **call)
        asking = asyncio.create_task(post(http, here.web.url, message))
        await until(lambda: bool(desk.requests))
        asking.cancel()
        await asyncio.wait({asking})
    assert await asyncio.wait_for(ended, LIMIT_S) == (NOBODY_WAITS,)


async def test_an_answer_that_nobody_read_is_lost_at_once(here: Site, desk: kit.Desk) -> None:
    async def much(request: CallRequest) -> kit.View:
        return kit.settled(request, {"text": "x" * 16_000_000})

    desk._large = much  # type: ignore[method-assign]  # more than all buffers between here and there
    port = port_of(here)
    body, headers = modern("tools/call", name="large", arguments={})
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)  # noqa: FBT003 (the socket's own name for it)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, raw(port, headers | {"Accept": ACCEPT}, body))
        assert await loop.sock_recv(client, 12) == b"HTTP/1.1 200"
        assert (desk.told, desk.lost) == ([], [])
    await asyncio.wait_for(desk.heard.wait(), LIMIT_S)
    assert desk.told == []
    assert desk.lost == [(("call_large",), ANN)]


def port_of(here: Site) -> int:
    return int(here.web.url.rsplit(":", 1)[1].split("/")[0])


def raw(port: int, headers: dict[str, str], body: bytes) -> bytes:
    stated = {"Host": f"127.0.0.1:{port}", "Authorization": "Bearer token-of-ann", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in (stated | headers).items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


async def test_a_cancelled_notification_cancels_that_principals_one_request_of_that_id(
    here: Site, desk: kit.Desk, http: httpx2.AsyncClient
) -> None:
    async with here.web.http("token-of-bob") as other:
        asking = asyncio.create_task(post(http, here.web.url, modern("tools/call", 9, name="gate", arguments={"a": 1})))
        await until(lambda: bool(desk.requests))
        cancelled = modern("notifications/cancelled", None, requestId=9)
        for client, request_id in ((other, 9), (http, "9")):
            cancelled = modern("notifications/cancelled", None, requestId=request_id)
            assert (await post(client, here.web.url, cancelled)).status_code == 202
        assert not asking.done()
        assert (await post(http, here.web.url, modern("notifications/cancelled", None, requestId=9))).status_code == 202
        answer = answer_of(await asyncio.wait_for(asking, LIMIT_S))
    assert answer["error"]["code"] == -32800
    assert desk.told == []


async def test_progress_keeps_a_silent_call_alive_over_a_stream(here: Site, desk: kit.Desk) -> None:
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        heard.append(progress)
        if len(heard) > 2:
            desk.gate.set()

    async with here.web.client() as client:
        answer = await client.call_tool("gate", {"a": 1}, progress_callback=hear)
    assert answer.structured_content == {"a": 1}
    assert heard == sorted(set(heard))
    assert [request.wait_s for request in desk.requests] == [20.0]


async def test_a_principal_has_so_many_streams_and_no_more(
    here: Site, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.server.http.open.STREAMS", 1)
    listen = modern("subscriptions/listen", 3, notifications={"toolsListChanged": True})
    body, headers = listen
    async with http.stream("POST", here.web.url, content=body, headers=headers) as first:
        assert "acknowledged" in await anext(first.aiter_text())
        assert (await post(http, here.web.url, listen)).status_code == 429
        async with here.web.client("token-of-bob") as other, other.listen(tools_list_changed=True):
            pass
    await until(lambda: not here_streams(here))


def here_streams(here: Site) -> set[Any]:
    return here.surface._listeners._streams  # pyright: ignore[reportPrivateUsage] (no door is made for tests alone)


async def test_a_client_that_is_slow_with_its_head_or_body_is_let_go(
    desk: kit.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.server.http.line.HEAD_S", 0.05)
    monkeypatch.setattr("counterfoil.server.http.replies.WHOLE_BODY_S", 0.05)
    async with site(desk) as here:
        port = port_of(here)
        for said in (b"", b"POST /mcp HTTP/1.1\r\nHost: x\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), LIMIT_S) == b""
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw(port, {"Content-Type": "application/json"}, b"{}")[:-1])
        assert (await asyncio.wait_for(reader.read(), LIMIT_S)).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_stop_answers_open_calls_refuses_new_ones_and_ends_streams(here: Site, desk: kit.Desk) -> None:
    async with here.web.client() as client, here.web.http() as http:
        async with client.listen(tools_list_changed=True) as events:
            asking = asyncio.create_task(
                post(http, here.web.url, modern("tools/call", name="gate", arguments={"a": 1}))
            )
            await until(lambda: bool(desk.requests))
            here.stop.asked.set()
            assert [event async for event in events] == []
            refused = shown(await post(http, here.web.url, modern("tools/call", name="echo", arguments={})))
            assert refused["error"]["code"] == "unavailable"
            desk.gate.set()
            assert shown(await asking) == {"a": 1}
        assert await asyncio.wait_for(asyncio.shield(here.serving), LIMIT_S) == 0
    assert len(desk.told) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_change_of_the_catalogue_is_told_to_those_whom_it_concerns(here: Site, mode: Any) -> None:
    heard: dict[str, asyncio.Event] = {"ann": asyncio.Event(), "bob": asyncio.Event()}

    def hear(who: str) -> Any:
        async def told(message: object) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                heard[who].set()

        return told

    async with (
        here.web.client(mode=mode, hear=hear("ann")) as ann,
        here.web.client("token-of-bob", mode, hear("bob")) as bob,
    ):
        if mode == "auto":
            async with ann.listen(tools_list_changed=True) as hers, bob.listen(tools_list_changed=True) as his:
                await here.surface.announce_tools_changed(lambda who: who == BOB)
                await asyncio.wait_for(anext(aiter(his)), LIMIT_S)
                await here.surface.announce_tools_changed(lambda who: who == ANN)
                await asyncio.wait_for(anext(aiter(hers)), LIMIT_S)
            return
        await asyncio.gather(ann.list_tools(), bob.list_tools())
        await told_in_time(here, BOB, heard["bob"])
        assert not heard["ann"].is_set()
        await told_in_time(here, ANN, heard["ann"])


async def told_in_time(here: Site, who: object, heard: asyncio.Event) -> None:
    """A session's own stream opens a moment after its handshake; what is told before that goes nowhere."""
    ends = asyncio.get_running_loop().time() + LIMIT_S
    while not heard.is_set():
        assert asyncio.get_running_loop().time() < ends
        await here.surface.announce_tools_changed(lambda principal: principal == who)
        await asyncio.sleep(0.01)


async def until(holds: Any) -> None:
    ends = asyncio.get_running_loop().time() + LIMIT_S
    while not holds():
        assert asyncio.get_running_loop().time() < ends, "it did not come to that"
        await asyncio.sleep(0.005)
