"""How fast the ledger records, beside a bare writer that does the same with nothing around it: `make bench` runs it.

A call is two durable facts: T1 (a call's row and its event) and T2 (a guarded change of that row and its event). The
bare writer groups and commits in the same way, on the same kind of file, with hand-written SQL and hashes made
beforehand; `writer` adds facts, chain and isolation; `governed` is what a write really records, with its guards,
sealed payloads and attempts. Rounds alternate, the best counts; CPU is the whole process's, all threads, for a call.

    python -m counterfoil.ledger.measure [--json] [--calls N] [--rounds N] [--durability full|normal]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, update

from ..canonical import JsonObject
from . import migrations
from .admission import Neighbours
from .chain import Head, append, link
from .dispatching import Attempt, Dispatched, dispatch_new
from .events import EventType
from .rows import CallRow
from .sealing import Kind, Sealed
from .settling import Settlement, settle
from .sql import Fact, Sql, change
from .states import CallState
from .store import Ledger, LedgerSettings
from .tables import calls
from .writer import Writer

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
SETTLE_CALL = Sql(
    update(calls)
    .where(calls.c.call_id == bindparam("of", type_=calls.c.call_id.type), calls.c.generation == 1)
    .where(calls.c.state == CallState.DISPATCHED.value)
    .values({name: bindparam(name) for name in ("state", "outcome", "sent", "settled_at", "seq", "head")})
)


@dataclass(frozen=True, slots=True)
class Figure:
    """Calls a second at one concurrency, how much of the bare writer's rate that is, and CPU for a call."""

    concurrency: int
    bare: float
    writer: float
    governed: float
    writer_ratio: float
    governed_ratio: float
    bare_cpu_us: float
    writer_cpu_us: float
    governed_cpu_us: float


class _Pace(NamedTuple):
    rate: float
    cpu_us: float


def measure(count: int, rounds: int, durability: migrations.Durability) -> list[Figure]:
    """Measure both at each concurrency, in a folder of their own that is removed."""
    return [asyncio.run(_compare(concurrency, count, rounds, durability)) for concurrency in CONCURRENCY]


async def _compare(concurrency: int, count: int, rounds: int, durability: migrations.Durability) -> Figure:
    count = max(min(count, count * concurrency // 16), 50)
    paces: dict[str, list[_Pace]] = {"bare": [], "writer": [], "governed": []}
    for _ in range(rounds):
        for name, run in (("bare", _bare), ("writer", _writer), ("governed", _governed)):
            with tempfile.TemporaryDirectory() as folder:
                paces[name].append(await run(Path(folder) / "ledger.db", concurrency, count, durability))
    bare, writer, governed = (max(pace.rate for pace in found) for found in paces.values())
    ratios = round(writer / bare, 2), round(governed / bare, 2)
    cpu = (round(min(pace.cpu_us for pace in found)) for found in paces.values())
    return Figure(concurrency, round(bare), round(writer), round(governed), *ratios, *cpu)


async def _drive(call: _Call, concurrency: int, count: int) -> _Pace:
    numbers = iter(range(count))

    async def client() -> None:
        for n in numbers:
            await call(n)

    begun, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(client())
    return _Pace(count / (time.perf_counter() - begun), (time.process_time() - cpu) / count * 1e6)


# The ledger's writer.


def _dispatch(call_id: str) -> Fact[Head]:
    head = yield from append(
        Head.new(call_id), tenant="local", call_id=call_id, type=EventType.DISPATCHED, at=_NOW, data={**_EVENT}
    )
    yield from change(INSERT_CALL, **CALL, call_id=call_id, run_id=call_id, head=head.hash, owner_id="own")
    return head


def _settle(head: Head) -> Fact[None]:
    call_id = head.run_id
    head = yield from append(
        head._replace(at=None), tenant="local", call_id=call_id, type=EventType.SETTLED, at=_NOW, data={**_EVENT}
    )
    changed = yield from change(
        SETTLE_CALL,
        of=call_id, state="settled", outcome="success", sent="yes", settled_at=_NOW, seq=head.seq, head=head.hash,
    )  # fmt: skip
    if changed != 1:
        raise LookupError(call_id)


async def _writer(path: Path, concurrency: int, count: int, durability: migrations.Durability) -> _Pace:
    writer = await Writer.open(path, lambda: migrations.connect(path, now=_NOW, durability=durability))

    async def call(n: int) -> None:
        call_id = f"call_{n:032x}"
        head = await writer.record(lambda: _dispatch(call_id))
        await writer.record(lambda: _settle(head))

    try:
        return await _drive(call, concurrency, count)
    finally:
        await writer.close()


# Everything that a governed write records.


async def _governed(path: Path, concurrency: int, count: int, durability: migrations.Durability) -> _Pace:
    ledger = await Ledger.open(LedgerSettings(path=path, clock=lambda: _NOW, durability=durability))

    async def call(n: int) -> None:
        call_id = f"call_{n:032x}"
        arguments = _sealed(ledger, call_id, "arguments")
        row = CallRow(**{name: CALL[name] for name in _ASKED}, call_id=call_id, run_id=call_id)
        who = Neighbours(
            "local", "me", "refund", CALL["args_digest"], None, is_read=False, direct=True, now=_NOW, window=0
        )
        attempt = Attempt(ledger.owner_id, _NOW, None, request_open=True)
        sent = await ledger.record(lambda: dispatch_new(row, who, arguments, attempt))
        assert isinstance(sent, Dispatched)
        settlement = Settlement("success", "yes", _NOW, output=_sealed(ledger, call_id, "output"))
        await ledger.record(lambda: settle(call_id, 1, settlement))

    try:
        return await _drive(call, concurrency, count)
    finally:
        await ledger.close()


def _sealed(ledger: Ledger, call_id: str, kind: Kind) -> Sealed:
    return ledger.seal(payload_id=f"{kind}_{call_id}", call_id=call_id, tenant="local", kind=kind, content=_CONTENT)


# The bare writer: one thread, one transaction for all that waits, nothing else.

_Work = tuple[tuple[tuple[str, tuple[Any, ...]], ...], "asyncio.Future[None]"]


def _serve(path: Path, durability: str, queue: SimpleQueue[_Work | None], loop: asyncio.AbstractEventLoop) -> None:
    connection = migrations.connect(path, now=_NOW, durability="full" if durability == "full" else "normal")
    while (first := queue.get()) is not None:
        batch = [first]
        connection.execute("BEGIN IMMEDIATE")
        try:
            while (more := queue.get_nowait()) is not None:
                batch.append(more)
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
        future.set_result(None)


async def _bare(path: Path, concurrency: int, count: int, durability: migrations.Durability) -> _Pace:
    loop = asyncio.get_running_loop()
    queue: SimpleQueue[_Work | None] = SimpleQueue()
    thread = threading.Thread(target=_serve, args=(path, durability, queue, loop))
    thread.start()
    names = (*CALL, "call_id", "run_id", "head", "owner_id")
    insert_call = f"INSERT INTO calls ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608
    columns = ("run_id", "seq", "call_id", "tenant", "type", "at", "body", "prev", "hash")
    insert_event = f"INSERT INTO events ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
    settle_call = (
        "UPDATE calls SET state = ?, outcome = ?, sent = ?, settled_at = ?, seq = ?, head = ? "
        "WHERE call_id = ? AND generation = 1 AND state = 'dispatched'"
    )
    body = json.dumps({"at": "2026-09-21T14:13:20.000000Z", "run_id": "call_" + "0" * 32, "seq": 1, **_EVENT})
    digest = link(b"", body.encode())
    fixed = tuple(CALL.values())

    async def submit(*statements: tuple[str, tuple[Any, ...]]) -> None:
        future: asyncio.Future[None] = loop.create_future()
        queue.put((statements, future))
        await future

    async def call(n: int) -> None:
        name = f"call_{n:032x}"
        await submit(
            (insert_event, (name, 1, name, "local", "dispatched", _NOW, body, digest, digest)),
            (insert_call, (*fixed, name, name, digest, "own")),
        )
        await submit(
            (insert_event, (name, 2, name, "local", "settled", _NOW, body, digest, digest)),
            (settle_call, ("settled", "success", "yes", _NOW, 2, digest, name)),
        )

    try:
        return await _drive(call, concurrency, count)
    finally:
        queue.put(None)
        await asyncio.to_thread(thread.join)


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m counterfoil.ledger.measure", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--durability", choices=("full", "normal"), default="full")
    chosen = parser.parse_args()
    figures = measure(chosen.calls, chosen.rounds, chosen.durability)
    if chosen.json:
        sys.stdout.write(json.dumps([asdict(figure) for figure in figures]) + "\n")
        return
    sys.stdout.write("concurrency   calls/s: bare   writer  (of bare)   governed  (of bare)   CPU us a call, each\n")
    for one in figures:
        rates = f"{one.bare:6,.0f}   {one.writer:6,.0f}     {one.writer_ratio:5.2f}     {one.governed:8,.0f}"
        cpu = f"{one.bare_cpu_us:7,.0f} {one.writer_cpu_us:6,.0f} {one.governed_cpu_us:6,.0f}"
        sys.stdout.write(f"{one.concurrency:11d}         {rates}     {one.governed_ratio:5.2f}     {cpu}\n")


if __name__ == "__main__":
    main()
