"""Which runs there is something to do about: those with a wake, those whose time has come, those that nobody drives.

Only questions, page by page; what is done about a find is in `runs`.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, func, or_, select

from .finding import PAGE
from .run_rows import WAKE
from .sql import Fact, Sql, fetch
from .tables import outbox, owners, runs


class Wake(NamedTuple):
    """A run that is to be looked at; `n` orders the pages."""

    n: int
    run_id: str


class RunId(NamedTuple):
    """The name of a run."""

    run_id: str


_GONE = or_(owners.c.lapsed_at.is_not(None), owners.c.ended_at.is_not(None))
WAKES: Sql[Wake] = Sql(
    select(func.max(outbox.c.id), outbox.c.run_id)
    .select_from(
        outbox.outerjoin(runs, runs.c.run_id == outbox.c.run_id).outerjoin(owners, owners.c.owner_id == runs.c.owner_id)
    )
    .where(
        outbox.c.topic == WAKE,
        outbox.c.id > bindparam("after"),
        or_(runs.c.owner_id.is_(None), runs.c.owner_id == bindparam("owner_id"), _GONE),
    )
    .group_by(outbox.c.run_id)
    .order_by(func.max(outbox.c.id))
    .limit(PAGE),
    Wake,
)
"""Runs that somebody posted a wake for, apart from those that another living process drives."""
DUE_RUNS: Sql[RunId] = Sql(
    select(runs.c.run_id)
    .where(
        runs.c.due_at.is_not(None),
        runs.c.due_at <= bindparam("now"),
        runs.c.owner_id.is_(None),
        runs.c.run_id > bindparam("after", type_=runs.c.run_id.type),
    )
    .order_by(runs.c.run_id)
    .limit(PAGE),
    RunId,
)
ORPHAN_RUNS: Sql[RunId] = Sql(
    select(runs.c.run_id)
    .select_from(runs.join(owners, owners.c.owner_id == runs.c.owner_id))
    .where(runs.c.owner_id.is_not(None), _GONE, runs.c.run_id > bindparam("after", type_=runs.c.run_id.type))
    .order_by(runs.c.run_id)
    .limit(PAGE),
    RunId,
)


def list_wakes(owner_id: str, after: int = 0) -> Fact[list[Wake]]:
    """A page of the runs that are to be looked at, in the order of their wakes."""
    return (yield from fetch(WAKES, owner_id=owner_id, after=after))


def list_due_runs(now: int, after: str = "") -> Fact[list[str]]:
    """A page of the parked runs that may go on by now, in the order of their ids."""
    return [row.run_id for row in (yield from fetch(DUE_RUNS, now=now, after=after))]


def list_orphan_runs(after: str = "") -> Fact[list[str]]:
    """A page of the runs whose driver is gone, in the order of their ids."""
    return [row.run_id for row in (yield from fetch(ORPHAN_RUNS, after=after))]
