"""From an outcome to a settlement: which code, what is known of the effect, whether the output keeps its promise.

Pure, apart from sealing, which it is handed. Content never makes it fail: an output that breaks its schema has
happened all the same, and is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ..canonical import canonical
from ..ledger.redact import redact_text
from ..ledger.sealing import Kind, Sealed
from ..ledger.settling import Settlement
from ..registry.contract import Contract
from ..registry.outcome import Outcome
from ..registry.vocabulary import ErrorCode, JsonObject, JsonValue, OutcomeClass, Sent
from .polling import acceptance

EVIDENCE: Final = ("request_id", "external_reference", "external_version")
_RETRYABLE: Final = frozenset({OutcomeClass.RETRYABLE_FAILURE})
_HAPPENED: Final = frozenset({OutcomeClass.SUCCESS, OutcomeClass.NO_RESULT, OutcomeClass.PARTIAL})
_NOT_SENT: Final = frozenset(
    {
        ErrorCode.UNAVAILABLE,
        ErrorCode.DENIED,
        ErrorCode.CANCELLED,
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.TOOL_FAILED,
    }
)
"""What an adapter may say of an attempt that did not leave; the other codes are refusals of the runtime's own."""


class Keeper(Protocol):
    """Seals and redacts for one call."""

    def seal(self, kind: Kind, content: bytes) -> Sealed:
        """Sealed content under a new payload id."""
        ...

    def clear(self, value: JsonValue) -> JsonValue:
        """A value that a tool told, without the secrets of the call's arguments."""
        ...

    def project(self, value: JsonValue) -> JsonValue:
        """The redacted form of a value."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """A settlement, and the output in clear for the one who waits."""

    settlement: Settlement
    output: JsonValue
    output_bytes: bytes | None


def settlement_of(
    contract: Contract, outcome: Outcome[Any], keeper: Keeper, at: int, limit: int, by: str = "execution"
) -> Result:
    """What T2 records of an outcome.

    Args:
        contract: whose attempt it was.
        outcome: what the adapter reported; its output is JSON.
        keeper: seals and redacts for the call.
        at: now, in microseconds.
        limit: the most bytes of an output that are kept.
        by: how it is known.
    """
    if outcome.kind is OutcomeClass.NO_RESULT:
        outcome = replace(outcome, output=None)
    code = _code(outcome)
    happened = outcome.kind in _HAPPENED
    raw, problem = _bytes(outcome.output)
    if not happened:
        problem = None
    told = raw is not None or by == "execution"  # whoever only knows that it happened need not know what came of it
    if problem is None and told and outcome.kind in {OutcomeClass.SUCCESS, OutcomeClass.PARTIAL}:
        problem = _output_problem(contract, outcome.output, raw, limit)
    if problem is not None:
        code = ErrorCode.OUTPUT_INVALID
    kept = raw if raw is None or len(raw) <= limit else raw[:limit]
    sealed = keeper.seal("raw" if problem else "output", kept) if kept is not None else None
    accepted = acceptance(contract, at, outcome.after_s) if outcome.still_works else None
    settlement = Settlement(
        outcome=outcome.kind.value if problem is None else OutcomeClass.SUCCESS.value,
        sent=_sent(outcome),
        at=at,
        by=by,
        code=code.value if code else None,
        message=redact_text(str(keeper.clear(str(problem or outcome.message)))) or None,
        retryable=outcome.kind in _RETRYABLE,
        details=_projected(keeper, _details(contract, outcome, keeper, code, sealed)),
        evidence=_projected(keeper, _evidence(contract, outcome, keeper)),
        output=sealed,
        accepted=accepted,
    )
    return Result(settlement, None if problem else outcome.output, None if problem else kept)


def _code(outcome: Outcome[Any]) -> ErrorCode | None:
    if outcome.kind in _HAPPENED or outcome.still_works:
        return None
    if outcome.kind is OutcomeClass.AMBIGUOUS:
        return ErrorCode.AMBIGUOUS
    if outcome.sent is not Sent.NO:
        return ErrorCode.TOOL_FAILED
    if outcome.code is not None:
        return outcome.code if outcome.code in _NOT_SENT else ErrorCode.TOOL_FAILED
    named = {
        OutcomeClass.DENIED: ErrorCode.DENIED,
        OutcomeClass.INVALID_REQUEST: ErrorCode.INVALID_ARGUMENTS,
    }
    return named.get(outcome.kind, ErrorCode.TOOL_FAILED)


def _sent(outcome: Outcome[Any]) -> str:
    if outcome.kind in _HAPPENED or outcome.still_works:
        return Sent.YES.value
    return Sent.UNKNOWN.value if outcome.kind is OutcomeClass.AMBIGUOUS else outcome.sent.value


def _details(
    contract: Contract, outcome: Outcome[Any], keeper: Keeper, code: ErrorCode | None, sealed: Sealed | None
) -> JsonObject:
    details: JsonObject = _object(keeper.clear(dict(outcome.details))) or {}
    if code is ErrorCode.TOOL_FAILED:
        details["effect"] = "unknown" if outcome.sent is Sent.UNKNOWN and not contract.is_read else "none"
    if code is ErrorCode.OUTPUT_INVALID and sealed is not None:
        details |= {
            "uri": f"counterfoil://artifacts/{sealed.payload_id}",
            "bytes": sealed.bytes,
            "sha256": sealed.sha256,
        }
    if outcome.after_s is not None and math.isfinite(outcome.after_s):
        details["retry_after_s"] = outcome.after_s
    return details


def _evidence(contract: Contract, outcome: Outcome[Any], keeper: Keeper) -> JsonObject:
    found: JsonObject = {
        name: at_pointer(outcome.output, pointer) for name, pointer in contract.recovery.evidence.items()
    }
    found |= {name: outcome.evidence[name] for name in EVIDENCE if name in outcome.evidence}
    found = {name: keeper.clear(value) for name, value in found.items()}
    found["source"] = contract.upstream or contract.name
    return {name: value for name, value in found.items() if value is not None}


def _projected(keeper: Keeper, said: JsonObject) -> JsonObject | None:
    return _object(keeper.project(said)) if said else None


def _object(value: JsonValue) -> JsonObject | None:
    return value if isinstance(value, dict) and value else None


def _output_problem(contract: Contract, output: JsonValue, raw: bytes | None, limit: int) -> str | None:
    if raw is not None and len(raw) > limit:
        return f"The output has {len(raw)} bytes; at most {limit} are kept. It took effect."
    if contract.gives is None:
        return None
    problems: Sequence[Any] = contract.gives.problems(output, limit=3)
    if not problems:
        return None
    said = "; ".join(f"{problem.path or '/'}: expected {problem.expected}, got {problem.got}" for problem in problems)
    return f"It took effect, but its output breaks its schema: {said}"


def _bytes(output: JsonValue) -> tuple[bytes | None, str | None]:
    if output is None:
        return None, None
    try:
        return canonical(output), None
    except ValueError as error:
        return None, f"It took effect, but its output is no JSON: {error}"


def at_pointer(value: JsonValue, pointer: str) -> JsonValue:
    """What a JSON Pointer (RFC 6901) names, or None."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value
