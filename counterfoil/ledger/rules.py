"""The invariants of the tables that one query each can look for: it finds the rows that break it.

They speak of calls, attempts, resources, keys, approvals, payloads and runs as the facts of this room leave them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, func, literal, or_, select

from .events import EventType
from .evidence import HAPPENED
from .run_rows import WHOLE
from .sql import Sql
from .states import ENDED, SENT_AND_OPEN, CallState
from .tables import (
    approvals,
    attempts,
    budgets,
    calls,
    events,
    keys,
    leases,
    payload_chunks,
    payloads,
    places,
    plans,
    runs,
    undos,
)
from .undoing import COMPENSATION

ROWS: Final = 100  # of each rule


class Found(NamedTuple):
    """The row that a rule's query names."""

    row: str


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant: the query finds the rows that break it."""

    name: str
    table: str
    what: str
    sql: Sql[Found]


_c, _a, _p = calls.c, attempts.c, approvals.c
_settled = _c.state == CallState.SETTLED.value
ENDED_CALL: Final[ColumnElement[bool]] = or_(*(_c.state == state.value for state in sorted(ENDED)))
_sent: ColumnElement[bool] = or_(*(_c.state == state.value for state in sorted(SENT_AND_OPEN)))


_holds = or_(  # a call that holds its resources, apart from one that is known to have had no effect so far
    _sent,
    and_(or_(_c.state == CallState.QUEUED.value, _c.state == CallState.AWAITING_APPROVAL.value), _c.sent == "unknown"),
)
_rival, _rival_call = leases.alias("rival"), calls.alias("rival_call")
_undo = calls.alias("undo")
_settles_after: ColumnElement[bool] = or_(  # an undo whose run has ended: reconcile asks about it, or sends it again
    _c.state == CallState.AWAITING_RECONCILIATION.value,
    _c.state == CallState.AWAITING_EXTERNAL.value,
    _c.state == CallState.QUEUED.value,
)
_happened: ColumnElement[bool] = or_(*(_c.outcome == outcome for outcome in sorted(HAPPENED)))


def _rule(name: str, table: str, what: str, query: Select[Any]) -> Rule:
    return Rule(name, table, what, Sql(query.limit(ROWS), Found))


def _is_there(table: Any, *match: Any) -> ColumnElement[bool]:  # noqa: ANN401 (as below)
    return select(literal(1)).select_from(table).where(*match).exists()


def _count(table: Any, *match: Any) -> Any:  # noqa: ANN401 (as below)
    return select(func.count()).select_from(table).where(*match).scalar_subquery()


def _reopened(call: Any) -> ColumnElement[bool]:  # noqa: ANN401 (an alias's columns)
    """Late evidence opened it again: whoever took its resources meanwhile could not know."""
    return _is_there(
        events,
        events.c.run_id == call.run_id,
        events.c.call_id == call.call_id,
        events.c.type == EventType.REOPENED.value,
    )


def _no(table: Any, *match: Any) -> ColumnElement[bool]:  # noqa: ANN401 (SQLAlchemy's unions of column types)
    return ~select(literal(1)).select_from(table).where(*match).exists()


RULES: Final = (
    _rule(
        "dispatch_recorded", "calls", "it was sent and has no attempt of its generation",
        select(_c.call_id).where(_sent, _no(attempts, _a.call_id == _c.call_id)),
    ),
    _rule(
        "settlement_recorded", "calls", "it is settled and has no outcome or no time of settlement",
        select(_c.call_id).where(_settled, or_(_c.outcome.is_(None), _c.settled_at.is_(None))),
    ),
    _rule(
        "open_has_no_outcome", "calls", "it is open and has an outcome",
        select(_c.call_id).where(_sent, _c.state != CallState.AWAITING_RECONCILIATION.value, _c.outcome.is_not(None)),
    ),
    _rule(
        "generations_gapless", "attempts", "the generations of its attempts have a gap",
        select(_a.call_id)
        .group_by(_a.call_id)
        .having(or_(func.min(_a.generation) != 1, func.max(_a.generation) != func.count())),
    ),
    _rule(
        "attempts_counted", "calls", "it has another number of attempts than it says",
        select(_c.call_id).where(
            or_(_c.attempts != _c.generation, _c.attempts != _count(attempts, _a.call_id == _c.call_id))
        ),
    ),
    _rule(
        "attempts_in_events", "calls", "its events tell of another number of attempts",
        select(_c.call_id).where(
            _c.attempts != _count(
                events, events.c.run_id == _c.run_id, events.c.call_id == _c.call_id,
                or_(events.c.type == EventType.DISPATCHED.value, events.c.type == EventType.OBSERVED.value),
            )
        ),
    ),
    _rule(
        "absence_known", "calls", "it is settled as without effect, and of one of its attempts nobody knows",
        select(_c.call_id).where(
            _settled, _c.effect != "read", _c.sent != "unknown", ~_happened, _c.settled_by != "person",
            _is_there(
                attempts, _a.call_id == _c.call_id, _a.generation < _c.generation, _a.late.is_(None),
                or_(_a.outcome.is_(None), _a.outcome == "ambiguous"),
            ),
        ),
    ),
    _rule(
        "attempt_has_call", "attempts", "its call is missing",
        select(_a.call_id).where(_no(calls, _c.call_id == _a.call_id)),
    ),
    _rule(
        "head_recorded", "calls", "its last event is missing or another one",
        select(_c.call_id).where(
            _c.seq > 0,
            _no(events, events.c.run_id == _c.run_id, events.c.seq == _c.seq, events.c.hash == _c.head),
        ),
    ),
    _rule(
        "head_is_last", "calls", "there are events after the one that it names as last",
        select(_c.call_id).where(
            _c.run_id == _c.call_id,
            select(literal(1)).where(events.c.run_id == _c.run_id, events.c.seq > _c.seq).exists(),
        ),
    ),
    _rule(
        "lease_has_open_call", "leases", "its call is missing or has ended",
        select(leases.c.call_id).where(
            _no(
                calls,
                _c.call_id == leases.c.call_id,
                _c.state != CallState.SETTLED.value,
                _c.state != CallState.REFUSED.value,
            )
        ),
    ),
    _rule(
        "lease_has_attempt", "leases", "its call was never sent",
        select(leases.c.call_id).where(_is_there(calls, _c.call_id == leases.c.call_id, _c.attempts == 0)),
    ),
    _rule(
        "leases_held", "calls", "it may still act and does not hold exactly its resources",
        select(_c.call_id).where(
            _holds,
            case((func.json_valid(_c.resources) == 1, func.json_array_length(_c.resources)), else_=-1)
            != _count(leases, leases.c.call_id == _c.call_id),
        ),
    ),
    _rule(
        "leases_exclude", "leases", "another call holds the same resource, and one of them for itself alone",
        select(leases.c.call_id)
        .select_from(
            leases.join(
                _rival,
                and_(
                    _rival.c.tenant == leases.c.tenant, _rival.c.resource == leases.c.resource,
                    _rival.c.call_id != leases.c.call_id, or_(leases.c.shared == 0, _rival.c.shared == 0),
                ),
            )
            .join(calls, _c.call_id == leases.c.call_id)
            .join(_rival_call, _rival_call.c.call_id == _rival.c.call_id)
        )
        .where(~_reopened(_c), ~_reopened(_rival_call.c))
        .distinct(),
    ),
    _rule(
        "key_has_call", "keys", "its call is missing",
        select(keys.c.call_id).where(_no(calls, _c.call_id == keys.c.call_id)),
    ),
    _rule(
        "key_of_its_call", "keys", "its call is another caller's or tool's, has other arguments, or was never sent",
        select(keys.c.call_id).where(
            _is_there(
                calls, _c.call_id == keys.c.call_id,
                or_(
                    _c.tenant != keys.c.tenant, _c.subject != keys.c.subject, _c.tool != keys.c.tool,
                    _c.args_digest != keys.c.args_digest, _c.attempts == 0,
                ),
            )
        ),
    ),
    _rule(
        "key_bound", "calls", "it was sent and its key does not belong to it",
        select(_c.call_id).where(
            _c.key.is_not(None), _c.attempts > 0,
            _no(
                keys, keys.c.tenant == _c.tenant, keys.c.subject == _c.subject, keys.c.tool == _c.tool,
                keys.c.key == _c.key, keys.c.call_id == _c.call_id,
            ),
        ),
    ),
    _rule(
        "key_lasts", "keys", "it can expire while its call is open",
        select(keys.c.call_id).where(
            keys.c.expires_at.is_not(None), _is_there(calls, _c.call_id == keys.c.call_id, ~ENDED_CALL)
        ),
    ),
    _rule(
        "approval_has_call", "approvals", "it covers no call, or a call of it is missing",
        select(_p.approval_id).where(
            or_(
                _no(places, places.c.approval_id == _p.approval_id),
                _is_there(places, places.c.approval_id == _p.approval_id, _no(calls, _c.call_id == places.c.call_id)),
            )
        ),
    ),
    _rule(
        "approval_open", "approvals", "it is open and no call waits for it",
        select(_p.approval_id).where(
            or_(_p.state == "pending", _p.state == "approved"),
            _no(
                calls.join(places, places.c.call_id == _c.call_id),
                places.c.approval_id == _p.approval_id, _c.approval_id == _p.approval_id,
                or_(
                    and_(_p.state == "pending", _c.state == CallState.AWAITING_APPROVAL.value),
                    and_(_p.state == "approved", _c.state == CallState.QUEUED.value),
                ),
            ),
        ),
    ),
    _rule(
        "approval_consumed", "approvals", "it is consumed and none of its calls was sent",
        select(_p.approval_id).where(
            _p.state == "consumed",
            _no(
                calls.join(places, places.c.call_id == _c.call_id),
                places.c.approval_id == _p.approval_id, places.c.consumed_at.is_not(None), _c.attempts > 0,
            ),
        ),
    ),
    _rule(
        "approval_awaited", "calls", "it waits for a decision and no proposal of it is undecided",
        select(_c.call_id).where(
            _c.state == CallState.AWAITING_APPROVAL.value,
            _no(
                approvals.join(places, places.c.approval_id == _p.approval_id),
                _p.approval_id == _c.approval_id, places.c.call_id == _c.call_id, _p.state == "pending",
            ),
        ),
    ),
    _rule(
        "run_of_step", "calls", "its run is missing",
        select(_c.call_id).where(_c.run_id != _c.call_id, _no(runs, runs.c.run_id == _c.run_id)),
    ),
    _rule(
        "run_ended", "runs", "it is finished, and somebody drives it or a call of it is under way",
        select(runs.c.run_id).where(
            runs.c.finished_at.is_not(None),
            or_(
                runs.c.owner_id.is_not(None),
                _is_there(
                    calls, _c.run_id == runs.c.run_id, ~ENDED_CALL,
                    ~and_(_c.route == COMPENSATION, _settles_after),
                    _no(
                        events, events.c.run_id == _c.run_id, events.c.call_id == _c.call_id,
                        events.c.type == EventType.REOPENED.value,
                    ),
                ),
            ),
        ),
    ),
    _rule(
        "complete_is_undone", "runs", "it says that it is undone, and an effect of it is neither undone nor kept",
        select(runs.c.run_id).where(
            runs.c.finished_at.is_not(None), runs.c.compensation == "complete",
            _is_there(
                calls, _c.run_id == runs.c.run_id, _c.step.is_not(None), _c.route != COMPENSATION,
                _c.effect != "read", _settled, _happened,
                _no(
                    _undo, _undo.c.parent_call_id == _c.call_id, _undo.c.route == COMPENSATION,
                    _undo.c.state == CallState.SETTLED.value,
                    or_(_undo.c.outcome == "success", _undo.c.outcome == "no_result"),
                ),
                _no(
                    undos, undos.c.run_id == _c.run_id, undos.c.step == _c.step,
                    undos.c.item == func.coalesce(_c.item, WHOLE), undos.c.state == "kept",
                ),
            ),
        ),
    ),
    _rule(
        "run_driven", "runs", "it is said to be running, and nobody drives it",
        select(runs.c.run_id).where(runs.c.status == "running", runs.c.owner_id.is_(None)),
    ),
    _rule(
        "run_has_plan", "runs", "its plan is missing",
        select(runs.c.run_id).where(_no(plans, plans.c.plan_id == runs.c.plan_id)),
    ),
    _rule(
        "budget_positive", "budgets", "more was given back than was taken",
        select(budgets.c.scope).where(budgets.c.used < 0),
    ),
    _rule(
        "arguments_kept", "calls", "it is open and its arguments are missing",
        select(_c.call_id).where(_sent, _c.args_payload != "", _no(payloads, payloads.c.payload_id == _c.args_payload)),
    ),
    _rule(
        "output_kept", "calls", "its output is missing",
        select(_c.call_id).where(
            _c.output_payload.is_not(None), _no(payloads, payloads.c.payload_id == _c.output_payload)
        ),
    ),
    _rule(
        "payload_whole", "payloads", "chunks of it are missing",
        select(payloads.c.payload_id)
        .select_from(payloads.outerjoin(payload_chunks, payload_chunks.c.payload_id == payloads.c.payload_id))
        .where(payloads.c.chunks > 1)
        .group_by(payloads.c.payload_id, payloads.c.chunks)
        .having(func.count(payload_chunks.c.n) != payloads.c.chunks - 1),
    ),
)  # fmt: skip
