"""Proposals and decisions: a call that waits for a person, and what the person said.

An approval is bound to one digest; whoever dispatches consumes it in the transaction of T1. The moves are one
compare-and-set each, so that of two decisions one wins and the other is told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy import bindparam, func, select, text

from ..canonical import JsonObject
from .admission import Busy, Duplicate, Neighbours, RunSaysNo, Unresolved, bind_key, find_bound, run_says
from .approval_rows import SELECT_APPROVAL, ApprovalRow
from .approvals import OPEN, ApprovalState, revoke, set_state
from .bookkeeping import Delivery, mark_delivered
from .dispatching import look
from .events import EventType
from .rows import CallRow, create, get_call, move, touch
from .sealing import Sealed, store
from .settling import release
from .sql import Count, Fact, Sql, add, one
from .states import CallState, Move
from .tables import approvals


@dataclass(frozen=True, slots=True)
class Proposed:
    """The call waits for a decision."""

    row: CallRow
    approval: ApprovalRow


@dataclass(frozen=True, slots=True)
class TooManyPending:
    """The subject has as many undecided proposals as it may have."""

    pending: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person said, and how it is known that this person said it. `note` is redacted."""

    approve: bool
    by: str
    strength: str
    via: str
    at: int
    digest: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision won."""

    row: CallRow
    approval: ApprovalRow


@dataclass(frozen=True, slots=True)
class NotDecided:
    """It was decided or gone already, or the digest is another one; nothing changed."""

    why: str
    approval: ApprovalRow | None


ProposeResult: TypeAlias = Proposed | TooManyPending | Duplicate | Unresolved | RunSaysNo

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
    row: CallRow,
    who: Neighbours,
    arguments: Sealed,
    approval: ApprovalRow,
    *,
    pending_max: int,
    owner_id: str = "",
    deliveries: Sequence[Delivery] = (),
) -> Fact[ProposeResult]:
    """A new call's first record where a person must decide before it is sent; `owner_id` drives its run, if any."""
    yield from mark_delivered(deliveries)
    said = yield from run_says(row, owner_id, row.created_at)
    if said is not None:
        return said
    stop = yield from look(who, row.resource_keys)
    if stop is not None and not isinstance(stop, Busy):
        return stop
    pending = yield from one(_PENDING, tenant=row.tenant, requester=row.subject)
    if pending is not None and pending.n >= pending_max:
        return TooManyPending(pending.n)
    yield from store(arguments)
    yield from add(approvals, approval)
    data = _proposal(approval) | {
        "tool": row.tool,
        "version": row.version,
        "effect": row.effect,
        "subject": row.subject,
        "args_digest": row.args_digest,
        "arguments": json.loads(row.args_shown),
        "commitment": arguments.commitment,
    }
    made = yield from create(
        row, Move.PROPOSE, EventType.PROPOSED, data, approval_id=approval.approval_id, rule_id=approval.rule_id
    )
    return Proposed(made, approval)


def repropose(call_id: str, approval: ApprovalRow, why: str, at: int) -> Fact[Proposed | None]:
    """A fresh proposal for a call whose approval no longer fits or was not used in time; None if it moved meanwhile."""
    row = yield from get_call(call_id)
    if row is None or row.state not in {
        CallState.QUEUED,
        CallState.AWAITING_APPROVAL,
        CallState.AWAITING_RECONCILIATION,
    }:
        return None
    old = yield from one(SELECT_APPROVAL, approval_id=row.approval_id or "")
    if old is not None and old.state in OPEN:
        yield from set_state(old, ApprovalState.SUPERSEDED, superseded_by=approval.approval_id)
    yield from add(approvals, approval)
    data = _proposal(approval) | {"why": why, "supersedes": row.approval_id}
    made = yield from move(
        row,
        Move.REPROPOSE,
        EventType.PROPOSED,
        at,
        data,
        approval_id=approval.approval_id,
        rule_id=approval.rule_id,
        by_decision=0,
        request_owner=None,
        outcome=None,
        code=None,
        message=None,
        cancel_requested_at=None,
    )
    return Proposed(made, approval)


def decide(approval_id: str, decision: Decision) -> Fact[Decided | NotDecided]:
    """One decision about one proposal. Approved, its call is queued for any server that knows the tool."""
    found = yield from one(SELECT_APPROVAL, approval_id=approval_id)
    if found is None:
        return NotDecided("unknown", None)
    if found.state != ApprovalState.PENDING:
        return NotDecided(found.state, found)
    if decision.at > found.expires_at:
        yield from expire(approval_id, decision.at)
        return NotDecided("expired", found._replace(state=ApprovalState.EXPIRED))
    if decision.digest is not None and decision.digest != found.digest:
        return NotDecided("digest", found)
    row = yield from get_call(found.call_id)
    if row is None or row.state != CallState.AWAITING_APPROVAL:
        return NotDecided("moved", found)
    decision = replace(decision, at=max(decision.at, found.requested_at))  # the clock may have been set back
    state = ApprovalState.APPROVED if decision.approve else ApprovalState.REJECTED
    done = yield from set_state(
        found,
        state,
        execute_until=decision.at + found.execute_within if decision.approve else None,
        decided_at=decision.at,
        decided_by=decision.by,
        strength=decision.strength,
        via=decision.via,
        note=decision.note,
    )
    return Decided((yield from _carry_out(row, done, decision)), done)


def expire(approval_id: str, at: int) -> Fact[CallRow | None]:
    """An undecided proposal past its time: recorded once, so that no clock set back revives it."""
    found = yield from one(SELECT_APPROVAL, approval_id=approval_id)
    if found is None or found.state != ApprovalState.PENDING or at <= found.expires_at:
        return None
    yield from set_state(found, ApprovalState.EXPIRED)
    row = yield from get_call(found.call_id)
    if row is None or row.state != CallState.AWAITING_APPROVAL:
        return row
    return (
        yield from _refuse(
            row, EventType.EXPIRED, at, "approval_expired", "Nobody decided in time. Ask again for a new proposal."
        )
    )


def withdraw(call_id: str, by: str, reason: str, at: int) -> Fact[CallRow | None]:
    """Cancel a call before T1: it settles as cancelled and its proposal is revoked. None if it was sent meanwhile.

    A call that waited to be sent again while nobody knew of its first attempt stays unresolved.
    """
    row = yield from get_call(call_id)
    if row is None or row.state not in {CallState.AWAITING_APPROVAL, CallState.QUEUED}:
        return None
    yield from revoke(row)
    if row.sent == "unknown":
        return (yield from _lose(row, EventType.CANCELLED, at, {"by": by, "reason": reason}))
    sent_before = row.generation > 0
    done = yield from move(
        row,
        Move.CANCEL,
        EventType.CANCELLED,
        at,
        {"by": by, "reason": reason, "outcome": "permanent_failure"},
        outcome="permanent_failure",
        sent="no",
        code="cancelled",
        message="Cancelled before it was sent." if not sent_before else "Cancelled between attempts; none took effect.",
        settled_at=at,
        settled_by="execution",
        cancel_requested_at=at,
        cancel_requested_by=by,
        cancel_reason=reason,
    )
    yield from release(done, at)
    return done


def refuse_waiting(
    call_id: str, code: str, outcome: str, message: str, details: JsonObject, at: int
) -> Fact[CallRow | None]:
    """A call that has a row but may not be sent after all: refused, with the rule that says so. None if it moved."""
    row = yield from get_call(call_id)
    if row is None or row.state not in {CallState.AWAITING_APPROVAL, CallState.QUEUED}:
        return None
    yield from revoke(row)
    return (yield from _refuse(row, EventType.REFUSED, at, code, message, outcome=outcome, details=details))


def join_key(call_id: str, key: str, at: int) -> Fact[CallRow | None]:
    """A key given by a request that joins a waiting call belongs to that call from now on.

    It binds at the call's first T1, or here if that was made already.
    """
    row = yield from get_call(call_id)
    if row is None or row.key is not None or row.state != CallState.AWAITING_APPROVAL:
        return row
    if row.generation:
        if (yield from find_bound(row._replace(key=key))) is not None:
            return row
        yield from bind_key(row, key, at)
    return (yield from touch(row, EventType.JOINED, at, {"key": "bound"}, key=key))


def _carry_out(row: CallRow, approval: ApprovalRow, decision: Decision) -> Fact[CallRow]:
    data: JsonObject = {
        "approval_id": approval.approval_id,
        "digest": approval.digest,
        "decision": "approve" if decision.approve else "reject",
        "by": decision.by,
        "strength": decision.strength,
        "via": decision.via,
        "note": decision.note,
        "expires_at": approval.expires_at,
        "execute_until": approval.execute_until,
    }
    if decision.approve:
        return (yield from move(row, Move.APPROVE, EventType.DECIDED, decision.at, data, by_decision=1, owner_id=None))
    return (
        yield from _refuse(
            row, EventType.DECIDED, decision.at, "approval_rejected", "A person rejected this call.", data=data
        )
    )


def _refuse(
    row: CallRow,
    event: EventType,
    at: int,
    code: str,
    message: str,
    *,
    outcome: str = "denied",
    details: JsonObject | None = None,
    data: JsonObject | None = None,
) -> Fact[CallRow]:
    if row.sent == "unknown":
        return (yield from _lose(row, event, at, (data or {}) | {"code": code, "message": message}))
    done = yield from move(
        row,
        Move.ABANDON if row.generation else Move.REFUSE,
        event,
        at,
        (data or {}) | {"code": code, "message": message, "outcome": outcome},
        outcome=outcome,
        sent="no",
        code=code,
        message=message,
        details=json.dumps(details) if details else None,
        settled_at=at,
        settled_by="execution",
    )
    yield from release(done, at)
    return done


def _lose(row: CallRow, event: EventType, at: int, data: JsonObject) -> Fact[CallRow]:
    return (
        yield from move(
            row,
            Move.LOSE,
            event,
            at,
            data | {"outcome": "ambiguous"},
            outcome="ambiguous",
            code="ambiguous",
            message="It was not sent again, and what became of the first attempt is still not known.",
            by_decision=0,
        )
    )


def _proposal(approval: ApprovalRow) -> JsonObject:
    return {
        "approval_id": approval.approval_id,
        "digest": approval.digest,
        "assurance": approval.assurance,
        "rule_id": approval.rule_id,
        "reason": approval.reason,
        "expires_at": approval.expires_at,
    }
