"""Stopping HTTP tools: before T1, while they connect, after their bytes left, and by their own time-out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil.server.app import App, open_app
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.rules import check_call_view

pytestmark = pytest.mark.anyio
LIMIT_S: Final = 30.0

CONFIG: Final = """
[server]
grace_s = 0
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
[policy_defaults]
write = "allow"
[http]
allow_hosts = ["{host}"]
[tools.web_write]
description = "A write."
effect = "write"
concurrency = 1
resources = ["order:{{order}}"]
timeout_s = {timeout_s}
input = {{ order = "string" }}
[tools.web_write.http]
method = "POST"
url = "http://{host}/orders/{{order}}/refunds"
json = {{ n = 1 }}
[tools.web_read]
description = "A read."
effect = "read"
concurrency = 1
timeout_s = {timeout_s}
retry = {{ attempts = 1 }}
input = {{ order = "string" }}
[tools.web_read.http]
method = "GET"
url = "http://{host}/orders/{{order}}"
"""


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarSide]:
    with FarSide(tmp_path / "effects.db") as far:
        yield far


@dataclass(frozen=True)
class Place:
    """An application whose calls may be stopped."""

    app: App

    def ask(self, tool: str, order: str = "o1", *, wait_s: float = 25) -> asyncio.Task[dict[str, Any]]:
        """A call under way."""

        async def view() -> dict[str, Any]:
            view = (await self.app.call(tool, {"order": order}, wait_s=wait_s)).wire()
            check_call_view(view)
            return view

        return asyncio.create_task(view())

    async def cancel(self, call_id: str) -> dict[str, Any]:
        return (await self.app.runtime.cancel(self.app.local, call_id=call_id)).wire()

    async def followed(self, call_id: str) -> dict[str, Any]:
        """The call once it has ended."""
        return (await self.app.runtime.status(self.app.local, call_id=call_id, wait_s=20)).wire()

    async def dispatched(self) -> str:
        """The only call that is under way, once its T1 is there."""
        cases = self.app.runtime._parts.cases  # pyright: ignore[reportPrivateUsage] (the id before the answer)
        await until(lambda: len(cases) == 1)
        return next(iter(cases))


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def opened(folder: Path, host: str, timeout_s: float = 20) -> AsyncGenerator[Place]:
    (folder / "counterfoil.toml").write_text(CONFIG.format(host=host, timeout_s=timeout_s))
    async with open_app(folder / "counterfoil.toml") as app:
        yield Place(app)


@pytest.mark.parametrize("tool", ["web_write", "web_read"])
async def test_a_call_that_waits_for_its_turn_is_cancelled_and_never_sent(
    tmp_path: Path, far: FarSide, tool: str
) -> None:
    path = "/orders/o1/refunds" if tool == "web_write" else "/orders/o1"
    far.script(path, Answer(then="hold"))
    async with opened(tmp_path, far.host) as place:
        first = place.ask(tool)
        await until(far.arrived.is_set)
        waiting = await place.ask(tool, "o2", wait_s=0)
        assert (waiting["state"], waiting["sent"]) == ("queued", "no")
        stopped = await place.cancel(waiting["call_id"])
        far.release.set()
        assert (await first)["outcome"] == "success"
    assert (stopped["state"], stopped["outcome"], stopped["sent"]) == ("settled", "permanent_failure", "no")
    assert stopped["error"]["code"] == "cancelled"
    assert [one.target for one in far.seen] == [path]


@pytest.mark.parametrize("tool", ["web_write", "web_read"])
async def test_a_call_that_is_cancelled_while_it_connects_sends_nothing(tmp_path: Path, tool: str) -> None:
    with full_listener() as (listener, queued):
        port = listener.getsockname()[1]
        async with opened(tmp_path, f"127.0.0.1:{port}") as place:
            asking = place.ask(tool)
            call_id = await place.dispatched()
            await place.cancel(call_id)
            listener.settimeout(LIMIT_S)
            arrived = [listener.accept()[0] for _ in queued]
            taking = asyncio.create_task(asyncio.to_thread(received, listener))
            view = await asking
        listener.shutdown(socket.SHUT_RDWR)
        assert await taking in {b"", None}
        for connection in arrived:
            connection.close()
    if tool == "web_write":
        assert (view["outcome"], view["sent"], view["error"]["code"]) == ("permanent_failure", "no", "cancelled")
    else:
        assert (view["outcome"], view["sent"], view["attempts"]) == ("retryable_failure", "unknown", 1)


@pytest.mark.parametrize("commit", [True, False])
async def test_a_write_whose_bytes_have_left_is_followed_to_its_end(
    tmp_path: Path, far: FarSide, *, commit: bool
) -> None:
    answer = Answer(201, commit=commit, then="hold") if commit else Answer(422, then="hold")
    far.script("/orders/o1/refunds", answer)
    async with opened(tmp_path, far.host) as place:
        asking = place.ask("web_write")
        await until(far.arrived.is_set)
        told = await place.cancel(await place.dispatched())
        assert (told["state"], told["sent"]) == ("dispatched", "unknown")
        assert told["cancel_requested_at"] is not None
        far.release.set()
        view = await asking
    assert view["outcome"] == ("success" if commit else "permanent_failure")
    assert view["sent"] == "yes"
    assert (len(far.seen), len(far.effects.all())) == (1, commit)


async def test_a_read_whose_bytes_have_left_is_given_up_at_once(tmp_path: Path, far: FarSide) -> None:
    far.script("/orders/o1", Answer(then="hold"))
    async with opened(tmp_path, far.host) as place:
        asking = place.ask("web_read")
        await until(far.arrived.is_set)
        await place.cancel(await place.dispatched())
        view = await asking
    assert (view["outcome"], view["sent"], len(far.seen)) == ("retryable_failure", "unknown", 1)
    assert view["error"]["details"]["reason"] == "cancelled"


async def test_a_time_out_before_the_effect_and_one_after_it_are_equally_unknown(tmp_path: Path, far: FarSide) -> None:
    far.script("/orders/o1/refunds", Answer(then="hold", commit=True))
    far.script("/orders/o2/refunds", Answer(then="hold", commit_late=True))
    far.script("/orders/o3", Answer(then="hold"))
    async with opened(tmp_path, far.host, timeout_s=1) as place:
        early = await place.ask("web_write", "o1")
        late = await place.ask("web_write", "o2")
        read = await place.ask("web_read", "o3")
        assert [one["order_id"] for one in far.effects.all()] == ["o1"]
        far.release.set()
        await until(lambda: len(far.effects.all()) == 2)
        again = await place.ask("web_write", "o2")
    for view in (early, late):
        assert (view["state"], view["outcome"], view["sent"]) == ("awaiting_reconciliation", "ambiguous", "unknown")
    assert (again["call_id"], again["state"]) == (late["call_id"], "awaiting_reconciliation")
    assert (read["outcome"], read["sent"]) == ("retryable_failure", "unknown")
    assert [one["order_id"] for one in far.effects.all()] == ["o1", "o2"]


@contextmanager
def full_listener() -> Generator[tuple[socket.socket, list[socket.socket]]]:
    """A port whose queue is full, so that whoever connects now waits for a place; and those in the queue."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        queued: list[socket.socket] = []
        try:
            while True:
                one = socket.socket()
                one.settimeout(0.05)
                try:
                    one.connect(listener.getsockname())
                except TimeoutError:
                    one.close()
                    break
                queued.append(one)
            yield listener, queued
        finally:
            for one in queued:
                one.close()


def received(listener: socket.socket) -> bytes | None:
    """What the next connection sends until it is closed; None if none comes."""
    try:
        connection, _ = listener.accept()
    except OSError:
        return None
    with connection:
        connection.settimeout(LIMIT_S)
        return connection.recv(1000)
