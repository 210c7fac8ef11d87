"""What is asked of the ledger outside of facts: calls, events, approvals. Read only, paged, never on a write's way."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, func, select, text

from .approval_rows import SELECT_DECLINE, ApprovalRow, DeclineRow
from .events import EventType
from .rows import JOINABLE, WAITING, AttemptRow, CallRow
from .sql import Count, Sql
from .tables import approvals, attempts, calls, events, places

EVENT_PAGE = 200
LIST_PAGE = 50

_CALL = [calls.c[name] for name in CallRow._fields]
_APPROVAL = [approvals.c[name] for name in ApprovalRow._fields]
_MINE = (calls.c.tenant == bindparam("tenant"), calls.c.subject == bindparam("subject"))


class EventRow(NamedTuple):
    """One event as a person or a client may see it; `body` is canonical JSON, redacted when it was written."""

    seq: int
    type: str
    at: int
    body: str


CALL: Sql[CallRow] = Sql(select(*_CALL).where(calls.c.call_id == bindparam("call_id")), CallRow)
ATTEMPTS: Sql[AttemptRow] = Sql(
    select(*[attempts.c[name] for name in AttemptRow._fields])
    .where(attempts.c.call_id == bindparam("call_id"))
    .order_by(attempts.c.generation),
    AttemptRow,
)
EVENTS: Sql[EventRow] = Sql(
    select(events.c.seq, events.c.type, events.c.at, events.c.body)
    .where(events.c.run_id == bindparam("run_id"), events.c.seq > bindparam("after_seq"))
    .order_by(events.c.seq)
    .limit(EVENT_PAGE + 1),
    EventRow,
)
DECLINED: Sql[DeclineRow] = SELECT_DECLINE
"""Whether this client declined to ask about this proposal, or this word."""
WORDS: Sql[Count] = Sql(
    select(func.count()).where(
        events.c.run_id == bindparam("run_id"),
        events.c.call_id == bindparam("call_id"),
        events.c.type == EventType.RESOLVED.value,
    ),
    Count,
)
"""How often anybody has said what became of a call."""
COVERED: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields])
    .select_from(places.join(calls, calls.c.call_id == places.c.call_id))
    .where(places.c.approval_id == bindparam("approval_id"))
    .order_by(places.c.n),
    CallRow,
)
"""The calls that a proposal covers, in the order of their places."""
APPROVAL: Sql[ApprovalRow] = Sql(
    select(*_APPROVAL).where(approvals.c.approval_id == bindparam("approval_id")), ApprovalRow
)
PENDING: Sql[ApprovalRow] = Sql(
    select(*_APPROVAL).where(text("approvals.state = 'pending'")).order_by(approvals.c.requested_at).limit(LIST_PAGE),
    ApprovalRow,
)
RECENT_APPROVALS: Sql[ApprovalRow] = Sql(
    select(*_APPROVAL).order_by(approvals.c.requested_at.desc()).limit(LIST_PAGE), ApprovalRow
)
PENDING_OF_TENANT: Sql[ApprovalRow] = Sql(
    select(*_APPROVAL)
    .where(approvals.c.tenant == bindparam("tenant"), text("approvals.state = 'pending'"))
    .order_by(approvals.c.requested_at)
    .limit(LIST_PAGE),
    ApprovalRow,
)
UNRESOLVED: Sql[CallRow] = Sql(
    select(*_CALL)
    .where(*_MINE, WAITING, text("(calls.state = 'awaiting_external' OR calls.state = 'awaiting_reconciliation')"))
    .order_by(calls.c.tool, calls.c.created_at)
    .limit(LIST_PAGE),
    CallRow,
)
UNRESOLVED_OF_TENANT: Sql[CallRow] = Sql(
    select(*_CALL)
    .where(
        calls.c.tenant == bindparam("tenant"),
        WAITING,
        text("(calls.state = 'awaiting_external' OR calls.state = 'awaiting_reconciliation')"),
    )
    .order_by(calls.c.created_at)
    .limit(LIST_PAGE),
    CallRow,
)
"""For whoever may say what became of other people's calls."""
RECENT: Sql[CallRow] = Sql(
    select(*_CALL).where(*_MINE, calls.c.route == "direct").order_by(calls.c.created_at.desc()).limit(LIST_PAGE),
    CallRow,
)
UNDELIVERED: Sql[Count] = Sql(
    select(calls.c.settled_at)
    .where(*_MINE, JOINABLE, calls.c.route == "direct", calls.c.settled_at > bindparam("since"))
    .order_by(calls.c.tool, calls.c.args_digest)  # the order of its index
    .limit(EVENT_PAGE),
    Count,
)
"""When each of the newest calls of a subject was settled whose answer nobody has seen."""
