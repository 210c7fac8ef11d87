"""What a recorded call costs, beside two ways of writing the same rows: what the bench has the ledger measured by.

A call is two durable facts: T1 (a call's row and its event) and T2 (a guarded change of that row and its event).
`bare` groups and commits as our writer does, on the same kind of file, with hand-written SQL and hashes made
beforehand. `naive` sends each statement through SQLAlchemy's asynchronous engine, a transaction for each fact.
`governed` is what a write really records, with its guards, sealed payloads and attempts.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from sqlalchemy import bindparam

from ..canonical import JsonObject
from . import migrations
from .admission import Neighbours
from .chain import link
from .dispatching import Attempt, Dispatched, dispatch_new
from .rows import CallRow
from .sealing import Kind, Sealed
from .settling import Settlement, settle
from .sql import Sql
from .store import Ledger, LedgerSettings
from .tables import calls

SQLITE_VERSION: Final = sqlite3.sqlite_version
CONCURRENCY: Final = (1, 16, 64, 128)
_NOW: Final = 1_790_000_000_000_000
_Call = Callable[[int], Awaitable[None]]

CALL: Final[dict[str, Any]] = {
    "route": "direct", "tenant": "local", "subject": "me", "client": "bench", "scopes": "[]", "claimed": "{}",
    "tool": "refund", "version": "1", "schema_digest": "0" * 64, "effect": "write", "args_digest": "0" * 64,
    "args_payload": "", "args_shown": "{}", "resources": "[]", "action_id": "act", "key_retention": 0,
    "state": "dispatched", "sent": "unknown", "retryable": 0, "attempts": 1, "generation": 1, "by_decision": 0,
    "created_at": _NOW, "request_owner": "own", "revision": 1, "seq": 1,
}  # fmt: skip
_ASKED: Final = (
    "route", "tenant", "subject", "client", "scopes", "claimed", "tool", "version", "schema_digest", "effect",
    "args_digest", "args_payload", "args_shown", "resources", "action_id", "key_retention", "created_at",
)  # fmt: skip
_CONTENT: Final = b'{"amount":49.9,"note":"delivered six days late","order_id":"ord_17"}' * 4
_EVENT: Final[JsonObject] = {"tool": "refund", "args": "0" * 64, "generation": 1, "owner": "own_" + "0" * 32}

INSERT_CALL = Sql(
    calls.insert().values({name: bindparam(name) for name in (*CALL, "call_id", "run_id", "head", "owner_id")})
)


class Way(StrEnum):
    """How the rows are written."""

    BARE = "bare"
    NAIVE = "naive"
    GOVERNED = "governed"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call cost, in seconds: CPU time of all threads, and time on the clock."""

    cpu_s: float
    wall_s: float


async def cost(way: Way, concurrency: int, count: int, durability: migrations.Durability = "full") -> Cost:
    """What one of so many calls cost, so many of them at once, on a new file in a folder that is removed."""
    run = {Way.BARE: _bare, Way.NAIVE: _naive, Way.GOVERNED: _governed}[way]
    with tempfile.TemporaryDirectory(prefix="counterfoil-bench-") as folder:
        return await run(Path(folder) / "ledger.db", concurrency, count, durability)


async def fill(path: Path, count: int) -> None:
    """Record so many settled calls in the ledger of this file, quickly."""
    await _governed(path, CONCURRENCY[-1], count, "normal")


async def _drive(call: _Call, concurrency: int, count: int) -> Cost:
    numbers = iter(range(count))

    async def client() -> None:
        for n in numbers:
            await call(n)

    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(client())
    return Cost((time.process_time() - cpu) / count, (time.perf_counter() - wall) / count)


# Everything that a governed write records.


async def _governed(path: Path, concurrency: int, count: int, durability: migrations.Durability) -> Cost:
    ledger = await Ledger.open(LedgerSettings(path=path, clock=lambda: _NOW, durability=durability))

    async def call(n: int) -> None:
        call_id = f"call_{n:032x}"
        arguments = _sealed(ledger, call_id, "arguments")
        asked: dict[str, Any] = {name: CALL[name] for name in _ASKED} | {"args_digest": f"{n:064x}"}
        row = CallRow(**asked, call_id=call_id, run_id=call_id)
        who = Neighbours("local", "me", "refund", row.args_digest, None, is_read=False, direct=True, now=_NOW, window=0)
        attempt = Attempt(ledger.owner_id, _NOW, None, request_open=True)
        sent = await ledger.record(lambda: dispatch_new(row, who, arguments, attempt))
        assert isinstance(sent, Dispatched)
        settlement = Settlement("success", "yes", _NOW, output=_sealed(ledger, call_id, "output"))
        await ledger.record(lambda: settle(call_id, 1, settlement, known=sent.row))

    try:
        return await _drive(call, concurrency, count)
    finally:
        await ledger.close()


def _sealed(ledger: Ledger, call_id: str, kind: Kind) -> Sealed:
    return ledger.seal(payload_id=f"{kind}_{call_id}", call_id=call_id, tenant="local", kind=kind, content=_CONTENT)


# The bare writer: one thread, one transaction for all that waits, nothing else.

_Statement: TypeAlias = tuple[str, tuple[Any, ...]]
_Work: TypeAlias = tuple[tuple[_Statement, ...], "asyncio.Future[None]"]
_SETTLE: Final = (
    "UPDATE calls SET state = ?, outcome = ?, sent = ?, settled_at = ?, seq = ?, head = ? "
    "WHERE call_id = ? AND generation = 1 AND state = 'dispatched'"
)


def _serve(path: Path, durability: str, queue: SimpleQueue[_Work | None], loop: asyncio.AbstractEventLoop) -> None:
    connection = migrations.connect(path, now=_NOW, durability="full" if durability == "full" else "normal")
    while (first := queue.get()) is not None:
        batch = [first]
        connection.execute("BEGIN IMMEDIATE")
        try:
            while (more := queue.get_nowait()) is not None:
                batch.append(more)
            queue.put(None)  # the end was among them, and is for the outer loop
        except Empty:
            pass
        for statements, _ in batch:
            for text, values in statements:
                connection.execute(text, values)
        connection.execute("COMMIT")
        loop.call_soon_threadsafe(_tell, [future for _, future in batch])
    connection.close()


def _tell(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():  # else its caller was interrupted
            future.set_result(None)


class _Rows:
    """The statements and values that both references write."""

    def __init__(self) -> None:
        names = (*CALL, "call_id", "run_id", "head", "owner_id")
        columns = ("run_id", "seq", "call_id", "tenant", "type", "at", "body", "prev", "hash")
        self.insert_call = f"INSERT INTO calls ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 (our own names)
        self.insert_event = f"INSERT INTO events ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
        body = {"at": "2026-09-21T14:13:20.000000Z", "run_id": "call_" + "0" * 32, "seq": 1, **_EVENT}
        self._body = json.dumps(body)
        self._digest = link(b"", self._body.encode())
        self._fixed = tuple(CALL.values())

    def sent(self, name: str) -> tuple[_Statement, ...]:
        """T1."""
        digest = self._digest
        event = (name, 1, name, "local", "dispatched", _NOW, self._body, digest, digest)
        return (self.insert_event, event), (self.insert_call, (*self._fixed, name, name, digest, "own"))

    def settled(self, name: str) -> tuple[_Statement, ...]:
        """T2."""
        digest = self._digest
        event = (name, 2, name, "local", "settled", _NOW, self._body, digest, digest)
        return (self.insert_event, event), (_SETTLE, ("settled", "success", "yes", _NOW, 2, digest, name))


async def _bare(path: Path, concurrency: int, count: int, durability: migrations.Durability) -> Cost:
    loop = asyncio.get_running_loop()
    queue: SimpleQueue[_Work | None] = SimpleQueue()
    thread = threading.Thread(target=_serve, args=(path, durability, queue, loop))
    thread.start()
    rows = _Rows()

    async def submit(statements: tuple[_Statement, ...]) -> None:
        future: asyncio.Future[None] = loop.create_future()
        queue.put((statements, future))
        await future

    async def call(n: int) -> None:
        name = f"call_{n:032x}"
        await submit(rows.sent(name))
        await submit(rows.settled(name))

    try:
        return await _drive(call, concurrency, count)
    finally:
        queue.put(None)
        await asyncio.to_thread(thread.join)


# The naive way: every statement by itself through the asynchronous engine.


async def _naive(path: Path, concurrency: int, count: int, durability: migrations.Durability) -> Cost:
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 (slow to load; nothing else here needs it)

    migrations.connect(path, now=_NOW, durability=durability).close()
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}", connect_args={"timeout": 60.0})
    synchronous = "FULL" if durability == "full" else "NORMAL"
    one_writer, rows = asyncio.Lock(), _Rows()

    async def submit(statements: tuple[_Statement, ...]) -> None:
        async with one_writer, engine.begin() as connection:
            for text, values in statements:
                await connection.exec_driver_sql(text, values)

    async def call(n: int) -> None:
        name = f"call_{n:032x}"
        await submit(rows.sent(name))
        await submit(rows.settled(name))

    try:
        async with engine.connect() as connection:
            await connection.exec_driver_sql(f"PRAGMA synchronous={synchronous}")
        return await _drive(call, concurrency, count)
    finally:
        await engine.dispose()
