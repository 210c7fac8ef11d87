"""Small facts beside the life of a call: deliveries, open requests, cancellation flags, refusals.

Nothing here moves a call through its states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, case, or_, update

from ..canonical import JsonObject
from .chain import append, head_of
from .events import EventType
from .evidence import DOUBTED, RULED_OUT
from .rows import END_HANDLER, SELECT_ATTEMPT, CallRow, get_call, touch
from .sql import Fact, Sql, change, one
from .states import SENT_AND_OPEN
from .tables import attempts, calls

RULE_OUT: Sql[Any] = Sql(
    update(attempts)
    .where(
        attempts.c.call_id == bindparam("of"),
        or_(
            attempts.c.outcome.is_(None),
            attempts.c.outcome == "ambiguous",
            attempts.c.outcome == DOUBTED,
            attempts.c.sent == "unknown",
        ),
    )
    .values(outcome=RULED_OUT)
)
"""The attempts of a call that nobody knew of are established to have had no effect."""


class Delivery(NamedTuple):
    """A view of this call's settled state was written to the transport for its subject."""

    call_id: str
    at: int


_AT = bindparam("at", type_=calls.c.settled_at.type)
_DELIVERED: Sql[Any] = Sql(
    update(calls)
    .where(calls.c.call_id == bindparam("of"), calls.c.delivered_at.is_(None), calls.c.settled_at.is_not(None))
    .values(
        delivered_at=case((calls.c.settled_at > _AT, calls.c.settled_at), else_=_AT),
        request_owner=None,
    )
)
_CLOSE: Sql[Any] = Sql(
    update(calls)
    .where(calls.c.call_id == bindparam("of"), calls.c.request_owner == bindparam("owner_id"))
    .values(request_owner=None)
)
_OPEN: Sql[Any] = Sql(
    update(calls)
    .where(calls.c.call_id == bindparam("of"), calls.c.request_owner.is_(None))
    .values(request_owner=bindparam("owner_id"))
)


def mark_delivered(deliveries: Sequence[Delivery]) -> Fact[None]:
    """Deliveries that were noted since the last fact; they ride along with the next one.

    A call that was opened again meanwhile is as undelivered as it was before.
    """
    for delivery in deliveries:
        yield from change(_DELIVERED, of=delivery.call_id, at=delivery.at)


def close_request(call_id: str, owner_id: str) -> Fact[None]:
    """No request of its subject waits for this call in this process any more, and none has seen it settled."""
    yield from change(_CLOSE, of=call_id, owner_id=owner_id)


def open_request(call_id: str, owner_id: str) -> Fact[bool]:
    """A request of its subject waits for this call in this process from now on; False if another one does already."""
    return (yield from change(_OPEN, of=call_id, owner_id=owner_id)) == 1


def request_cancel(call_id: str, by: str, reason: str, at: int) -> Fact[CallRow | None]:
    """Set the flag that `guard()` reads, once. Returns the row, unchanged where nothing is under way."""
    row = yield from get_call(call_id)
    if row is None or row.state not in SENT_AND_OPEN or row.cancel_requested_at is not None:
        return row
    return (
        yield from touch(
            row,
            EventType.CANCEL_REQUESTED,
            at,
            {"by": by, "reason": reason},
            cancel_requested_at=at,
            cancel_requested_by=by,
            cancel_reason=reason,
        )
    )


def end_handler(call_id: str, generation: int, at: int) -> Fact[None]:
    """The handler of an attempt that was given up has come to its end without a word."""
    crossing = yield from one(SELECT_ATTEMPT, call_id=call_id, generation=generation)
    began = at if crossing is None else crossing.dispatched_at
    yield from change(END_HANDLER, of=call_id, number=generation, at=max(at, began))


def append_to(run_id: str, tenant: str, event: EventType, at: int, data: JsonObject) -> Fact[None]:
    """An event of a chain that has no row of its own, such as a process's refusals of a day."""
    head = yield from head_of(run_id)
    yield from append(head, tenant=tenant, call_id=None, type=event, at=at, data=data)
