"""The statements of the schema's numbered steps, as they were released: they are never edited, only added to."""

from __future__ import annotations

from typing import Final, TypeAlias

Step: TypeAlias = tuple[str, ...]

_CHARGES: Final[Step] = ("ALTER TABLE calls ADD COLUMN charges VARCHAR",)
_RUNS: Final[Step] = (
    (
        "CREATE TABLE plans ( plan_id VARCHAR NOT NULL, tenant VARCHAR NOT NULL, subject VARCHAR NOT NULL, "
        "client VARCHAR NOT NULL, goal VARCHAR NOT NULL, digest VARCHAR NOT NULL, payload VARCHAR NOT NULL, "
        "steps BIGINT NOT NULL, created_at BIGINT NOT NULL, PRIMARY KEY (plan_id) )"
    ),
    (
        "CREATE TABLE runs ( run_id VARCHAR NOT NULL, plan_id VARCHAR NOT NULL, tenant VARCHAR NOT NULL, "
        "subject VARCHAR NOT NULL, client VARCHAR NOT NULL, scopes VARCHAR NOT NULL, claimed VARCHAR NOT "
        "NULL, goal VARCHAR NOT NULL, plan_digest VARCHAR NOT NULL, input_digest VARCHAR NOT NULL, "
        "input_payload VARCHAR NOT NULL, request_key VARCHAR NOT NULL, grant_expires_at BIGINT NOT NULL, "
        "status VARCHAR NOT NULL, reason VARCHAR, code VARCHAR, message VARCHAR, due_at BIGINT, waits_for "
        "VARCHAR, owner_id VARCHAR, wakes BIGINT NOT NULL, deadline_at BIGINT, paused_at BIGINT, stopped_at "
        "BIGINT, cancel_requested_at BIGINT, cancel_requested_by VARCHAR, cancel_reason VARCHAR, compensation "
        "VARCHAR NOT NULL, created_at BIGINT NOT NULL, started_at BIGINT, updated_at BIGINT NOT NULL, "
        "finished_at BIGINT, parent_run_id VARCHAR, from_step VARCHAR, trace_id VARCHAR, version BIGINT NOT "
        "NULL, seq BIGINT NOT NULL, head BLOB NOT NULL, PRIMARY KEY (run_id) )"
    ),
    "CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL",
    "CREATE UNIQUE INDEX runs_key ON runs (tenant, subject, request_key)",
    "CREATE INDEX runs_newest ON runs (created_at)",
    "CREATE INDEX runs_owner ON runs (owner_id) WHERE owner_id IS NOT NULL",
    "CREATE INDEX runs_recent ON runs (tenant, subject, created_at)",
    "CREATE INDEX runs_same ON runs (tenant, subject, plan_digest, input_digest)",
    "CREATE INDEX runs_waiting ON runs (waits_for) WHERE waits_for IS NOT NULL",
    (
        "CREATE TABLE steps ( run_id VARCHAR NOT NULL, step VARCHAR NOT NULL, item BIGINT NOT NULL, state "
        "VARCHAR NOT NULL, outcome VARCHAR, code VARCHAR, message VARCHAR, details VARCHAR, reason VARCHAR, "
        "items BIGINT, at BIGINT NOT NULL, PRIMARY KEY (run_id, step, item) )"
    ),
    "DROP TABLE outbox",
    (
        "CREATE TABLE outbox ( id INTEGER NOT NULL, topic VARCHAR NOT NULL, run_id VARCHAR NOT NULL, at "
        "BIGINT NOT NULL, PRIMARY KEY (id) )"
    ),
    "CREATE INDEX outbox_run ON outbox (run_id)",
    "CREATE UNIQUE INDEX calls_step ON calls (run_id, step, item, route) WHERE step IS NOT NULL",
)  # the old outbox had no reader

_DECISIONS: Final[Step] = (
    "ALTER TABLE calls ADD COLUMN proof VARCHAR",
    "ALTER TABLE runs ADD COLUMN proof VARCHAR",
    "ALTER TABLE approvals ADD COLUMN proof VARCHAR",
    "ALTER TABLE approvals ADD COLUMN stalled_at BIGINT",
    (
        "CREATE TABLE places ( approval_id VARCHAR NOT NULL, n BIGINT NOT NULL, call_id VARCHAR NOT NULL, "
        "digest VARCHAR NOT NULL, consumed_at BIGINT, PRIMARY KEY (approval_id, n) )"
    ),
    "CREATE INDEX places_call ON places (call_id)",
    (
        "INSERT INTO places (approval_id, n, call_id, digest, consumed_at) SELECT approval_id, 0, call_id, digest, "
        "CASE WHEN state = 'consumed' THEN decided_at END FROM approvals"
    ),
    (
        "CREATE TABLE declines ( approval_id VARCHAR NOT NULL, client VARCHAR NOT NULL, at BIGINT NOT NULL, "
        "PRIMARY KEY (approval_id, client) )"
    ),
    (
        'CREATE TABLE holds ( kind VARCHAR NOT NULL, name VARCHAR NOT NULL, "by" VARCHAR NOT NULL, '
        "reason VARCHAR NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (kind, name) )"
    ),
)

_COMPENSATIONS: Final[Step] = (
    "ALTER TABLE runs ADD COLUMN verdict VARCHAR",
    "ALTER TABLE steps ADD COLUMN reused VARCHAR",
    "CREATE INDEX steps_reused ON steps (reused) WHERE reused IS NOT NULL",
    "ALTER TABLE approvals ADD COLUMN preview VARCHAR",
    "ALTER TABLE calls ADD COLUMN external_until BIGINT",
    "ALTER TABLE runs ADD COLUMN stood_still BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE budgets ADD COLUMN ends_at BIGINT",
    "CREATE INDEX budgets_ended ON budgets (ends_at) WHERE ends_at IS NOT NULL",
    (
        "CREATE TABLE undos ( run_id VARCHAR NOT NULL, step VARCHAR NOT NULL, item BIGINT NOT NULL, call_id VARCHAR "
        "NOT NULL, state VARCHAR NOT NULL, tool VARCHAR, code VARCHAR, message VARCHAR NOT NULL, details VARCHAR, "
        "at BIGINT NOT NULL, PRIMARY KEY (run_id, step, item) )"
    ),
)

STEPS: Final[tuple[Step, ...]] = (_CHARGES, _RUNS, _DECISIONS, _COMPENSATIONS)
