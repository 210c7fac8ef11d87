"""What there is to do about calls: those that time, lost owners or other processes have left, page by page.

Only questions; what is done about a find is in `recovering`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import bindparam, or_, select, text

from .sql import Fact, Sql, fetch
from .tables import approvals, attempts, calls, owners

PAGE = 200


class CallId(NamedTuple):
    """The name of a call."""

    call_id: str


_OPEN_STATES = text("calls.state != 'settled' AND calls.state != 'refused'")
_DIRECT = text("calls.step IS NULL")
"""The calls of a run are its driver's to take over and to carry on."""

ORPHANS: Sql[CallId] = Sql(
    select(calls.c.call_id)
    .select_from(calls.join(owners, owners.c.owner_id == calls.c.owner_id))
    .where(
        _OPEN_STATES,
        _DIRECT,
        or_(calls.c.state == "dispatched", calls.c.state == "queued"),
        or_(owners.c.lapsed_at.is_not(None), owners.c.ended_at.is_not(None)),
    )
    .order_by(calls.c.created_at)
    .limit(PAGE),
    CallId,
)
"""Calls under way whose owner is gone."""

OWNED: Sql[CallId] = Sql(
    select(calls.c.call_id).where(
        calls.c.owner_id == bindparam("owner_id"),
        _OPEN_STATES,
        or_(calls.c.state == "dispatched", calls.c.state == "queued"),
    ),
    CallId,
)
"""Calls under way that this owner must know of."""

CANCELLED: Sql[CallId] = Sql(
    select(calls.c.call_id).where(
        calls.c.owner_id == bindparam("owner_id"),
        _OPEN_STATES,
        calls.c.state == "dispatched",
        calls.c.effect == "read",
        calls.c.cancel_requested_at.is_not(None),
    ),
    CallId,
)
"""Reads of this owner that somebody, perhaps in another process, asked to stop."""

UNCLAIMED: Sql[CallId] = Sql(
    select(calls.c.call_id)
    .where(_OPEN_STATES, _DIRECT, calls.c.state == "queued", calls.c.owner_id.is_(None))
    .order_by(calls.c.created_at)
    .limit(PAGE),
    CallId,
)
"""Calls that a decision queued and nobody has taken up."""

LATE: Sql[CallId] = Sql(
    select(calls.c.call_id)
    .select_from(calls.join(attempts, attempts.c.call_id == calls.c.call_id))
    .where(
        _OPEN_STATES,
        calls.c.state == "awaiting_reconciliation",
        attempts.c.late.is_not(None),
        calls.c.settled_by.is_(None),  # it stays where a late word contradicted somebody's: a reconcile decides that
    )
    .distinct()
    .limit(PAGE),
    CallId,
)
"""Unresolved calls that have a late settlement to be read."""

PARKED: Sql[CallId] = Sql(
    select(calls.c.call_id)
    .select_from(calls.join(owners, owners.c.owner_id == calls.c.owner_id))
    .where(
        _OPEN_STATES,
        _DIRECT,
        calls.c.state == "awaiting_reconciliation",
        or_(owners.c.lapsed_at.is_not(None), owners.c.ended_at.is_not(None)),
    )
    .order_by(calls.c.created_at)
    .limit(PAGE),
    CallId,
)
"""Unresolved calls whose owner is gone: whoever adopts one follows it up once."""


class ApprovalId(NamedTuple):
    """The name of an approval."""

    approval_id: str


UNDECIDED_PAST_DUE: Sql[ApprovalId] = Sql(
    select(approvals.c.approval_id)
    .where(text("approvals.state = 'pending'"), approvals.c.expires_at < bindparam("now"))
    .order_by(approvals.c.expires_at)
    .limit(PAGE),
    ApprovalId,
)
"""Undecided proposals past their time."""


def list_calls(sql: Sql[CallId], **params: Any) -> Fact[list[str]]:  # noqa: ANN401 (columns)
    """The ids that one of this module's questions finds."""
    return [row.call_id for row in (yield from fetch(sql, **params))]


def list_undecided_past_due(now: int) -> Fact[list[str]]:
    """The undecided proposals past their time."""
    return [row.approval_id for row in (yield from fetch(UNDECIDED_PAST_DUE, now=now))]
