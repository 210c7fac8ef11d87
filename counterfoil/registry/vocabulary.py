"""The closed word lists of the product, one word per idea.

Everything here is a name that users see on the wire, in the configuration or in the ledger.
No behaviour lives here, apart from the one table that says what each error code means.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..canonical import JsonObject as JsonObject  # the words of every room
from ..canonical import JsonValue as JsonValue


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


class Idempotency(StrEnum):
    """What makes it safe to send a call again."""

    NATURAL = "natural"
    KEYED = "keyed"
    NONE = "none"


class RecoveryClass(StrEnum):
    """How an attempt without a settlement is followed up."""

    PROBE = "probe"
    KEYED = "keyed"
    NATURAL = "natural"
    PERSON = "person"


class Assurance(StrEnum):
    """Who must have decided before a call is sent; in a contract, `approval`."""

    NONE = "none"
    CLIENT = "client"
    OPERATOR = "operator"
    SECOND_PERSON = "second_person"

    @property
    def strength(self) -> int:
        """Higher satisfies lower."""
        return list(Assurance).index(self)


class Verdict(StrEnum):
    """What policy says; the strictest of all that match wins."""

    ALLOW = "allow"
    APPROVE = "approve"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """Higher wins."""
        return list(Verdict).index(self)


class Visibility(StrEnum):
    """Where a tool shows itself."""

    BASE = "base"
    DEFERRED = "deferred"
    HIDDEN = "hidden"


HOLD_KINDS: Final = ("all", "tool", "tenant", "subject", "run")
"""What can be held; all but the first have a name."""


class Route(StrEnum):
    """How a request reached the one call path."""

    DIRECT = "direct"
    PROBE = "probe"
    PREVIEW = "preview"
    COMPENSATION = "compensation"
    STEP = "step"
    PROGRAM = "program"


class OutcomeClass(StrEnum):
    """The eight classes of an outcome."""

    SUCCESS = "success"
    NO_RESULT = "no_result"
    INVALID_REQUEST = "invalid_request"
    DENIED = "denied"
    RETRYABLE_FAILURE = "retryable_failure"
    PERMANENT_FAILURE = "permanent_failure"
    AMBIGUOUS = "ambiguous"
    PARTIAL = "partial"


class Sent(StrEnum):
    """Whether anything of the call reached the other side."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class ErrorCode(StrEnum):
    """Every code that `error.code` can hold."""

    UNKNOWN_TOOL = "unknown_tool"
    NOT_VISIBLE = "not_visible"
    STALE_SCHEMA = "stale_schema"
    NOT_READ_ONLY = "not_read_only"
    BLOCKED_DEFINITION = "blocked_definition"
    INSUFFICIENT_SCOPE = "insufficient_scope"
    DENIED = "denied"
    INVALID_ARGUMENTS = "invalid_arguments"
    APPROVAL_REJECTED = "approval_rejected"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_INVALID = "approval_invalid"
    IN_PROGRESS = "in_progress"
    KEY_CONFLICT = "key_conflict"
    AMBIGUOUS = "ambiguous"
    TOOL_FAILED = "tool_failed"
    OUTPUT_INVALID = "output_invalid"
    RESOURCE_BUSY = "resource_busy"
    BUDGET_EXHAUSTED = "budget_exhausted"
    RATE_LIMITED = "rate_limited"
    REPEATED_FAILURE = "repeated_failure"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    CANCELLED = "cancelled"
    HELD = "held"
    UNAVAILABLE = "unavailable"
    CANNOT_RECORD = "cannot_record"
    VERSION_CONFLICT = "version_conflict"
    PLAN_INVALID = "plan_invalid"
    PLAN_STALE = "plan_stale"
    AUTHORITY_EXPIRED = "authority_expired"
    NOT_FOUND = "not_found"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a refusal code says about its call: its outcome, and whether asking again can help."""

    outcome: OutcomeClass
    retryable: bool = False


_INVALID = Meaning(OutcomeClass.INVALID_REQUEST)
_DENIED = Meaning(OutcomeClass.DENIED)
_LATER = Meaning(OutcomeClass.RETRYABLE_FAILURE, retryable=True)
_FAILED = Meaning(OutcomeClass.PERMANENT_FAILURE)

REFUSALS: dict[ErrorCode, Meaning] = {
    ErrorCode.INVALID_ARGUMENTS: _INVALID,
    ErrorCode.NOT_VISIBLE: _INVALID,
    ErrorCode.STALE_SCHEMA: _INVALID,
    ErrorCode.NOT_READ_ONLY: _INVALID,
    ErrorCode.KEY_CONFLICT: _INVALID,
    ErrorCode.VERSION_CONFLICT: _INVALID,
    ErrorCode.PLAN_INVALID: _INVALID,
    ErrorCode.PLAN_STALE: _INVALID,
    ErrorCode.NOT_FOUND: _INVALID,
    ErrorCode.UNKNOWN_TOOL: _DENIED,
    ErrorCode.INSUFFICIENT_SCOPE: _DENIED,
    ErrorCode.DENIED: _DENIED,
    ErrorCode.BLOCKED_DEFINITION: _DENIED,
    ErrorCode.HELD: _DENIED,
    ErrorCode.APPROVAL_REJECTED: _DENIED,
    ErrorCode.APPROVAL_EXPIRED: _DENIED,
    ErrorCode.APPROVAL_INVALID: _DENIED,
    ErrorCode.BUDGET_EXHAUSTED: _DENIED,
    ErrorCode.REPEATED_FAILURE: _DENIED,
    ErrorCode.AUTHORITY_EXPIRED: _DENIED,
    ErrorCode.AMBIGUOUS: _DENIED,
    ErrorCode.RATE_LIMITED: _LATER,
    ErrorCode.RESOURCE_BUSY: _LATER,
    ErrorCode.CANNOT_RECORD: _LATER,
    ErrorCode.UNAVAILABLE: _LATER,
    ErrorCode.CANCELLED: _FAILED,
    ErrorCode.DEADLINE_EXCEEDED: _FAILED,
    ErrorCode.INTERNAL: _FAILED,
}
"""Codes of calls that were never sent (design section 7). Codes of sent calls are the runtime's to give."""
