"""Every table of the ledger, once, in SQLAlchemy Core.

Columns are text, 64-bit integers and bytes only, so that the compiled statements run on the bare driver of SQLite
and PostgreSQL alike. Times are integers: microseconds since 1970 in UTC. Booleans are 0 and 1. JSON is text.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, LargeBinary, String, Table, and_, or_, text

from .run_tables import outbox as outbox
from .run_tables import plans as plans
from .run_tables import runs as runs
from .run_tables import steps as steps
from .run_tables import undos as undos
from .table_base import metadata as metadata
from .table_base import sequence

meta = Table(
    "meta",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
)

owners = Table(
    "owners",
    metadata,
    Column("owner_id", String, primary_key=True),
    Column("host", String, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),  # counts up; one that stands still for a lease is declared lapsed
    Column("beat_at", BigInteger, nullable=False),
    Column("lapsed_at", BigInteger),  # declared by a watcher, by compare-and-set on `beat`; never taken back
    Column("ended_at", BigInteger),  # an orderly end
)

calls = Table(
    "calls",
    metadata,
    Column("call_id", String, primary_key=True),
    Column("run_id", String, nullable=False),  # the chain; a direct call's is its own id
    Column("step", String),
    Column("item", BigInteger),  # of a step of a run; -1 where that has no items
    Column("parent_call_id", String),  # of a probe or a compensation: the call it is about
    Column("route", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("client", String, nullable=False),
    Column("scopes", String, nullable=False),  # JSON list: the grant, as at submission
    Column("grant_expires_at", BigInteger),
    Column("claimed", String, nullable=False),  # JSON object
    Column("tool", String, nullable=False),
    Column("version", String, nullable=False),
    Column("schema_digest", String, nullable=False),
    Column("effect", String, nullable=False),
    Column("args_digest", String, nullable=False),
    Column("args_payload", String, nullable=False),
    Column("args_shown", String, nullable=False),  # JSON, redacted and bounded
    Column("if_version", String),
    Column("resources", String, nullable=False),  # JSON list of canonical keys
    Column("action_id", String, nullable=False),
    Column("key", String),
    Column("key_retention", BigInteger, nullable=False),  # microseconds
    Column("state", String, nullable=False),
    Column("outcome", String),
    Column("sent", String, nullable=False),
    Column("code", String),
    Column("message", String),
    Column("details", String),  # JSON object, redacted
    Column("retryable", BigInteger, nullable=False, server_default=text("0")),
    Column("output_payload", String),
    Column("evidence", String),  # JSON object, redacted
    Column("attempts", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("owner_id", String),
    Column("not_before", BigInteger),
    Column("by_decision", BigInteger, nullable=False),  # made `queued` by a decision: any server carries it on
    Column("approval_id", String),
    Column("rule_id", String),
    Column("charges", String),  # JSON list of what it holds of budgets and limits: scope, kind, window, amount
    Column("created_at", BigInteger, nullable=False),
    Column("dispatched_at", BigInteger),
    Column("settled_at", BigInteger),
    Column("settled_by", String),  # execution | late | probe | person | recovery
    Column("delivered_at", BigInteger),
    Column("request_owner", String),  # in whose process a request of its subject waits for it right now
    Column("cancel_requested_at", BigInteger),
    Column("cancel_requested_by", String),
    Column("cancel_reason", String),
    Column("proof", String),  # how its subject's identity was proven: token; null where it was not
    Column("external_until", BigInteger),  # accepted by the far side, which still works: until then it is waited for
    Column("revision", BigInteger, nullable=False),  # compare-and-set
    Column("seq", BigInteger, nullable=False),  # of the chain's last event
    Column("head", LargeBinary, nullable=False),  # its hash
)
Index("calls_run", calls.c.run_id)
_OF_A_RUN = calls.c.step.is_not(None)
Index(
    "calls_step",
    calls.c.run_id, calls.c.step, calls.c.item, calls.c.route,
    unique=True, sqlite_where=_OF_A_RUN, postgresql_where=_OF_A_RUN,
)  # fmt: skip
_UNSETTLED = calls.c.state != "settled"
Index("calls_owner", calls.c.owner_id, calls.c.state, sqlite_where=_UNSETTLED, postgresql_where=_UNSETTLED)
Index("calls_open", calls.c.state, sqlite_where=_UNSETTLED, postgresql_where=_UNSETTLED)
_JOINABLE = and_(calls.c.delivered_at.is_(None), calls.c.request_owner.is_(None), calls.c.effect != "read")
Index(
    "calls_joinable",
    calls.c.tenant, calls.c.subject, calls.c.tool, calls.c.args_digest,
    calls.c.created_at,  # the order that is asked for; without it the planner takes `calls_recent`
    sqlite_where=_JOINABLE, postgresql_where=_JOINABLE,
)  # fmt: skip
_WAITING = or_(
    calls.c.state == "awaiting_approval",
    calls.c.state == "queued",
    calls.c.state == "awaiting_external",
    calls.c.state == "awaiting_reconciliation",
)
Index(
    "calls_waiting",
    calls.c.tenant, calls.c.subject, calls.c.tool, calls.c.created_at,
    sqlite_where=_WAITING, postgresql_where=_WAITING,
)  # fmt: skip
_REQUESTED = calls.c.request_owner.is_not(None)
Index("calls_requested", calls.c.request_owner, sqlite_where=_REQUESTED, postgresql_where=_REQUESTED)
Index("calls_recent", calls.c.tenant, calls.c.subject, calls.c.created_at)
_HAS_PARENT = calls.c.parent_call_id.is_not(None)
Index("calls_parent", calls.c.parent_call_id, sqlite_where=_HAS_PARENT, postgresql_where=_HAS_PARENT)

attempts = Table(
    "attempts",
    metadata,
    Column("call_id", String, primary_key=True),
    Column("generation", BigInteger, primary_key=True),
    Column("owner_id", String, nullable=False),
    Column("dispatched_at", BigInteger, nullable=False),
    Column("hard_deadline_at", BigInteger),  # null: nothing stops its handler for certain
    Column("settled_at", BigInteger),
    Column("outcome", String),
    Column("sent", String),
    Column("handler_ended_at", BigInteger),
    Column("late", String),  # JSON of a settlement that came after it was superseded: evidence, never state by itself
    Column("late_payload", String),
)

payloads = Table(
    "payloads",
    metadata,
    Column("payload_id", String, primary_key=True),
    Column("call_id", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("kind", String, nullable=False),  # arguments | output | raw | late | plan | input
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", String, nullable=False),  # of the plain bytes; shown to their owner only
    Column("commitment", String, nullable=False),  # hex HMAC-SHA256(salt, plain bytes): what events hold
    Column("salt", LargeBinary, nullable=False),
    Column("key_id", String, nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),  # the first chunk
    Column("created_at", BigInteger, nullable=False),
)
Index("payloads_call", payloads.c.call_id)

payload_chunks = Table(
    "payload_chunks",
    metadata,
    Column("payload_id", String, primary_key=True),
    Column("n", BigInteger, primary_key=True),  # from 1
    Column("sealed", LargeBinary, nullable=False),
    Column("stored_at", BigInteger, nullable=False),  # tells an orphan from a chunk whose payload is on its way
)

approvals = Table(
    "approvals",
    metadata,
    Column("approval_id", String, primary_key=True),
    Column("call_id", String, nullable=False),  # of several, the first
    Column("run_id", String, nullable=False),
    Column("step", String),
    Column("tenant", String, nullable=False),
    Column("requester", String, nullable=False),
    Column("client", String, nullable=False),
    Column("tool", String, nullable=False),
    Column("version", String, nullable=False),
    Column("schema_digest", String, nullable=False),
    Column("effect", String, nullable=False),
    Column("digest", String, nullable=False),  # hex HMAC over the exact proposal
    Column("assurance", String, nullable=False),
    Column("rule_id", String),
    Column("reason", String, nullable=False),
    Column("approvers", String, nullable=False),  # JSON list
    Column("over_mcp", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("requested_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("execute_within", BigInteger, nullable=False),  # microseconds
    Column("execute_until", BigInteger),
    Column("decided_at", BigInteger),
    Column("decided_by", String),
    Column("strength", String),
    Column("via", String),
    Column("note", String),
    Column("superseded_by", String),
    Column("proof", String),  # how its requester's identity was proven
    Column("stalled_at", BigInteger),  # decided, and then held up: the window stands still
    Column("preview", String),  # JSON, redacted: what a read showed when it was proposed, as information
)
Index("approvals_call", approvals.c.call_id)
Index(
    "approvals_pending",
    approvals.c.tenant, approvals.c.requester,
    sqlite_where=approvals.c.state == "pending", postgresql_where=approvals.c.state == "pending",
)  # fmt: skip

places = Table(
    "places",
    metadata,
    Column("approval_id", String, primary_key=True),
    Column("n", BigInteger, primary_key=True),  # from 0, in the order in which they are shown
    Column("call_id", String, nullable=False),
    Column("digest", String, nullable=False),  # hex HMAC over this call's part of the proposal
    Column("consumed_at", BigInteger),  # its first T1
)
Index("places_call", places.c.call_id)

declines = Table(
    "declines",
    metadata,
    Column("approval_id", String, primary_key=True),  # or the key of the word that a person was asked for
    Column("client", String, primary_key=True),  # whose form was declined: tenant, subject and client as JSON
    Column("at", BigInteger, nullable=False),
)

holds = Table(
    "holds",
    metadata,
    Column("kind", String, primary_key=True),  # all | tool | tenant | subject | run
    Column("name", String, primary_key=True),  # empty for all
    Column("by", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("at", BigInteger, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("subject", String, primary_key=True),
    Column("tool", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("call_id", String, nullable=False),
    Column("args_digest", String, nullable=False),
    Column("bound_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),  # set when the call is settled; past it the row is a tombstone
)
Index("keys_call", keys.c.call_id)

leases = Table(
    "leases",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("resource", String, primary_key=True),  # without `shared:`
    Column("call_id", String, primary_key=True),
    Column("shared", BigInteger, nullable=False),
    Column("taken_at", BigInteger, nullable=False),
)
Index("leases_call", leases.c.call_id)

budgets = Table(
    "budgets",
    metadata,
    Column("scope", String, primary_key=True),  # such as tenant:a or rule:small-refunds/tenant:a
    Column("kind", String, primary_key=True),  # calls | writes | destructive | cost | output_bytes | elapsed_s | sum
    Column("window_start", BigInteger, primary_key=True),
    Column("used", BigInteger, nullable=False),  # cost and sum in millionths, elapsed_s in microseconds
    Column("ends_at", BigInteger),  # of its window; null for a run, which has none, and of a window before schema 5
)
_WINDOWED = budgets.c.ends_at.is_not(None)
Index("budgets_ended", budgets.c.ends_at, sqlite_where=_WINDOWED, postgresql_where=_WINDOWED)

events = Table(
    "events",
    metadata,
    sequence(),
    Column("run_id", String, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("call_id", String),
    Column("tenant", String, nullable=False),
    Column("type", String, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("body", String, nullable=False),  # canonical JSON, with run_id, seq, type and at: the hash covers them
    Column("prev", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),  # SHA-256(0x00 || prev || body)
)
Index("events_chain", events.c.run_id, events.c.seq, unique=True)
