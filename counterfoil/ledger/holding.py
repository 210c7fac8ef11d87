"""Holds: what an operator has stopped, and the facts that set, lift, list and ask for them.

Each hold set or lifted leaves an event in a chain of its own, in the same transaction. T1 asks `standing_hold`; a hold
keeps back what was not sent yet and touches nothing that is under way.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import and_, bindparam, delete, insert, literal, or_, select

from .admission import Held
from .chain import append, head_of
from .events import EventType
from .rows import CallRow
from .run_rows import WAKE
from .sql import Fact, Sql, add, change, fetch, one
from .tables import holds, outbox, runs

T = TypeVar("T")
CHAIN: Final = "holds"


class HoldRow(NamedTuple):
    """One hold that stands: kind is all, tool, tenant, subject or run; the name is empty for all."""

    kind: str
    name: str
    by: str
    reason: str
    at: int


_COLUMNS: Final = (holds.c.kind, holds.c.name, holds.c.by, holds.c.reason, holds.c.at)
_THIS: Final = and_(holds.c.kind == bindparam("of_kind"), holds.c.name == bindparam("of_name"))
SELECT_HOLD: Sql[HoldRow] = Sql(select(*_COLUMNS).where(_THIS), HoldRow)
SELECT_HOLDS: Sql[HoldRow] = Sql(select(*_COLUMNS).order_by(holds.c.at, holds.c.kind, holds.c.name), HoldRow)
SELECT_STANDING: Sql[HoldRow] = Sql(
    select(*_COLUMNS)
    .where(
        or_(
            holds.c.kind == "all",
            *(and_(holds.c.kind == kind, holds.c.name == bindparam(kind)) for kind in ("tool", "tenant", "subject")),
            and_(holds.c.kind == "run", holds.c.name == bindparam("run")),
        )
    )
    .order_by(holds.c.at)
    .limit(1),
    HoldRow,
)
_KIND: Final = bindparam("of_kind", type_=holds.c.kind.type)
_NAME: Final = bindparam("of_name", type_=holds.c.name.type)
WAKE_CONCERNED: Sql[Any] = Sql(
    insert(outbox).from_select(
        ["topic", "run_id", "at"],
        select(literal(WAKE), runs.c.run_id, bindparam("at", type_=outbox.c.at.type)).where(
            runs.c.finished_at.is_(None),
            or_(
                _KIND == "all",
                _KIND == "tool",
                and_(_KIND == "tenant", runs.c.tenant == _NAME),
                and_(_KIND == "subject", runs.c.subject == _NAME),
                and_(_KIND == "run", runs.c.run_id == _NAME),
            ),
        ),
    )
)
"""Whatever else such a run waits for, one of its branches may wait for the release; one that is driven looks again."""
DELETE_HOLD: Sql[Any] = Sql(delete(holds).where(_THIS))


def set_hold(kind: str, name: str, by: str, reason: str, at: int) -> Fact[HoldRow]:
    """Hold it from here on; one that stands already is left as it is."""
    found = yield from one(SELECT_HOLD, of_kind=kind, of_name=name)
    if found is not None:
        return found
    made = HoldRow(kind, name, by, reason, at)
    yield from add(holds, made)
    yield from _note(EventType.HELD, made, by, at)
    return made


def lift_hold(kind: str, name: str, by: str, at: int) -> Fact[HoldRow | None]:
    """Lift a hold, and wake the runs that may wait for that; gives the one that stood, None if there was none."""
    found = yield from one(SELECT_HOLD, of_kind=kind, of_name=name)
    if found is not None:
        yield from change(DELETE_HOLD, of_kind=kind, of_name=name)
        yield from _note(EventType.RELEASED, found, by, at)
        yield from change(WAKE_CONCERNED, of_kind=kind, of_name=name, at=at)
    return found


def list_holds() -> Fact[list[HoldRow]]:
    """All holds that stand, the oldest first."""
    return (yield from fetch(SELECT_HOLDS))


def unless_held(row: CallRow, fact: Fact[T]) -> Fact[T | Held]:
    """Record this, unless its call is held by now."""
    found = yield from standing_hold(row)
    return found if found is not None else (yield from fact)


def standing_hold(row: CallRow) -> Fact[Held | None]:
    """The oldest hold that keeps this call from being sent; a probe only asks, and is never held."""
    if row.route == "probe":
        return None
    run = row.run_id if row.in_run else None
    found = yield from one(SELECT_STANDING, tool=row.tool, tenant=row.tenant, subject=row.subject, run=run)
    return None if found is None else Held(*found)


def _note(event: EventType, hold: HoldRow, by: str, at: int) -> Fact[None]:
    head = yield from head_of(CHAIN)
    data = {"kind": hold.kind, "name": hold.name, "by": by, "reason": hold.reason}
    yield from append(head, tenant="", call_id=None, type=event, at=at, data=data)  # type: ignore[arg-type]  # JSON strings
