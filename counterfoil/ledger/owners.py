"""Which processes work on this ledger, and which of them are gone.

An owner is one process. It beats by counting up; a watcher that sees the count stand still for a lease, by the
watcher's own monotonic clock, declares the lapse by compare-and-set on the count, so that an owner that beats just
then is not declared gone. A lapse is never taken back. No rule here reads a wall clock: those jump.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import ColumnElement, bindparam, null, select, update

from .sql import Fact, Sql, change, fetch, one
from .tables import owners


class Owner(NamedTuple):
    """One process that works, or worked, on this ledger."""

    owner_id: str
    host: str
    pid: int
    started_at: int
    beat: int
    lapsed_at: int | None
    ended_at: int | None


_c = owners.c
_of: ColumnElement[bool] = _c.owner_id == bindparam("of", type_=_c.owner_id.type)
_living = _c.lapsed_at.is_(null()) & _c.ended_at.is_(null())
_OWNER = select(_c.owner_id, _c.host, _c.pid, _c.started_at, _c.beat, _c.lapsed_at, _c.ended_at)

INSERT_OWNER = Sql(owners.insert())
BEAT = Sql(update(owners).where(_of, _living).values(beat=_c.beat + 1, beat_at=bindparam("now", type_=_c.beat_at.type)))
LAPSE = Sql(
    update(owners)
    .where(_of, _living, _c.beat == bindparam("observed", type_=_c.beat.type))
    .values(lapsed_at=bindparam("now", type_=_c.lapsed_at.type))
)
END = Sql(update(owners).where(_of, _living).values(ended_at=bindparam("now", type_=_c.ended_at.type)))
SELECT_OWNER = Sql(_OWNER.where(_of), Owner)
SELECT_LIVING = Sql(_OWNER.where(_living).order_by(_c.owner_id), Owner)


def register(owner_id: str, host: str, pid: int, now: int) -> Fact[None]:
    """Enter an owner."""
    yield from change(
        INSERT_OWNER,
        owner_id=owner_id, host=host, pid=pid, started_at=now, beat=0, beat_at=now, lapsed_at=None, ended_at=None,
    )  # fmt: skip


def beat(owner_id: str, now: int) -> Fact[bool]:
    """Say that this owner lives; False if it was declared lapsed: its leases are no longer its own."""
    return (yield from change(BEAT, of=owner_id, now=now)) == 1


def declare_lapsed(owner_id: str, observed_beat: int, now: int) -> Fact[bool]:
    """Say that an owner is gone; False if it beat since, had ended, or another watcher was first."""
    return (yield from change(LAPSE, of=owner_id, observed=observed_beat, now=now)) == 1


def end(owner_id: str, now: int) -> Fact[bool]:
    """Say that this owner ends in order; False if it had been declared lapsed."""
    return (yield from change(END, of=owner_id, now=now)) == 1


def get(owner_id: str) -> Fact[Owner | None]:
    """One owner."""
    return (yield from one(SELECT_OWNER, of=owner_id))


def living() -> Fact[list[Owner]]:
    """Every owner that neither ended nor was declared lapsed."""
    return (yield from fetch(SELECT_LIVING))


class Watch:
    """Tells which owners stood still for a lease. Pure: it is told the counts and the watcher's monotonic time.

    One look credits at most a quarter of a lease, however long ago the one before was: a watcher that was itself
    stopped, or a machine that slept, must look several times before it may call anybody gone.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._seen: dict[str, tuple[int, float, float]] = {}  # owner: beat, time of the last look, seconds stood still

    def look(self, beats: Iterable[tuple[str, int]], now: float) -> list[tuple[str, int]]:
        """The owners, each with its count, that have stood still for the lease; owners not named are forgotten."""
        seen: dict[str, tuple[int, float, float]] = {}
        for owner_id, count in beats:
            known = self._seen.get(owner_id)
            if known is None or known[0] != count:
                seen[owner_id] = (count, now, 0.0)
            else:
                seen[owner_id] = (count, now, known[2] + min(max(now - known[1], 0.0), self._lease_s / 4))
        self._seen = seen
        return [(owner_id, count) for owner_id, (count, _, still) in seen.items() if still >= self._lease_s]
