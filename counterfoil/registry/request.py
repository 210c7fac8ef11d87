"""One request for a governed call, as every route hands it to the one call path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from .adapter import ProgressSink
from .principal import Principal
from .vocabulary import JsonValue, Route

KEY_MAX: Final = 200
"""The most characters of an idempotency key."""
NOBODY_WAITS: Final = "the stream of its answer has closed"
"""The message with which the wait for a call is cancelled where only its stream is gone and nobody wants it stopped."""


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
