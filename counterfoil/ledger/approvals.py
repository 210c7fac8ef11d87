"""The states of an approval, and the one compare-and-set that moves it. What that means for its call is elsewhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from sqlalchemy import bindparam, func, select, text

from .approval_rows import (
    CHANGED,
    CONSUME_PLACE,
    SELECT_APPROVAL,
    SELECT_PLACE,
    UPDATE_APPROVAL,
    ApprovalRow,
    PlaceRow,
)
from .events import EventType
from .rows import CallRow, touch
from .sql import Count, Fact, Sql, change, fetch, one
from .tables import approvals, calls, places


class ApprovalState(StrEnum):
    """Where an approval is."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    REVOKED = "revoked"
    CONSUMED = "consumed"
    SUPERSEDED = "superseded"


APPROVED_OF_RUN: Sql[ApprovalRow] = Sql(
    select(*[approvals.c[name] for name in ApprovalRow._fields]).where(
        approvals.c.run_id == bindparam("run_id"), approvals.c.state == "approved"
    ),
    ApprovalRow,
)
OPEN: Final = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED})


def set_state(approval: ApprovalRow, state: ApprovalState, **changes: Any) -> Fact[ApprovalRow]:  # noqa: ANN401 (columns)
    """Move an approval on. Returns the new row."""
    new = approval._replace(state=state.value, **changes)
    values = {name: getattr(new, name) for name in CHANGED}
    yield from change(UPDATE_APPROVAL, of=approval.approval_id, was=approval.state, **values)
    return new


WAITING_UNDER: Sql[Count] = Sql(
    select(func.count())
    .select_from(places.join(calls, calls.c.call_id == places.c.call_id))
    .where(
        places.c.approval_id == bindparam("approval_id"),
        places.c.consumed_at.is_(None),
        calls.c.approval_id == places.c.approval_id,
        calls.c.call_id != bindparam("mine"),
        text("(calls.state = 'awaiting_approval' OR calls.state = 'queued')"),
    ),
    Count,
)


def is_last(approval_id: str, call_id: str = "") -> Fact[bool]:
    """True if no other call than this one waits under a proposal, for its decision or for its own T1."""
    others = yield from one(WAITING_UNDER, approval_id=approval_id, mine=call_id)
    return others is None or others.n == 0


def let_go(row: CallRow) -> Fact[None]:
    """A call that will not be sent leaves its place; what is open of its proposal is revoked with the last one."""
    found = yield from one(SELECT_APPROVAL, approval_id=row.approval_id or "")
    if found is not None and found.state in OPEN and (yield from is_last(found.approval_id, row.call_id)):
        yield from set_state(found, ApprovalState.REVOKED)


def consume(approval: ApprovalRow, place: PlaceRow, at: int) -> Fact[None]:
    """A call takes its place, once; with the last one the approval is consumed."""
    yield from change(CONSUME_PLACE, of=approval.approval_id, by=place.call_id, at=at)
    state = ApprovalState(approval.state)
    if (yield from is_last(approval.approval_id, place.call_id)):
        state = ApprovalState.CONSUMED
    if state != approval.state or approval.stalled_at is not None:
        yield from set_state(approval, state, execute_until=window_ends(approval, at), stalled_at=None)


def stall(row: CallRow, digest: str, since: int, at: int) -> Fact[None]:
    """Something stands in the way of a decided call, since then: from there, or from its decision on, its window
    stands still, also where nobody looked before the window's end.
    """  # noqa: D205 (one sentence)
    found = yield from one(SELECT_APPROVAL, approval_id=row.approval_id or "")
    place = yield from one(SELECT_PLACE, approval_id=row.approval_id or "", call_id=row.call_id)
    if found is None or place is None or place.consumed_at is not None or place.digest != digest:
        return
    if (yield from stand_still(found, since)):
        yield from touch(row, EventType.STALLED, at, {"approval_id": found.approval_id})


def stand_still(approval: ApprovalRow, since: int) -> Fact[bool]:
    """The window of an approved proposal stands still since then, or since its decision; False if it does already, or
    was over by then.
    """  # noqa: D205 (one sentence)
    since = max(since, approval.decided_at or since)
    in_time = approval.execute_until is not None and since <= approval.execute_until
    if approval.state != ApprovalState.APPROVED or approval.stalled_at is not None or not in_time:
        return False
    yield from set_state(approval, ApprovalState.APPROVED, stalled_at=since)
    return True


def run_stood_still(run_id: str, since: int) -> Fact[None]:
    """Nothing of a run could be sent since then: so stood the windows of what is approved of it."""
    for approval in (yield from fetch(APPROVED_OF_RUN, run_id=run_id)):
        yield from stand_still(approval, since)


def window_ends(approval: ApprovalRow, at: int) -> int | None:
    """Until when an approved proposal can be carried out, in microseconds; what stood in the way is not counted."""
    if approval.execute_until is None or approval.stalled_at is None:
        return approval.execute_until
    return approval.execute_until + max(0, at - approval.stalled_at)
