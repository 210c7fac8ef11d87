"""What the driver of a run asks about single calls of it, apart from loading them all, and how it takes one up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import bindparam, or_, select, text

from ..canonical import JsonObject
from .admission import owner_lives
from .events import EventType
from .finding import PAGE
from .rows import CallRow, get_call, touch
from .run_rows import standing
from .sql import Fact, Sql, fetch, one
from .states import CallState
from .tables import calls, owners, runs

SELECT_AT: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields]).where(
        calls.c.run_id == bindparam("run_id"),
        calls.c.step == bindparam("step"),
        calls.c.item == bindparam("item"),
        calls.c.route == "step",
    ),
    CallRow,
)


class Stranded(NamedTuple):
    """An unresolved step whose owner is gone, of a run that is not finished."""

    call_id: str
    run_id: str
    tool: str
    version: str


STRANDED: Sql[Stranded] = Sql(
    select(calls.c.call_id, calls.c.run_id, calls.c.tool, calls.c.version)
    .select_from(calls.join(owners, owners.c.owner_id == calls.c.owner_id).join(runs, runs.c.run_id == calls.c.run_id))
    .where(
        text("calls.state != 'settled' AND calls.state != 'refused'"),
        calls.c.state == "awaiting_reconciliation",
        or_(owners.c.lapsed_at.is_not(None), owners.c.ended_at.is_not(None)),
        runs.c.finished_at.is_(None),
        calls.c.call_id > bindparam("after", type_=calls.c.call_id.type),
    )
    .order_by(calls.c.call_id)
    .limit(PAGE),
    Stranded,
)


def list_stranded(after: str = "") -> Fact[list[Stranded]]:
    """A page of the unresolved steps that whoever drives their run follows up once, in the order of their ids."""
    return (yield from fetch(STRANDED, after=after))


def calls_at(run_id: str, places: Iterable[tuple[str, int]]) -> Fact[list[CallRow | None]]:
    """The call of each of these steps (item -1) or items, None where none was recorded."""
    found: list[CallRow | None] = []
    for step, item in places:
        found.append((yield from one(SELECT_AT, run_id=run_id, step=step, item=item)))
    return found


def rows_of(call_ids: Iterable[str]) -> Fact[dict[str, CallRow]]:
    """These calls as they are now, by id."""
    found: dict[str, CallRow] = {}
    for call_id in call_ids:
        row = yield from get_call(call_id)
        if row is not None:
            found[call_id] = row
    return found


def claim_step(call_id: str, owner_id: str, at: int) -> Fact[CallRow | None]:
    """Have a queued call of a run carried on by its driver, whoever owned it; None if it is not queued, or not its.

    Whoever else still had it in hand is refused at its T1, which asks who drives the run.
    """
    row = yield from get_call(call_id)
    if row is None or row.state != CallState.QUEUED or not row.in_run:
        return None
    if (yield from standing(row.run_id)).owner_id != owner_id:
        return None
    if row.owner_id == owner_id:
        return row
    data: JsonObject = {"from": row.owner_id, "to": owner_id} if row.owner_id is not None else {"to": owner_id}
    return (yield from touch(row, EventType.CLAIMED, at, data, owner_id=owner_id, request_owner=None))


def living(owner_ids: Iterable[str]) -> Fact[frozenset[str]]:
    """Those of these owners that neither ended nor were declared lapsed."""
    found: set[str] = set()
    for owner_id in owner_ids:
        if (yield from owner_lives(owner_id)):
            found.add(owner_id)
    return frozenset(found)
