"""Counts and sizes of a ledger, for people and for monitoring. No content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import distinct, func, select

from .budgeting import CounterRow, list_counters
from .owners import living
from .place import reading
from .sql import Sql, fetch, one, run
from .states import ENDED
from .tables import calls, events, payloads


class _State(NamedTuple):
    state: str
    n: int


class _Sum(NamedTuple):
    a: int
    b: int


class OldestOpen(NamedTuple):
    """The call that has been open for longest."""

    call_id: str
    state: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Sizes are bytes on disk, `payload_bytes` those of the content before it was sealed."""

    calls: dict[str, int]
    events: int
    runs: int
    payloads: int
    payload_bytes: int
    database_bytes: int
    wal_bytes: int
    owners: int
    oldest_open: OldestOpen | None


COUNT_STATES = Sql(select(calls.c.state, func.count()).group_by(calls.c.state).order_by(calls.c.state), _State)
COUNT_EVENTS = Sql(select(func.count(), func.count(distinct(events.c.run_id))).select_from(events), _Sum)
COUNT_PAYLOADS = Sql(select(func.count(), func.coalesce(func.sum(payloads.c.bytes), 0)).select_from(payloads), _Sum)
SELECT_OLDEST_OPEN = Sql(
    select(calls.c.call_id, calls.c.state, calls.c.created_at)
    .where(*(calls.c.state != state.value for state in sorted(ENDED)))
    .order_by(calls.c.created_at, calls.c.call_id)
    .limit(1),
    OldestOpen,
)


def stats(path: Path) -> Stats:
    """Count, beside whatever servers write.

    Raises:
        DamagedLedgerError, LedgerLockedError, CannotRecordError: see `place.reading`.
    """
    with reading(path) as connection:
        counted = run(connection, one(COUNT_EVENTS)) or _Sum(0, 0)
        stored = run(connection, one(COUNT_PAYLOADS)) or _Sum(0, 0)
        wal = path.with_name(f"{path.name}-wal")
        return Stats(
            calls={row.state: row.n for row in run(connection, fetch(COUNT_STATES))},
            events=counted.a,
            runs=counted.b,
            payloads=stored.a,
            payload_bytes=int(stored.b),
            database_bytes=path.stat().st_size,
            wal_bytes=wal.stat().st_size if wal.exists() else 0,
            owners=len(run(connection, living())),
            oldest_open=run(connection, one(SELECT_OLDEST_OPEN)),
        )


def counters(path: Path, since: int) -> list[CounterRow]:
    """What is used of budgets and limits, in windows that began at or after this time. Raises what `stats` raises."""
    with reading(path) as connection:
        return run(connection, list_counters(since))
