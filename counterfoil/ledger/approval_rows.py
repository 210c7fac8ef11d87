"""Proposals as values: a proposal, its places (one for each call that it covers), and who declined to be asked.

What each change means is said in `approving`; the statements here read and write by key.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select, update

from .sql import Sql
from .tables import approvals, declines, places


class ApprovalRow(NamedTuple):
    """One row of `approvals`."""

    approval_id: str
    call_id: str
    run_id: str
    step: str | None
    tenant: str
    requester: str
    client: str
    tool: str
    version: str
    schema_digest: str
    effect: str
    digest: str
    assurance: str
    rule_id: str | None
    reason: str
    approvers: str
    over_mcp: int
    state: str
    requested_at: int
    expires_at: int
    execute_within: int
    execute_until: int | None = None
    decided_at: int | None = None
    decided_by: str | None = None
    strength: str | None = None
    via: str | None = None
    note: str | None = None
    superseded_by: str | None = None
    proof: str | None = None
    stalled_at: int | None = None
    preview: str | None = None


CHANGED: Final = (
    "state", "execute_until", "decided_at", "decided_by", "strength", "via", "note", "superseded_by", "stalled_at",
)  # fmt: skip
"""The columns that a proposal's moves write."""

SELECT_APPROVAL: Sql[ApprovalRow] = Sql(
    select(*[approvals.c[name] for name in ApprovalRow._fields])
    .where(approvals.c.approval_id == bindparam("approval_id", type_=approvals.c.approval_id.type))
    .with_for_update(),
    ApprovalRow,
)
UPDATE_APPROVAL: Sql[Any] = Sql(
    update(approvals)
    .where(approvals.c.approval_id == bindparam("of"), approvals.c.state == bindparam("was"))
    .values({name: bindparam(name) for name in CHANGED})
)


class DeclineRow(NamedTuple):
    """One row of `declines`: `client` is tenant, subject and client as JSON."""

    approval_id: str
    client: str
    at: int


SELECT_DECLINE: Sql[DeclineRow] = Sql(
    select(*[declines.c[name] for name in DeclineRow._fields]).where(
        declines.c.approval_id == bindparam("approval_id"), declines.c.client == bindparam("client")
    ),
    DeclineRow,
)


class PlaceRow(NamedTuple):
    """One row of `places`: one call of a proposal, by its digest, and when it took what was decided."""

    approval_id: str
    n: int
    call_id: str
    digest: str
    consumed_at: int | None = None


SELECT_PLACES: Sql[PlaceRow] = Sql(
    select(*[places.c[name] for name in PlaceRow._fields])
    .where(places.c.approval_id == bindparam("approval_id", type_=places.c.approval_id.type))
    .order_by(places.c.n),
    PlaceRow,
)
SELECT_PLACE: Sql[PlaceRow] = Sql(
    select(*[places.c[name] for name in PlaceRow._fields]).where(
        places.c.approval_id == bindparam("approval_id"), places.c.call_id == bindparam("call_id")
    ),
    PlaceRow,
)
CONSUME_PLACE: Sql[Any] = Sql(
    update(places)
    .where(places.c.approval_id == bindparam("of"), places.c.call_id == bindparam("by"), places.c.consumed_at.is_(None))
    .values(consumed_at=bindparam("at"))
)
