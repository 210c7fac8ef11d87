"""A ledger as it lies there, looked at from outside: nothing is made, migrated, taken over or entered.

For whoever asks whether it could be opened and what waits in it; a ledger's own health while it is open is `Health`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import func, select

from . import owners
from .checkpoint import LogLimits
from .holding import HoldRow, list_holds
from .migrations import LATEST, is_whole, recognise
from .place import reading
from .presence import is_held, lock_file
from .sql import Count, Sql, fetch, one, run
from .states import CallState
from .tables import approvals, calls, events, payloads
from .verify import chain_problem

LARGE_LOG_BYTES = LogLimits().bound_bytes
"""Beyond it a running server calls itself degraded."""


class Newest(NamedTuple):
    """The newest event: its chain, and when it was recorded (microseconds since 1970 in UTC)."""

    run_id: str
    at: int


class _State(NamedTuple):
    state: str
    n: int


@dataclass(frozen=True, slots=True)
class Process:
    """One process that entered itself and did not leave; `lives` is None where nothing proves either."""

    pid: int
    host: str
    started_at: int
    lives: bool | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a ledger holds. A `version` other than `latest` leaves the rest empty: its tables are another version's."""

    version: int
    latest: int = LATEST
    whole: bool = True
    calls: dict[str, int] | None = None
    pending: int = 0
    sealed: int = 0
    newest: Newest | None = None
    broken: str | None = None
    processes: tuple[Process, ...] = ()
    holds: tuple[HoldRow, ...] = ()

    @property
    def is_current(self) -> bool:
        """True if this version wrote it."""
        return self.version == self.latest

    @property
    def unresolved(self) -> int:
        """Calls of which nobody knows what became."""
        return (self.calls or {}).get(CallState.AWAITING_RECONCILIATION, 0)


COUNT_STATES = Sql(select(calls.c.state, func.count()).group_by(calls.c.state), _State)
COUNT_PENDING = Sql(select(func.count()).select_from(approvals).where(approvals.c.state == "pending"), Count)
COUNT_SEALED = Sql(select(func.count()).select_from(payloads), Count)
SELECT_NEWEST = Sql(select(events.c.run_id, events.c.at).order_by(events.c.id.desc()).limit(1), Newest)


def inspect(path: Path) -> Inspection:
    """Look at a ledger that is there, beside whatever servers write. Of the chains only the newest one is checked.

    Raises:
        DamagedLedgerError, LedgerLockedError, CannotRecordError: see `place.reading`.
        NewerLedgerError: a later version wrote it.
    """
    with reading(path) as connection:
        version = recognise(connection, path)
        if version != LATEST:
            return Inspection(version)
        if not is_whole(connection):
            return Inspection(version, whole=False)
        newest = run(connection, one(SELECT_NEWEST))
        problem = run(connection, chain_problem(newest.run_id)) if newest else None
        return Inspection(
            version,
            calls={row.state: row.n for row in run(connection, fetch(COUNT_STATES))},
            pending=(run(connection, one(COUNT_PENDING)) or Count(0)).n,
            sealed=(run(connection, one(COUNT_SEALED)) or Count(0)).n,
            newest=newest,
            broken=f"{problem.run_id}, event {problem.seq}: {problem.what}" if problem else None,
            processes=tuple(_process(path, owner) for owner in run(connection, owners.living())),
            holds=tuple(run(connection, list_holds())),
        )


def _process(path: Path, owner: owners.Owner) -> Process:
    return Process(owner.pid, owner.host, owner.started_at, is_held(lock_file(path, owner.owner_id)))
