"""What the driver of a run asks about single calls of it, apart from loading them all; nothing is changed here."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import bindparam, select

from .admission import owner_lives
from .rows import CallRow, get_call
from .sql import Fact, Sql, one
from .tables import calls

SELECT_AT: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields]).where(
        calls.c.run_id == bindparam("run_id"),
        calls.c.step == bindparam("step"),
        calls.c.item == bindparam("item"),
        calls.c.route == "step",
    ),
    CallRow,
)


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


def living(owner_ids: Iterable[str]) -> Fact[frozenset[str]]:
    """Those of these owners that neither ended nor were declared lapsed."""
    found: set[str] = set()
    for owner_id in owner_ids:
        if (yield from owner_lives(owner_id)):
            found.add(owner_id)
    return frozenset(found)
