"""T2: the durable record of an attempt's outcome, committed before the caller sees it; and what comes too late for it.

A settlement of a superseded attempt is kept as evidence and never becomes state by itself; `take_late` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from sqlalchemy import bindparam, delete

from ..canonical import JsonObject
from .admission import (
    Duplicate,
    Neighbours,
    RunSaysNo,
    bind_key,
    find_duplicate,
    keep_key,
    start_retention,
    take_leases,
)  # fmt: skip
from .approvals import let_go
from .bookkeeping import Delivery, mark_delivered
from .budgeting import give_back, spend_after
from .events import EventType
from .evidence import RULED_OUT, answering, contradicts, earlier_unknown, happened_after_all
from .external import accept
from .rows import (
    KEEP_LATE,
    SELECT_ATTEMPT,
    SELECT_ATTEMPTS,
    SETTLE_ATTEMPT,
    AttemptRow,
    CallRow,
    StaleRowError,
    create,
    get_call,
    move,
    touch,
)
from .run_rows import POST_TO_WAITING, standing
from .sealing import Sealed, store
from .settlement import Settlement as Settlement
from .sql import Fact, Sql, add, change, fetch, one
from .states import ENDED, UNRESOLVED, CallState, Move
from .tables import attempts, leases
from .undoing import mark_incomplete

_RELEASE: Sql[Any] = Sql(delete(leases).where(leases.c.call_id == bindparam("of")))


@dataclass(frozen=True, slots=True)
class Settled:
    """T2 is made; the row says what of it became state."""

    row: CallRow


@dataclass(frozen=True, slots=True)
class Superseded:
    """Somebody else had taken this attempt over: what it brought is kept as evidence."""

    row: CallRow | None


SettleResult: TypeAlias = Settled | Superseded


def settle(
    call_id: str,
    generation: int,
    settlement: Settlement,
    *,
    retry_at: int | None = None,
    handler_ended: bool = True,
    known: CallRow | None = None,
) -> Fact[SettleResult]:
    """The outcome of an attempt, by the one who made it. With `retry_at` another follows, unless it is to be stopped.

    That this one had no effect settles nothing while an earlier one may have had its own: the call stays unresolved.
    Carried out twice (after a commit whose answer was lost) it changes nothing the second time. `known` is the row as
    its T1 made it: while nobody has changed it since, it need not be read.
    """
    if known is not None and generation == 1 and known.charges is None and retry_at is None:
        try:
            return (yield from _settle_first(known, settlement, handler_ended=handler_ended))
        except StaleRowError:  # nothing was changed yet
            pass
    row = yield from get_call(call_id)
    if row is None or row.state != CallState.DISPATCHED or row.generation != generation:
        if row is not None and (yield from _already(row, generation, settlement)):
            return Settled(row)
        return (yield from _keep_late(row, generation, settlement))
    settlement = _after(settlement, row.dispatched_at)
    yield from end_attempt(call_id, generation, settlement, handler_ended=handler_ended)
    if settlement.sent != "no":
        yield from spend_after(row, settlement.output, settlement.at - (row.dispatched_at or settlement.at))
    crossings = (yield from fetch(SELECT_ATTEMPTS, call_id=call_id)) if generation > 1 else ()
    doubt = earlier_unknown(row, crossings, before=generation)
    if retry_at is not None and row.cancel_requested_at is None:
        data = _t2(row, generation, settlement) | {"not_before": retry_at}
        sent = "unknown" if doubt or settlement.happened is None else "no"
        changes = {"not_before": retry_at, "sent": sent, "outcome": None}
        return Settled((yield from move(row, Move.RETRY, EventType.RETRIED, settlement.at, data, **changes)))
    if doubt and settlement.happened is False:
        return Settled((yield from _stay_unknown(row, generation, settlement)))
    return Settled((yield from conclude(row, settlement)))


def _settle_first(known: CallRow, settlement: Settlement, *, handler_ended: bool) -> Fact[Settled]:
    """The only attempt of a call, which charged nothing: nothing is asked, and the row's own change comes first."""
    settlement = _after(settlement, known.dispatched_at)
    row = yield from conclude(known, settlement)
    yield from end_attempt(known.call_id, 1, settlement, handler_ended=handler_ended)
    return Settled(row)


def _stay_unknown(row: CallRow, generation: int, settlement: Settlement) -> Fact[CallRow]:
    if settlement.output is not None:
        yield from store(settlement.output)
    said = settlement.message or settlement.outcome
    return (
        yield from move(
            row,
            Move.LOSE,
            EventType.LOST,
            settlement.at,
            _t2(row, generation, settlement),
            outcome="ambiguous",
            sent="unknown",
            code="ambiguous",
            message=f"Attempt {generation} had no effect ({said}); what became of an earlier one is still not known.",
        )
    )


def observe(
    row: CallRow,
    who: Neighbours,
    arguments: Sealed,
    settlement: Settlement,
    owner_id: str,
    deliveries: Sequence[Delivery],
) -> Fact[Settled | Duplicate | RunSaysNo]:
    """T1 and T2 of a closed-world read in one fact, after it ran and before its answer.

    One of a run that is driven elsewhere by now is not recorded: it is read again there.
    """
    settlement = _after(settlement, row.created_at)
    yield from mark_delivered(deliveries)
    if row.in_run and (yield from standing(row.run_id)).owner_id != owner_id:
        return RunSaysNo("moved")
    if row.key is not None and (duplicate := (yield from find_duplicate(who))) is not None:
        return duplicate
    yield from store(arguments)
    if settlement.output is not None:
        yield from store(settlement.output)
    data: JsonObject = _t2(row, 1, settlement) | {
        "tool": row.tool,
        "version": row.version,
        "schema_digest": row.schema_digest,
        "effect": row.effect,
        "subject": row.subject,
        "route": row.route,
        "args_digest": row.args_digest,
        "arguments": json.loads(row.args_shown),
        "commitment": arguments.commitment,
    }
    made = yield from create(
        row,
        Move.RECORD_READ,
        EventType.OBSERVED,
        data,
        attempts=1,
        generation=1,
        owner_id=owner_id,
        dispatched_at=row.created_at,
        **_outcome(settlement),
    )
    at, ended = row.created_at, settlement.at
    crossing = AttemptRow(row.call_id, 1, owner_id, at, None, ended, settlement.outcome, settlement.sent, ended)
    yield from add(attempts, crossing)
    if row.key is not None:
        yield from bind_key(made, row.key, settlement.at)
        yield from start_retention(made, settlement.at)
    return Settled(made)


def conclude(row: CallRow, settlement: Settlement, **changes: Any) -> Fact[CallRow]:  # noqa: ANN401 (columns)
    """Make a settlement the state of its call: settled, unresolved, or waited for. That is its first change.

    It is unresolved where it is ambiguous, and waited for where the far side has accepted it and still works.

    Raises:
        StaleRowError: somebody changed the row after it was read; nothing was changed.
    """
    data = _t2(row, row.generation, settlement)
    changes |= _outcome(settlement)
    if settlement.accepted is not None:
        changes |= {"settled_at": None, "settled_by": None}
        return (yield from accept(row, settlement.accepted, settlement.at, data, **changes))
    if settlement.outcome == "ambiguous":
        changes |= {"settled_at": None, "settled_by": None}
        done = yield from move(row, Move.LOSE, EventType.LOST, settlement.at, data, **changes)
    else:
        event = EventType.SETTLED if settlement.by in {"execution", "recovery"} else EventType.RESOLVED
        done = yield from move(row, Move.SETTLE, event, settlement.at, data, **changes)
        yield from release(done, settlement.at, at_once=row.generation == 1 and row.state not in UNRESOLVED)
    if settlement.output is not None:
        yield from store(settlement.output)
    return done


def release(row: CallRow, at: int, *, at_once: bool = False) -> Fact[None]:
    """A settled call lets go of its resources, and of its charges if it was never sent; its key's retention begins.

    Runs that wait for it go on. None does where its first attempt ended `at_once`, with nobody in doubt about it.
    """
    if row.charges is not None:
        yield from give_back(row)
    if row.resource_keys:
        yield from change(_RELEASE, of=row.call_id)
    if row.key is not None:
        yield from start_retention(row, at)
    if row.generation and not at_once:
        yield from change(POST_TO_WAITING, call_id=row.call_id, at=at)


def take_late(call_id: str, at: int) -> Fact[CallRow | None]:
    """Let a late settlement answer for its unresolved call; None if there is none that does.

    A call that was about to be sent again is answered by it too.
    """
    row = yield from get_call(call_id)
    if row is None or not (row.state in UNRESOLVED or (row.state == CallState.QUEUED and row.generation)):
        return None
    crossing = answering(row, (yield from fetch(SELECT_ATTEMPTS, call_id=call_id)))
    return None if crossing is None else (yield from _conclude_late(row, crossing, at))


def _conclude_late(row: CallRow, crossing: AttemptRow, at: int) -> Fact[CallRow]:
    late: JsonObject = json.loads(crossing.late or "{}")
    settlement = Settlement(
        outcome=str(late["outcome"]),
        sent=str(late["sent"]),
        at=at,
        by="late",
        code=cast("str | None", late.get("code")),
        message=cast("str | None", late.get("message")),
        retryable=bool(late.get("retryable")),
        details=_object(late.get("details")),
        evidence=_object(late.get("evidence")),
    )
    yield from let_go(row)
    return (yield from conclude(row, settlement, output_payload=crossing.late_payload))


def _keep_late(row: CallRow | None, generation: int, settlement: Settlement) -> Fact[Superseded]:
    if row is None:
        return Superseded(None)
    settlement = _after(settlement, row.dispatched_at)
    late = _t2(row, generation, settlement) | {"retryable": settlement.retryable}
    kept = yield from one(SELECT_ATTEMPT, call_id=row.call_id, generation=generation)
    if kept is not None and kept.late == json.dumps(late) and kept.handler_ended_at == settlement.at:
        return Superseded(row)
    if settlement.output is not None:
        yield from store(settlement.output)
    if kept is not None and settlement.sent != "no":
        yield from spend_after(row, settlement.output, settlement.at - kept.dispatched_at)
    yield from change(
        KEEP_LATE,
        of=row.call_id,
        number=generation,
        late=json.dumps(late),
        late_payload=settlement.output.payload_id if settlement.output else None,
        at=settlement.at,
    )
    row = yield from touch(row, EventType.LATE_SETTLEMENT, settlement.at, late)
    crossings = yield from fetch(SELECT_ATTEMPTS, call_id=row.call_id)
    if _contradicts(row, generation, crossings):
        row = yield from _contradict(row, settlement)
    elif any(one.generation == generation and happened_after_all(one, crossings) for one in crossings):
        data: JsonObject = {"attempt": generation, "stated": RULED_OUT, "late": settlement.outcome}
        row = yield from touch(row, EventType.CONTRADICTION, settlement.at, data)
    return Superseded(row)


def _contradicts(row: CallRow, generation: int, crossings: Sequence[AttemptRow]) -> bool:
    if row.state not in ENDED or row.outcome is None:
        return False
    details = json.loads(row.details) if row.details else None
    stated = Settlement(row.outcome, row.sent, 0, details=details).happened
    late = next((crossing for crossing in crossings if crossing.generation == generation), None)
    return late is not None and contradicts(late, crossings, stated=stated, is_read=row.is_read)


def _contradict(row: CallRow, settlement: Settlement) -> Fact[CallRow]:
    data: JsonObject = {"stated": row.outcome, "stated_by": row.settled_by, "late": settlement.outcome}
    if row.settled_by not in {"person", "probe"}:
        return (yield from touch(row, EventType.CONTRADICTION, settlement.at, data))
    row = yield from touch(row, EventType.CONTRADICTION, settlement.at, data)
    yield from take_leases(row, settlement.at)
    yield from keep_key(row)
    row = yield from move(
        row, Move.REOPEN, EventType.REOPENED, settlement.at, data,
        outcome="ambiguous", sent="unknown", code="ambiguous", settled_at=None, delivered_at=None,
        message="What a person or a probe said and what the attempt itself reported later contradict each other.",
    )  # fmt: skip
    if row.in_run:
        yield from mark_incomplete(row.run_id, {"because": row.call_id}, settlement.at)
    return row


def _after(settlement: Settlement, began: int | None) -> Settlement:
    """A settlement is never earlier than what it settles, even if the clock was set back meanwhile."""
    return settlement if began is None or settlement.at >= began else replace(settlement, at=began)


def _already(row: CallRow, generation: int, settlement: Settlement) -> Fact[bool]:
    for crossing in (yield from fetch(SELECT_ATTEMPTS, call_id=row.call_id)):
        if crossing.generation == generation:
            kept = (crossing.settled_at, crossing.outcome, crossing.sent)
            return kept == (_after(settlement, crossing.dispatched_at).at, settlement.outcome, settlement.sent)
    return False


def end_attempt(call_id: str, generation: int, settlement: Settlement, *, handler_ended: bool) -> Fact[None]:
    """What is known of one attempt at its end."""
    yield from change(
        SETTLE_ATTEMPT,
        of=call_id,
        number=generation,
        settled_at=settlement.at,
        outcome=settlement.outcome,
        sent=settlement.sent,
        handler_ended_at=settlement.at if handler_ended else None,
    )


def _outcome(settlement: Settlement) -> dict[str, Any]:
    found: dict[str, Any] = {
        "outcome": settlement.outcome,
        "sent": settlement.sent,
        "code": settlement.code,
        "message": settlement.message,
        "retryable": int(settlement.retryable),
        "details": json.dumps(settlement.details) if settlement.details else None,
        "evidence": json.dumps(settlement.evidence) if settlement.evidence else None,
        "settled_at": settlement.at,
        "settled_by": settlement.by,
    }
    return found | ({"output_payload": settlement.output.payload_id} if settlement.output is not None else {})


def _t2(row: CallRow, generation: int, settlement: Settlement) -> JsonObject:
    data: JsonObject = {
        "attempt": generation,
        "action_id": row.action_id,
        "outcome": settlement.outcome,
        "sent": settlement.sent,
        "by": settlement.by,
        "code": settlement.code,
        "message": settlement.message,
        "details": settlement.details,
        "evidence": settlement.evidence,
        "output": settlement.output.commitment if settlement.output else None,
        "output_bytes": settlement.output.bytes if settlement.output else None,
    }
    return {name: value for name, value in data.items() if value is not None}


def _object(value: Any) -> JsonObject | None:  # noqa: ANN401 (JSON)
    return cast("JsonObject", value) if isinstance(value, dict) else None
