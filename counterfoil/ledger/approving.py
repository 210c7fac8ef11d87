"""Proposals and decisions: a call that waits for a person, and what the person said.

An approval is bound to one digest; whoever dispatches consumes it in the transaction of T1. The moves are one
compare-and-set each, so that of two decisions one wins and the other is told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from ..canonical import JsonObject
from .admission import bind_key, find_bound
from .approval_rows import SELECT_APPROVAL, SELECT_DECLINE, SELECT_PLACES, ApprovalRow, DeclineRow
from .approvals import OPEN, ApprovalState, let_go, set_state
from .events import EventType
from .rows import CallRow, get_call, move, touch
from .settling import release
from .sql import Fact, add, fetch, one
from .states import CallState, Move
from .tables import declines


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
    """The decision won; `rows` are the calls that it was about and that still waited for it."""

    rows: tuple[CallRow, ...]
    approval: ApprovalRow


@dataclass(frozen=True, slots=True)
class NotDecided:
    """It was decided or gone already, or the digest is another one; nothing changed."""

    why: str
    approval: ApprovalRow | None


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
    rows = yield from _waiting_for(found)
    if not rows:
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
    carried: tuple[CallRow, ...] = ()
    for row in rows:
        carried = (*carried, (yield from _carry_out(row, done, decision)))
    return Decided(carried, done)


def revoke(approval_id: str, by: Decision) -> Fact[Decided | NotDecided]:
    """A person takes back a proposal, decided or not, whose calls were not sent yet: those are refused."""
    found = yield from one(SELECT_APPROVAL, approval_id=approval_id)
    if found is None:
        return NotDecided("unknown", None)
    if found.state not in OPEN:
        return NotDecided(found.state, found)
    if by.digest is not None and by.digest != found.digest:
        return NotDecided("digest", found)
    rows = yield from _waiting_for(found)
    done = yield from set_state(found, ApprovalState.REVOKED)
    data: JsonObject = {
        "approval_id": approval_id, "digest": found.digest, "by": by.by, "strength": by.strength, "via": by.via,
        "note": by.note,
    }  # fmt: skip
    text = f"The approval was revoked by {by.by} before the call was sent."
    refused: tuple[CallRow, ...] = ()
    for row in rows:
        refused = (*refused, (yield from _refuse(row, EventType.REVOKED, by.at, "approval_invalid", text, data=data)))
    return Decided(refused, done)


def decline(approval_id: str, client: str, by: str, at: int) -> Fact[bool]:
    """A client did not have its person decide: recorded once, and nothing is decided. False if it was before."""
    found = yield from one(SELECT_APPROVAL, approval_id=approval_id)
    if found is None or found.state != ApprovalState.PENDING:
        return False
    if (yield from one(SELECT_DECLINE, approval_id=approval_id, client=client)) is not None:
        return False
    yield from add(declines, DeclineRow(approval_id, client, at))
    row = yield from get_call(found.call_id)
    if row is not None:
        yield from touch(row, EventType.DECLINED, at, {"approval_id": approval_id, "by": by, "via": "mcp"})
    return True


def decline_word(call_id: str, key: str, client: str, by: str, at: int, told: JsonObject) -> Fact[bool]:
    """A person at a client did not give the word that they were asked for: recorded once, and nothing is settled."""
    if (yield from one(SELECT_DECLINE, approval_id=key, client=client)) is not None:
        return False
    yield from add(declines, DeclineRow(key, client, at))
    row = yield from get_call(call_id)
    if row is not None:
        yield from touch(row, EventType.DECLINED, at, {**told, "by": by, "via": "mcp"})
    return True


def expire(approval_id: str, at: int) -> Fact[CallRow | None]:
    """An undecided proposal past its time: recorded once, so that no clock set back revives it. Its last call."""
    found = yield from one(SELECT_APPROVAL, approval_id=approval_id)
    if found is None or found.state != ApprovalState.PENDING or at <= found.expires_at:
        return None
    rows = yield from _waiting_for(found)
    yield from set_state(found, ApprovalState.EXPIRED)
    row = yield from get_call(found.call_id)
    for waiting in rows:
        row = yield from _refuse(
            waiting, EventType.EXPIRED, at, "approval_expired", "Nobody decided in time. Ask again for a new proposal."
        )
    return row


def withdraw(call_id: str, by: str, reason: str, at: int) -> Fact[CallRow | None]:
    """Cancel a call before T1: it settles as cancelled and its proposal is revoked. None if it was sent meanwhile.

    A call that waited to be sent again while nobody knew of its first attempt stays unresolved.
    """
    row = yield from get_call(call_id)
    if row is None or row.state not in {CallState.AWAITING_APPROVAL, CallState.QUEUED}:
        return None
    yield from let_go(row)
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
    yield from let_go(row)
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


def _waiting_for(approval: ApprovalRow) -> Fact[list[CallRow]]:
    """The calls that wait under a proposal, for its decision or for their T1, in the order of their places."""
    found: list[CallRow] = []
    for place in (yield from fetch(SELECT_PLACES, approval_id=approval.approval_id)):
        row = yield from get_call(place.call_id)
        waits = row is not None and row.state in {CallState.AWAITING_APPROVAL, CallState.QUEUED}
        if row is not None and waits and row.approval_id == approval.approval_id and place.consumed_at is None:
            found.append(row)
    return found


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
