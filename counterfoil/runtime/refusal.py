"""A rule said no. The one exception of the call path: raised where the rule is, answered where the request came in."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..registry.problem import Problem, as_json
from ..registry.vocabulary import REFUSALS, ErrorCode, JsonObject, Meaning, OutcomeClass
from .views import Next

_IN_PROGRESS = Meaning(OutcomeClass.RETRYABLE_FAILURE, retryable=True)
"""What a request that comes too early means; `in_progress` refuses no call."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call is not sent: the code, what was expected and what to do, and the next possible action."""

    code: ErrorCode
    message: str
    details: JsonObject = field(default_factory=dict[str, "None"])  # type: ignore[arg-type]  # JsonObject's values are a union
    next: Next | None = None
    rule_id: str | None = None

    @property
    def meaning(self) -> Meaning:
        """The outcome that the code stands for, and whether asking again can help."""
        return REFUSALS.get(self.code, _IN_PROGRESS)


class RefusedError(Exception):
    """Nothing was sent, for this reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.message)
        self.reason = reason


def refuse(
    code: ErrorCode, message: str, next_: Next | None = None, rule_id: str | None = None, **details: object
) -> RefusedError:
    """A refusal to raise; details are JSON values, absent ones are left out."""
    kept: JsonObject = {name: value for name, value in details.items() if value is not None}  # type: ignore[misc]  # JSON by contract
    return RefusedError(Reason(code, message, kept, next_, rule_id))


def refuse_arguments(path: str, expected: str, got: str) -> RefusedError:
    """A refusal because of one member of what was asked with."""
    problem = Problem.of(path, expected, got)
    return refuse(ErrorCode.INVALID_ARGUMENTS, problem.message, problems=as_json([problem]))


def is_for_later(reason: Reason) -> bool:
    """True if the same call may be sent later without a change to it: capacity, rates, windows, outages, holds."""
    if reason.code is ErrorCode.HELD:
        return True
    if reason.code is ErrorCode.BUDGET_EXHAUSTED:
        return "resets_at" in reason.details
    return reason.meaning.retryable
