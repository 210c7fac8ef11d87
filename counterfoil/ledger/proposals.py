"""Proposals: the first record of calls that a person must decide about, and the fresh one of those that need it again.

One proposal covers one call, or all items of a step that come to need a person together: each has its place in it.
What a decision does is in `approving`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import bindparam, func, select, text

from ..canonical import JsonObject
from .admission import Busy, Duplicate, GrantLapsed, Held, Neighbours, RunSaysNo, Unresolved, run_says
from .approval_rows import SELECT_APPROVAL, ApprovalRow, PlaceRow
from .approvals import OPEN, ApprovalState, is_last, set_state
from .bookkeeping import Delivery, mark_delivered
from .dispatching import Moved, look
from .events import EventType
from .hindering import hindrance
from .holding import standing_hold
from .rows import CallRow, create, get_call, move
from .sealing import Sealed, store
from .sql import Count, Fact, Sql, add, one
from .states import CallState, Move
from .tables import approvals, places

_PROPOSED_AGAIN: Final = frozenset({CallState.QUEUED, CallState.AWAITING_APPROVAL, CallState.AWAITING_RECONCILIATION})


class Waiter(NamedTuple):
    """A call that a proposal is to cover, and the digest of its part; a new one with what its first record needs."""

    row: CallRow
    digest: str
    who: Neighbours | None = None
    arguments: Sealed | None = None


@dataclass(frozen=True, slots=True)
class Proposed:
    """The calls wait for a decision."""

    rows: tuple[CallRow, ...]
    approval: ApprovalRow

    @property
    def row(self) -> CallRow:
        """The one call of a proposal for one."""
        return self.rows[0]


@dataclass(frozen=True, slots=True)
class TooManyPending:
    """The subject has as many undecided proposals as it may have."""

    pending: int


Hindering: TypeAlias = Duplicate | Unresolved | RunSaysNo | Moved | Held | GrantLapsed


@dataclass(frozen=True, slots=True)
class Hindered:
    """One of the calls cannot be proposed now, so none was."""

    call_id: str
    by: Hindering


ProposeResult: TypeAlias = Proposed | TooManyPending | Hindered

_PENDING: Sql[Count] = Sql(
    select(func.count())
    .select_from(approvals)
    .where(
        approvals.c.tenant == bindparam("tenant"),
        approvals.c.requester == bindparam("requester"),
        text("approvals.state = 'pending'"),
    ),
    Count,
)


def propose(
    waiters: Sequence[Waiter],
    approval: ApprovalRow,
    *,
    pending_max: int,
    owner_id: str = "",
    why: str | None = None,
    deliveries: Sequence[Delivery] = (),
) -> Fact[ProposeResult]:
    """One proposal for these calls of one run, or for one direct call; `owner_id` drives the run, if any.

    Those that have a row get a fresh one in place of theirs; `why` says why.
    """
    yield from mark_delivered(deliveries)
    now: dict[str, CallRow | None] = {}
    for waiter in waiters:
        if waiter.who is None:
            now[waiter.row.call_id] = yield from get_call(waiter.row.call_id)
        hindered = yield from _hindered(waiter, now.get(waiter.row.call_id), owner_id, approval.requested_at)
        if hindered is not None:
            return Hindered(waiter.row.call_id, hindered)
    if any(waiter.who is not None for waiter in waiters):
        pending = yield from one(_PENDING, tenant=approval.tenant, requester=approval.requester)
        if pending is not None and pending.n >= pending_max:
            return TooManyPending(pending.n)
    yield from add(approvals, approval)
    made: list[CallRow] = []
    for number, waiter in enumerate(waiters):
        yield from add(places, PlaceRow(approval.approval_id, number, waiter.row.call_id, waiter.digest))
        row = now.get(waiter.row.call_id)
        made.append((yield from (_first(waiter, approval) if row is None else _again(row, approval, why))))
    for approval_id in dict.fromkeys(row.approval_id for row in now.values() if row is not None):
        yield from _supersede(approval_id, approval)
    return Proposed(tuple(made), approval)


def find_hindered(waiters: Sequence[Waiter], owner_id: str, at: int) -> Fact[list[Hindered]]:
    """Those of these calls that cannot be proposed now; `propose` asks again, and its word is final. Only reads."""
    found: list[Hindered] = []
    for waiter in waiters:
        row = None if waiter.who is not None else (yield from get_call(waiter.row.call_id))
        by = yield from _hindered(waiter, row, owner_id, at)
        if by is not None:
            found.append(Hindered(waiter.row.call_id, by))
    return found


def repropose(call_id: str, approval: ApprovalRow, why: str, at: int) -> Fact[Proposed | Hindered | None]:
    """A fresh proposal for a call whose approval no longer fits or was not used in time; None if it moved meanwhile."""
    row = yield from get_call(call_id)
    if row is None:
        return None
    waiter = Waiter(row, approval.digest)
    done = yield from propose([waiter], approval._replace(requested_at=at), pending_max=0, why=why)
    assert not isinstance(done, TooManyPending), "only new calls are counted"
    return None if isinstance(done, Hindered) and isinstance(done.by, Moved) else done


def _hindered(waiter: Waiter, row: CallRow | None, owner_id: str, at: int) -> Fact[Hindering | None]:
    if waiter.who is None:
        if row is None or row.state not in _PROPOSED_AGAIN:
            return Moved(row)
        return (yield from hindrance(row, at))
    said = yield from run_says(waiter.row, owner_id, waiter.row.created_at)
    if said is not None:
        return said
    stop = yield from look(waiter.who, waiter.row.resource_keys)
    if stop is None or isinstance(stop, Busy):
        return (yield from standing_hold(waiter.row))
    return stop


def _first(waiter: Waiter, approval: ApprovalRow) -> Fact[CallRow]:
    row, arguments = waiter.row, waiter.arguments
    assert arguments is not None, "a new call has its arguments"
    yield from store(arguments)
    data = _proposal(approval) | {
        "tool": row.tool,
        "version": row.version,
        "effect": row.effect,
        "subject": row.subject,
        "args_digest": row.args_digest,
        "arguments": json.loads(row.args_shown),
        "commitment": arguments.commitment,
    }
    return (
        yield from create(
            row, Move.PROPOSE, EventType.PROPOSED, data, approval_id=approval.approval_id, rule_id=approval.rule_id
        )
    )


def _again(row: CallRow, approval: ApprovalRow, why: str | None) -> Fact[CallRow]:
    data = _proposal(approval) | {"why": why, "supersedes": row.approval_id}
    return (
        yield from move(
            row,
            Move.REPROPOSE,
            EventType.PROPOSED,
            approval.requested_at,
            data,
            approval_id=approval.approval_id,
            rule_id=approval.rule_id,
            schema_digest=approval.schema_digest,
            effect=approval.effect,
            by_decision=0,
            request_owner=None,
            outcome=None,
            code=None,
            message=None,
            cancel_requested_at=None,
        )
    )


def _supersede(approval_id: str | None, by: ApprovalRow) -> Fact[None]:
    """What is open of an older proposal ends with the last call that waited under it."""
    old = yield from one(SELECT_APPROVAL, approval_id=approval_id or "")
    if old is not None and old.state in OPEN and (yield from is_last(old.approval_id)):
        yield from set_state(old, ApprovalState.SUPERSEDED, superseded_by=by.approval_id)


def _proposal(approval: ApprovalRow) -> JsonObject:
    return {
        "approval_id": approval.approval_id,
        "digest": approval.digest,
        "assurance": approval.assurance,
        "rule_id": approval.rule_id,
        "reason": approval.reason,
        "expires_at": approval.expires_at,
    }
