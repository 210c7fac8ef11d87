"""The tables of plans and runs: what is to be done, who drives it, and what no call says of it. See `tables`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, LargeBinary, String, Table, text

from .table_base import metadata, sequence

plans = Table(
    "plans",
    metadata,
    Column("plan_id", String, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("client", String, nullable=False),
    Column("goal", String, nullable=False),  # redacted
    Column("digest", String, nullable=False),
    Column("payload", String, nullable=False),  # the whole plan with its pins, sealed
    Column("steps", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("plan_id", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("client", String, nullable=False),
    Column("scopes", String, nullable=False),  # JSON list: the grant, as at its submission or renewal
    Column("claimed", String, nullable=False),  # JSON object
    Column("goal", String, nullable=False),  # redacted
    Column("plan_digest", String, nullable=False),
    Column("input_digest", String, nullable=False),
    Column("input_payload", String, nullable=False),
    Column("request_key", String, nullable=False),
    Column("grant_expires_at", BigInteger, nullable=False),
    Column("status", String, nullable=False),
    Column("reason", String),
    Column("code", String),
    Column("message", String),
    Column("due_at", BigInteger),  # parked: when it goes on by itself
    Column("waits_for", String),  # parked: an unresolved call elsewhere whose settlement wakes it
    Column("owner_id", String),  # who drives it; null: nobody
    Column("wakes", BigInteger, nullable=False),
    Column("deadline_at", BigInteger),
    Column("paused_at", BigInteger),  # its time stands still since then
    Column(
        "stood_still", BigInteger, nullable=False, server_default=text("0")
    ),  # for so long before that, in microseconds
    Column("stopped_at", BigInteger),  # no further non-read step until it is taken up
    Column("cancel_requested_at", BigInteger),
    Column("cancel_requested_by", String),
    Column("cancel_reason", String),
    Column("compensation", String, nullable=False),
    Column("verdict", String),  # JSON: how it ends once its effects are undone; set when that begins
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("parent_run_id", String),
    Column("from_step", String),
    Column("trace_id", String),
    Column("proof", String),  # as of a call
    Column("version", BigInteger, nullable=False),  # compare-and-set; counts the events of its calls too
    Column("seq", BigInteger, nullable=False),
    Column("head", LargeBinary, nullable=False),
)
Index("runs_key", runs.c.tenant, runs.c.subject, runs.c.request_key, unique=True)
Index("runs_recent", runs.c.tenant, runs.c.subject, runs.c.created_at)
Index("runs_same", runs.c.tenant, runs.c.subject, runs.c.plan_digest, runs.c.input_digest)
Index("runs_newest", runs.c.created_at)
_DRIVEN = runs.c.owner_id.is_not(None)
Index("runs_owner", runs.c.owner_id, sqlite_where=_DRIVEN, postgresql_where=_DRIVEN)
_DUE = runs.c.due_at.is_not(None)
Index("runs_due", runs.c.due_at, sqlite_where=_DUE, postgresql_where=_DUE)
_HELD_UP = runs.c.waits_for.is_not(None)
Index("runs_waiting", runs.c.waits_for, sqlite_where=_HELD_UP, postgresql_where=_HELD_UP)

steps = Table(
    "steps",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("step", String, primary_key=True),
    Column("item", BigInteger, primary_key=True),  # -1: the step itself
    Column("state", String, nullable=False),
    Column("outcome", String),
    Column("code", String),
    Column("message", String),
    Column("details", String),  # JSON object, redacted
    Column("reason", String),  # for not_run and skipped: the step that caused it, or why
    Column("items", BigInteger),  # of a `for_each`: how many there are
    Column("reused", String),  # of a fork: the call of an earlier run whose outcome stands for this place
    Column("at", BigInteger, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    sequence(),
    Column("topic", String, nullable=False),  # wake
    Column("run_id", String, nullable=False),
    Column("at", BigInteger, nullable=False),
)
Index("outbox_run", outbox.c.run_id)
_REUSED = steps.c.reused.is_not(None)
Index("steps_reused", steps.c.reused, sqlite_where=_REUSED, postgresql_where=_REUSED)

undos = Table(
    "undos",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("step", String, primary_key=True),
    Column("item", BigInteger, primary_key=True),
    Column("call_id", String, nullable=False),  # whose effect it is
    Column("state", String, nullable=False),  # kept | not_undone
    Column("tool", String),  # what was to undo it
    Column("code", String),
    Column("message", String, nullable=False),
    Column("details", String),  # JSON object, redacted
    Column("at", BigInteger, nullable=False),
)
