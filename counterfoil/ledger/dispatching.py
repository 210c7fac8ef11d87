"""T1: the durable record of an attempt, committed before the tool's code runs, every guard in the same transaction.

`dispatch_new` makes a direct call's first row; `dispatch_queued` sends a call that already has one (decided, retried,
resent, or told to its caller as queued). `enqueue` gives a call its row while it still waits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import bindparam, func, select

from ..canonical import JsonObject
from .admission import (
    SELECT_LEASES,
    SHARED,
    Busy,
    Duplicate,
    GrantLapsed,
    Held,
    Neighbours,
    OwnerLapsed,
    Relation,
    RunSaysNo,
    Unresolved,
    bind_key,
    find_bound,
    find_duplicate,
    find_holder,
    find_unresolved_sibling,
    look_around,
    owner_lives,
    run_says,
    says_no,
    store_if_clear,
    take_leases,
)
from .approval_rows import SELECT_APPROVAL, SELECT_PLACE, ApprovalRow, PlaceRow
from .approvals import ApprovalState, consume, stall, window_ends
from .bookkeeping import Delivery, mark_delivered
from .budgeting import Charge, OverBudget, afford, held, shown
from .events import EventType
from .evidence import answering, earlier_unknown
from .holding import standing_hold
from .rows import SELECT_ATTEMPTS, AttemptRow, CallRow, create, get_call, move
from .run_rows import standing
from .sealing import Sealed, store
from .sql import Count, Fact, Sql, add, fetch, one
from .states import CallState, Move
from .tables import attempts, calls


@dataclass(frozen=True, slots=True)
class Attempt:
    """One crossing of the boundary, about to be made. `run_time` is how long its run may take, in microseconds."""

    owner_id: str
    at: int
    hard_deadline_at: int | None
    request_open: bool
    charges: Sequence[Charge] = ()
    deliveries: Sequence[Delivery] = ()
    run_time: int | None = None


@dataclass(frozen=True, slots=True)
class Dispatched:
    """T1 is made; the adapter may be called once."""

    row: CallRow


@dataclass(frozen=True, slots=True)
class ApprovalGone:
    """The approval that this attempt needs cannot be consumed (any more)."""

    approval: ApprovalRow | None


@dataclass(frozen=True, slots=True)
class Moved:
    """The call is no longer where the caller left it: decided, cancelled or taken by somebody else."""

    row: CallRow | None


@dataclass(frozen=True, slots=True)
class LateFound:
    """An earlier attempt has reported after all: read that before anything is sent again."""

    row: CallRow


_KEPT: Final = frozenset({ApprovalState.APPROVED, ApprovalState.CONSUMED, ApprovalState.SUPERSEDED})
"""The states of a proposal under which a call that has taken its place may be sent again."""

NotDispatched: TypeAlias = (
    Held
    | GrantLapsed
    | LateFound
    | Duplicate
    | Unresolved
    | Busy
    | OverBudget
    | OwnerLapsed
    | ApprovalGone
    | Moved
    | RunSaysNo
)

SINCE: Sql[Count] = Sql(
    select(func.count())
    .select_from(calls)
    .where(
        calls.c.tenant == bindparam("tenant"),
        calls.c.subject == bindparam("subject"),
        calls.c.created_at >= bindparam("since"),
        calls.c.tool == bindparam("tool"),
        calls.c.call_id != bindparam("mine"),
        calls.c.dispatched_at.is_not(None),
    ),
    Count,
)


def look(who: Neighbours, keys: Sequence[str]) -> Fact[Duplicate | Unresolved | Busy | None]:
    """Everything that stands in the way of a new call, before it waits for anything."""
    return (yield from find_duplicate(who)) or (yield from _neighbours(who, keys))


def dispatch_new(
    row: CallRow, who: Neighbours, arguments: Sealed, attempt: Attempt
) -> Fact[Dispatched | NotDispatched]:
    """T1 of a call that has no row yet."""
    yield from mark_delivered(attempt.deliveries)
    run = (yield from standing(row.run_id)) if row.in_run else None
    said = says_no(run, row, attempt.owner_id, attempt.at, attempt.run_time) if run is not None else None
    if said is not None:
        return said
    guarded = bool(row.resource_keys or attempt.charges)
    if guarded or not (yield from store_if_clear(attempt.owner_id, who, arguments)):
        stop = yield from _stops(row, who, attempt)
        if stop is not None:
            return stop
        yield from store(arguments)
    made = yield from create(
        row, Move.DISPATCH, EventType.DISPATCHED, _t1(row, 1, attempt, arguments), run, **_dispatched(1, attempt)
    )
    yield from _cross(made, attempt)
    if row.key is not None:
        yield from bind_key(made, row.key, attempt.at)
    return Dispatched(made)


def _stops(row: CallRow, who: Neighbours, attempt: Attempt) -> Fact[NotDispatched | None]:
    around = yield from look_around(attempt.owner_id, who)
    if not around.owner_lives:
        return OwnerLapsed()
    near: NotDispatched | None = (yield from look(who, row.resource_keys)) if around.near or row.resource_keys else None
    if near is None and around.near:
        near = yield from standing_hold(row)
    return near or (yield from afford(attempt.charges))


def enqueue(row: CallRow, who: Neighbours, arguments: Sealed) -> Fact[CallRow | Duplicate | Unresolved]:
    """A call that goes on waiting gets its row, so that its caller can be told `queued`."""
    duplicate = yield from find_duplicate(who)
    if duplicate is not None:
        return duplicate
    stop = yield from _neighbours(who, row.resource_keys)
    if isinstance(stop, Unresolved):
        return stop
    yield from store(arguments)
    data = _facts(row, arguments.commitment)
    return (yield from create(row, Move.ENQUEUE, EventType.QUEUED, data, request_owner=None))


def dispatch_queued(
    call_id: str, attempt: Attempt, *, digest: str | None, siblings: bool, idempotency: str = "keyed"
) -> Fact[Dispatched | NotDispatched]:
    """T1 of a call that has a row; `digest` is what its approval must be bound to, None if it needs none.

    `siblings` is true for a non-read tool without resources: an unresolved call of the same tool then refuses it.
    `idempotency` is the contract's: where an earlier attempt may have had its effect, it alone makes another harmless.
    """
    yield from mark_delivered(attempt.deliveries)
    row = yield from get_call(call_id)
    if row is None or row.state != CallState.QUEUED or row.owner_id != attempt.owner_id or row.cancel_requested_at:
        return Moved(row)
    if not (yield from owner_lives(attempt.owner_id)):
        return OwnerLapsed()
    stop: NotDispatched | None = yield from run_says(row, attempt.owner_id, attempt.at, attempt.run_time)
    stop = stop or (yield from _known_by_now(row, idempotency, attempt.at))
    stop = stop or (yield from standing_hold(row)) or lapsed(row, attempt.at)
    approval = (yield from _consumable(row, digest, attempt.at)) if stop is None and digest is not None else None
    if stop is None and digest is not None and approval is None:
        stop = ApprovalGone((yield from one(SELECT_APPROVAL, approval_id=row.approval_id or "")))
    stop = stop or (yield from in_the_way(row, siblings=siblings))
    stop = stop or (yield from afford(attempt.charges if row.charges is None else ()))
    if stop is not None:
        if digest is not None and isinstance(stop, Held | GrantLapsed | Unresolved | OverBudget):
            yield from stall(row, digest, _since(stop, attempt.at), attempt.at)
        return stop
    if approval is not None and approval[1].consumed_at is None:
        yield from consume(*approval, attempt.at)
    number = row.generation + 1
    sent = yield from move(
        row,
        Move.DISPATCH,
        EventType.DISPATCHED,
        attempt.at,
        _t1(row, number, attempt, None),
        **_dispatched(number, attempt) | {"charges": row.charges or held(attempt.charges)},
    )
    yield from _cross(sent, attempt)
    if row.key is not None and row.generation == 0:
        yield from bind_key(sent, row.key, attempt.at)
    return Dispatched(sent)


def lapsed(row: CallRow, at: int) -> GrantLapsed | None:
    """Whether a direct call was asked under what is good no more; a step acts under its run's, a probe under ours."""
    ends = None if row.route == "probe" else row.grant_expires_at
    return GrantLapsed(ends) if ends is not None and at >= ends else None


def _since(stop: Held | GrantLapsed | Unresolved | OverBudget, at: int) -> int:
    """Since when it stands in the way, as far as that is known."""
    match stop:
        case Held(at=since) | GrantLapsed(since=since):
            return since
        case _:
            return at


def _known_by_now(row: CallRow, idempotency: str, at: int) -> Fact[LateFound | Moved | None]:
    """What earlier attempts keep this one from: one has reported after all, or another might do harm."""
    if not row.generation:
        return None
    crossings = yield from fetch(SELECT_ATTEMPTS, call_id=row.call_id)
    if answering(row, crossings) is not None:
        return LateFound(row)
    if earlier_unknown(row, crossings, before=row.generation + 1):
        why = yield from _harmful(row, crossings, idempotency, at)
        return Moved((yield from _give_up_resending(row, why, at))) if why is not None else None
    return None


def _neighbours(who: Neighbours, keys: Sequence[str], mine: str | None = None) -> Fact[Unresolved | Busy | None]:
    if keys:
        return (yield from find_holder(who.tenant, keys, mine=mine))
    if not who.is_read and (who.direct or who.run_id is not None):
        return (yield from find_unresolved_sibling(who, mine=mine))
    return None


def in_the_way(row: CallRow, *, siblings: bool) -> Fact[Duplicate | Unresolved | Busy | None]:
    """The other call that keeps one with a row from being sent; `siblings` as for `dispatch_queued`."""
    who = Neighbours(
        row.tenant, row.subject, row.tool, row.args_digest, row.key, row.is_read, siblings, now=0, window=0,
        run_id=row.run_id if siblings and row.in_run else None,
    )  # fmt: skip
    bound = yield from find_bound(row)
    if bound is not None:
        return Duplicate(Relation.CONFLICT, bound)
    return (yield from _neighbours(who, row.resource_keys, mine=row.call_id))


def _harmful(row: CallRow, crossings: Sequence[AttemptRow], idempotency: str, at: int) -> Fact[str | None]:
    """Why another attempt might do harm after one that may have had its effect; None if it cannot."""
    if idempotency == "keyed":
        kept = at < crossings[0].dispatched_at + row.key_retention
        return None if kept else "the far side may have forgotten its key"
    harmless = idempotency == "natural" and (yield from undisturbed(row))
    return None if harmless else "something else may have been done since"


def undisturbed(row: CallRow) -> Fact[bool]:
    """True while no later call can have touched what this one did: it holds its keys, and all of them alone.

    Without resources nothing but its own subject's later calls of the same tool can have touched it.
    """
    if not row.resource_keys:
        later = yield from one(
            SINCE, tenant=row.tenant, subject=row.subject, since=row.created_at, tool=row.tool, mine=row.call_id
        )
        return later is None or later.n == 0
    for key in row.resource_keys:
        held = yield from fetch(SELECT_LEASES, tenant=row.tenant, resource=key.removeprefix(SHARED))
        if key.startswith(SHARED) or [lease.call_id for lease in held] != [row.call_id]:
            return False
    return True


def _give_up_resending(row: CallRow, why: str, at: int) -> Fact[CallRow]:
    return (
        yield from move(
            row,
            Move.LOSE,
            EventType.LOST,
            at,
            {"why": why},
            outcome="ambiguous",
            code="ambiguous",
            message=f"It was not sent again, since {why}. Whether an earlier attempt happened is still not known.",
            by_decision=0,
        )
    )


def _consumable(row: CallRow, digest: str, at: int) -> Fact[tuple[ApprovalRow, PlaceRow] | None]:
    """What this attempt takes: its place in an approved proposal, or the one that an earlier attempt of it took."""
    found = yield from one(SELECT_APPROVAL, approval_id=row.approval_id or "")
    place = yield from one(SELECT_PLACE, approval_id=row.approval_id or "", call_id=row.call_id)
    if found is None or place is None or place.digest != digest:
        return None
    taken = place.consumed_at is not None and row.generation > 0 and found.state in _KEPT
    ends = window_ends(found, at)
    fits = taken or (place.consumed_at is None and found.state == ApprovalState.APPROVED)
    return (found, place) if fits and ends is not None and at <= ends else None


def _cross(row: CallRow, attempt: Attempt) -> Fact[None]:
    yield from take_leases(row, attempt.at)
    at = row.dispatched_at or attempt.at
    crossing = AttemptRow(row.call_id, row.generation, attempt.owner_id, at, attempt.hard_deadline_at)
    yield from add(attempts, crossing)


def _dispatched(number: int, attempt: Attempt) -> dict[str, Any]:
    return {
        "attempts": number,
        "generation": number,
        "owner_id": attempt.owner_id,
        "dispatched_at": attempt.at,
        "request_owner": attempt.owner_id if attempt.request_open else None,
        "sent": "unknown",
        "not_before": None,
        "outcome": None,
        "code": None,
        "message": None,
        "details": None,
        "charges": held(attempt.charges),
    }


def _facts(row: CallRow, commitment: str | None) -> JsonObject:
    return {
        "tool": row.tool,
        "version": row.version,
        "schema_digest": row.schema_digest,
        "effect": row.effect,
        "subject": row.subject,
        "client": row.client,
        "route": row.route,
        "action_id": row.action_id,
        "args_digest": row.args_digest,
        "arguments": json.loads(row.args_shown),
        "commitment": commitment,
    }


def _t1(row: CallRow, number: int, attempt: Attempt, arguments: Sealed | None) -> JsonObject:
    first = _facts(row, arguments.commitment if arguments else None) if number == 1 else {}
    data: JsonObject = {
        **first,
        "action_id": row.action_id,
        "attempt": number,
        "owner": attempt.owner_id,
        "approval_id": row.approval_id,
        "rule_id": row.rule_id,
        "charges": None if row.charges else shown(attempt.charges),
    }
    return {name: value for name, value in data.items() if value is not None}
