"""Requests as every route hands them on: one for a governed call to the one call path, one for a run to the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from .adapter import ProgressSink
from .principal import Principal
from .vocabulary import JsonValue, Route

KEY_MAX: Final = 200
"""The most characters of an idempotency key."""
NOBODY_WAITS: Final = "the stream of its answer has closed"
"""The message with which the wait for a call or run is cancelled where only its stream is gone, and nobody wants it
stopped."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """What was asked, before anything was checked.

    `arguments` is strict JSON (see `strict_json`). `schema_digest` is the eight characters that the caller showed;
    `needs_digest` is false where the caller sees the full schema anyway (listed tools, command line, embedding).
    `wait_s` is how long the caller waits for the outcome, in seconds; None waits until there is one.
    """

    principal: Principal
    tool: str
    arguments: JsonValue
    version: str | None = None
    schema_digest: str | None = None
    needs_digest: bool = False
    idempotency_key: str | None = None
    if_version: str | None = None
    read_only: bool = False
    dry_run: bool = False
    wait_s: float | None = None
    wait_given: bool = False
    route: Route = Route.DIRECT
    parent_call_id: str | None = None
    progress: ProgressSink | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What was asked of runs, before anything was checked.

    Exactly one of `plan_id`, `plan`, `name` and `run_id` is given, or `fork_of` alone; `run_id` takes up a parked run.
    `wait_s` is how long the caller waits for its end, in seconds; None waits until there is one.
    """

    principal: Principal
    plan_id: str | None = None
    plan: JsonValue = None
    name: str | None = None
    run_id: str | None = None
    input: JsonValue = None
    request_key: str | None = None
    wait_s: float | None = None
    wait_given: bool = False
    fork_of: str | None = None
    from_step: str | None = None
    progress: ProgressSink | None = field(default=None, compare=False)
