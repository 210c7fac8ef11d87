"""Calls that the far side has accepted and still works on: accepted, asked about, woken, and no longer waited for.

While it waits a call belongs to no process. Whoever asks about it owns it for that long, so that one process asks at a
time; one that dies while it asks is seen to be gone, like any owner. Nothing here says what became of a call.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, or_, select, text, update

from ..canonical import JsonObject
from .admission import owner_lives
from .events import EventType
from .finding import PAGE
from .rows import CallRow, get_call, move
from .run_rows import post
from .sql import Fact, Sql, change, fetch
from .states import CallState, Move
from .tables import calls


class Acceptance(NamedTuple):
    """Until when an accepted call is waited for, and when the far side is asked next; microseconds."""

    until: int
    due_at: int


class Due(NamedTuple):
    """An accepted call whose far side is to be asked."""

    call_id: str
    tool: str
    version: str


_TOLD: Final = ("attempt", "action_id", "by", "message", "evidence")
_WAITS = calls.c.state == CallState.AWAITING_EXTERNAL.value
POLLS_DUE: Final[Sql[Due]] = Sql(
    select(calls.c.call_id, calls.c.tool, calls.c.version)
    .where(
        text("calls.state != 'settled'"),  # the condition of its index
        _WAITS,
        calls.c.not_before <= bindparam("now"),
        calls.c.call_id > bindparam("after", type_=calls.c.call_id.type),
    )
    .order_by(calls.c.call_id)
    .limit(PAGE),
    Due,
)
_CLAIM: Final[Sql[Any]] = Sql(
    update(calls)
    .where(calls.c.call_id == bindparam("of"), calls.c.revision == bindparam("was"))
    .values(owner_id=bindparam("owner_id"), not_before=bindparam("again_at"))
)
_WAKE: Final[Sql[Any]] = Sql(
    update(calls)
    .where(calls.c.call_id == bindparam("of"), or_(_WAITS, calls.c.state == CallState.DISPATCHED.value))
    .values(not_before=bindparam("at"))
)


def accept(
    row: CallRow,
    how: Acceptance,
    at: int,
    data: JsonObject,
    **changes: Any,  # noqa: ANN401 (columns)
) -> Fact[CallRow]:
    """The far side has it and still works. `data` is what is known of that; the last attempt may still have its effect.

    The call keeps its resources, and no process holds it. A wake that came before is heeded: the far side may be done.
    """
    told = {name: data[name] for name in _TOLD if name in data}
    changes |= {"outcome": None, "sent": "yes", "code": None, "details": None, "retryable": 0}
    woken_at = (yield from _woken_at(row)) if row.state == CallState.DISPATCHED else None
    due_at = how.due_at if woken_at is None else min(how.due_at, woken_at)
    changes |= {"owner_id": None, "external_until": how.until, "not_before": due_at}
    return (yield from move(row, Move.ACCEPT, EventType.ACCEPTED, at, told | {"until": how.until}, **changes))


def _woken_at(row: CallRow) -> Fact[int | None]:
    now = yield from get_call(row.call_id)  # whoever settles it knows the row as it was sent
    return None if now is None else now.not_before


def accept_after_probe(call_id: str, revision: int, how: Acceptance, at: int) -> Fact[CallRow | None]:
    """A probe says that the far side has an unresolved call and still works; None if that moved meanwhile."""
    row = yield from get_call(call_id)
    if row is None or row.revision != revision or row.state != CallState.AWAITING_RECONCILIATION:
        return None
    data: JsonObject = {"attempt": row.generation, "action_id": row.action_id, "by": "probe"}
    return (yield from accept(row, how, at, data, message=None))


def list_polls_due(now: int, after: str = "") -> Fact[list[Due]]:
    """A page of the accepted calls whose far side is to be asked by now, in the order of their ids."""
    return (yield from fetch(POLLS_DUE, now=now, after=after))


def claim_poll(call_id: str, owner_id: str, at: int, again_at: int) -> Fact[CallRow | None]:
    """Ask about a call that is due, alone among all processes; None if another one does, or it moved.

    It is no event: what the far side says will be one. If nothing comes of it, it is due again at `again_at`.
    """
    row = yield from get_call(call_id)
    if row is None or row.state != CallState.AWAITING_EXTERNAL or (row.not_before or 0) > at:
        return None
    if row.owner_id not in {None, owner_id} and (yield from owner_lives(row.owner_id or "")):
        return None
    yield from change(_CLAIM, of=call_id, was=row.revision, owner_id=owner_id, again_at=again_at)
    return row._replace(owner_id=owner_id, not_before=again_at)


def wake(call_id: str, at: int) -> Fact[CallRow | None]:
    """Have the far side asked at that time; None if this call is not waited for. Nothing known of it changes.

    Of a call that is under way it is kept until its end: should the far side have accepted it, it is asked then.
    """
    row = yield from get_call(call_id)
    if row is None or row.state not in {CallState.AWAITING_EXTERNAL, CallState.DISPATCHED}:
        return None
    nobody_asks = row.owner_id is None or row.state == CallState.DISPATCHED
    if nobody_asks and row.not_before is not None and row.not_before <= at:
        return row
    yield from change(_WAKE, of=call_id, at=at)
    return row._replace(not_before=at)


def stop_waiting(call_id: str, revision: int, owner_id: str, why: str, at: int) -> Fact[CallRow | None]:
    """Wait for the far side no longer: nobody knows what became of the call. None if it moved meanwhile.

    It is no failure, and it keeps its resources.
    """
    row = yield from get_call(call_id)
    if row is None or row.revision != revision or row.state != CallState.AWAITING_EXTERNAL:
        return None
    data: JsonObject = {"owner": owner_id, "accepted_until": row.external_until, "why": why}
    lost: dict[str, Any] = {"outcome": "ambiguous", "sent": "unknown", "code": "ambiguous", "message": why}
    lost |= {"owner_id": owner_id, "not_before": None}  # it is no longer asked about by itself
    done = yield from move(row, Move.LOSE, EventType.LOST, at, data, **lost)
    if done.in_run:
        yield from post(done.run_id, at)
    return done


class Again(NamedTuple):
    """When the far side is asked next, and when that was to be as whoever asks now began to ask; microseconds."""

    due_at: int
    was_due_at: int | None


def asked(row: CallRow, again: Again | None) -> dict[str, Any]:
    """What a probe's answer changes of an accepted call: it is free again, and when it is asked about next.

    Somebody who woke it while it was asked has it asked again at once.
    """
    if row.state != CallState.AWAITING_EXTERNAL or again is None:
        return {}
    woken = row.not_before != again.was_due_at
    return {"owner_id": None, "not_before": row.not_before if woken else again.due_at}
