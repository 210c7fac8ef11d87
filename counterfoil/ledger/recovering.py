"""What is done about calls whose owner is gone or whose outcome is unknown: taking over, claiming, resolving.

Only calls of owners that ended or whose lapse was declared are touched; the decision what to do with one is made by
the runtime and handed in as a value.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from sqlalchemy import bindparam, or_, select, update

from ..canonical import JsonObject
from .admission import keep_key, owner_lives
from .bookkeeping import RULE_OUT, Delivery, mark_delivered
from .budgeting import spend_after
from .events import EventType
from .evidence import RULED_OUT, earlier_unknown
from .external import Again, asked
from .grants import Renewal
from .rows import SELECT_ATTEMPT, SELECT_ATTEMPTS, CallRow, get_call, move, touch
from .settling import Settlement, conclude, release
from .sql import Fact, Sql, change, fetch, one
from .states import UNRESOLVED, CallState, Move
from .tables import attempts, calls, owners

_CLOSE_ORPHANED: Sql[Any] = Sql(
    update(calls)
    .where(
        calls.c.request_owner.in_(
            select(owners.c.owner_id).where(or_(owners.c.lapsed_at.is_not(None), owners.c.ended_at.is_not(None)))
        ),
    )
    .values(request_owner=None)
)


_NEVER_CROSSED: Sql[Any] = Sql(
    update(attempts)
    .where(attempts.c.call_id == bindparam("of"), attempts.c.generation == bindparam("number"))
    .values(outcome=RULED_OUT, sent="no", settled_at=bindparam("at"), handler_ended_at=bindparam("at"))
)


class TakenOver(NamedTuple):
    """A call that was under way under a lost owner, as it is now, and whether its last attempt had no settlement."""

    row: CallRow
    was_dispatched: bool


def close_orphaned() -> Fact[int]:
    """No request waits in a process that is gone: what it settled and never delivered may be asked for again."""
    return (yield from change(_CLOSE_ORPHANED))


def adopt(call_id: str, owner_id: str, at: int) -> Fact[CallRow | None]:
    """Become the owner of an unresolved call whose owner is gone, to follow it up once; None if it moved."""
    row = yield from get_call(call_id)
    if row is None or row.owner_id is None or row.state != CallState.AWAITING_RECONCILIATION:
        return None
    if (yield from owner_lives(row.owner_id)):
        return None
    data: JsonObject = {"from": row.owner_id, "to": owner_id}
    return (yield from touch(row, EventType.TAKEN_OVER, at, data, owner_id=owner_id, request_owner=None))


def take_over(call_id: str, owner_id: str, at: int, *, serves: bool = True) -> Fact[TakenOver | None]:
    """Take a call from an owner that is gone; None if it moved, or its owner lives after all.

    Dispatched: its outcome is unknown from here on, under the new owner if that `serves` its tool.
    Queued by a decision, or a step of a run: the new owner carries it on. Any other: its caller is gone and may ask
    again; where an attempt was known to be without effect, that attempt's outcome stands.
    """
    row = yield from get_call(call_id)
    if row is None or row.owner_id is None or row.state not in {CallState.DISPATCHED, CallState.QUEUED}:
        return None
    if (yield from owner_lives(row.owner_id)):
        return None
    data: JsonObject = {"from": row.owner_id, "to": owner_id}
    if row.state == CallState.DISPATCHED:
        lost = yield from move(
            row,
            Move.LOSE,
            EventType.TAKEN_OVER,
            at,
            data,
            owner_id=owner_id if serves else row.owner_id,
            outcome="ambiguous",
            code="ambiguous",
            message="The server that sent it stopped before the outcome was recorded.",
            request_owner=None,
        )
        return TakenOver(lost, was_dispatched=True)
    if row.by_decision or row.sent == "unknown" or row.in_run:
        taken = yield from touch(row, EventType.TAKEN_OVER, at, data, owner_id=owner_id, request_owner=None)
        return TakenOver(taken, was_dispatched=False)
    return TakenOver((yield from _abandon(row, at, data)), was_dispatched=False)


def abandon(call_id: str, owner_id: str, at: int) -> Fact[CallRow | None]:
    """A call of our own that nothing in this process follows: its adapter was never called after its record.

    That is so where the answer to a commit was lost. A dispatched one settles as not sent, unless an earlier attempt
    may have had its effect; a step of a run is queued again.
    """
    row = yield from get_call(call_id)
    if row is None or row.owner_id != owner_id or row.state not in {CallState.DISPATCHED, CallState.QUEUED}:
        return None
    if row.state == CallState.QUEUED and (row.by_decision or row.sent == "unknown" or row.in_run):
        return (yield from touch(row, EventType.TAKEN_OVER, at, {"from": owner_id}, owner_id=None))
    if row.state == CallState.DISPATCHED:
        yield from change(_NEVER_CROSSED, of=call_id, number=row.generation, at=at)
        data: JsonObject = {"owner": owner_id, "attempt": row.generation, "crossed": False}
        if earlier_unknown(row, (yield from fetch(SELECT_ATTEMPTS, call_id=call_id)), before=row.generation):
            return (yield from _lose(row, at, data))
        if row.in_run:
            return (yield from move(row, Move.RETRY, EventType.RETRIED, at, data, owner_id=None, sent="no"))
    return (yield from _abandon(row, at, {"owner": owner_id}))


def lose(call_id: str, owner_id: str, at: int) -> Fact[CallRow | None]:
    """A call of our own whose adapter was called and that nothing follows any more: its outcome is unknown."""
    row = yield from get_call(call_id)
    if row is None or row.owner_id != owner_id or row.state != CallState.DISPATCHED:
        return None
    return (yield from _lose(row, at, {"owner": owner_id}))


def claim(call_id: str, owner_id: str, at: int) -> Fact[CallRow | None]:
    """Take up a queued call that nobody owns; None if somebody was quicker."""
    row = yield from get_call(call_id)
    if row is None or row.state != CallState.QUEUED or row.owner_id is not None:
        return None
    if not (yield from owner_lives(owner_id)):
        return None
    return (yield from touch(row, EventType.CLAIMED, at, {"to": owner_id}, owner_id=owner_id))


def note_probe(
    call_id: str, revision: int, answer: str, probe_call_id: str, at: int, *, again: Again | None = None
) -> Fact[CallRow | None]:
    """What a probe answered, as an event of the call it asked about; None if that moved meanwhile.

    `again` says when an accepted call is asked about next.
    """
    row = yield from get_call(call_id)
    if row is None or row.revision != revision:
        return None
    data: JsonObject = {"answer": answer, "probe": probe_call_id}
    return (yield from touch(row, EventType.PROBED, at, data, **asked(row, again)))


def resolve(
    call_id: str,
    revision: int,
    settlement: Settlement,
    *,
    word: JsonObject | None = None,
    deliveries: tuple[Delivery, ...] = (),
) -> Fact[CallRow | None]:
    """Settle an unresolved call by what a probe, a person or recovery established; None if it moved meanwhile.

    `word` is who said so, on what evidence; it becomes part of the event's chain before the settlement.
    """
    yield from mark_delivered(deliveries)
    row = yield from get_call(call_id)
    if row is None or row.revision != revision or row.state not in UNRESOLVED:
        return None
    if word is not None:
        row = yield from touch(row, EventType.RESOLVED, settlement.at, word)
    yield from spend_after(row, settlement.output)
    return (yield from conclude(row, settlement))


def note_word(call_id: str, revision: int, word: JsonObject, at: int) -> Fact[CallRow | None]:
    """A person's word that settles nothing (`still_unknown`); None if the call moved meanwhile."""
    row = yield from get_call(call_id)
    if row is None or row.revision != revision:
        return None
    return (yield from touch(row, EventType.RESOLVED, at, word))


def rule_out(call_id: str, revision: int, at: int) -> Fact[CallRow | None]:
    """The attempts that nobody knew of are established to have had no effect, for good; None if the call moved."""
    row = yield from get_call(call_id)
    if row is None or row.revision != revision:
        return None
    yield from change(RULE_OUT, of=call_id)
    return (yield from touch(row, EventType.RESOLVED, at, {"attempts": RULED_OUT}))


def resend(call_id: str, revision: int, owner_id: str, at: int, why: JsonObject) -> Fact[CallRow | None]:
    """Queue an unresolved call to be sent again, because a rule says that it is safe; None if it moved meanwhile.

    It stays unresolved for everybody else until the next attempt has settled. An earlier wish to stop it is over.
    """
    row = yield from get_call(call_id)
    if row is None or row.revision != revision or row.state not in UNRESOLVED:
        return None
    return (
        yield from move(
            row,
            Move.RESEND,
            EventType.QUEUED,
            at,
            why,
            owner_id=owner_id,
            by_decision=1,
            sent="unknown",
            outcome=None,
            code=None,
            not_before=None,
            cancel_requested_at=None,
        )
    )


def attempt_again(call_id: str, owner_id: str, at: int, grant: Renewal | None = None) -> Fact[CallRow | None]:
    """The key of a call of which nothing ever left came again: the same call, its next attempt. None if it moved.

    It acts under the `grant` of who has asked anew.
    """
    row = yield from get_call(call_id)
    if row is None or row.state != CallState.SETTLED or row.outcome != "retryable_failure" or row.sent != "no":
        return None
    yield from keep_key(row)
    return (
        yield from move(
            row,
            Move.RESEND,
            EventType.QUEUED,
            at,
            {"why": "its key came again and nothing of it had left"},
            owner_id=owner_id,
            by_decision=0,
            settled_at=None,
            settled_by=None,
            delivered_at=None,
            outcome=None,
            code=None,
            message=None,
            request_owner=owner_id,
            cancel_requested_at=None,
            scopes=row.scopes if grant is None else grant.scopes,
            grant_expires_at=row.grant_expires_at if grant is None else grant.until(row.grant_expires_at or 0),
        )
    )


def get_attempt(call_id: str, generation: int) -> Fact[Any]:
    """The row of one attempt."""
    return (yield from one(SELECT_ATTEMPT, call_id=call_id, generation=generation))


def _lose(row: CallRow, at: int, data: JsonObject) -> Fact[CallRow]:
    return (
        yield from move(
            row,
            Move.LOSE,
            EventType.LOST,
            at,
            data,
            outcome="ambiguous",
            code="ambiguous",
            message="The server lost track of it before the outcome was recorded.",
            request_owner=None,
        )
    )


def _abandon(row: CallRow, at: int, data: JsonObject) -> Fact[CallRow]:
    outcome = "retryable_failure" if row.generation and row.state == CallState.QUEUED else "permanent_failure"
    done = yield from move(
        row,
        Move.ABANDON if row.state == CallState.QUEUED else Move.SETTLE,
        EventType.ABANDONED,
        at,
        data | {"outcome": outcome},
        outcome=outcome,
        sent="no",
        code="unavailable",
        retryable=1,
        message="Nothing was sent, and whoever asked is gone. Ask again if it is still wanted.",
        details=json.dumps({"reason": "interrupted"}),
        settled_at=at,
        settled_by="recovery",
        request_owner=None,
    )
    yield from release(done, at)
    return done
