"""What a tool's code reports: an `Outcome` of a call, or a `Probe`'s answer about an earlier one.

A handler may return a plain value; these say more. Adapters always return an `Outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from .vocabulary import ErrorCode, OutcomeClass, Sent

T = TypeVar("T")
V = TypeVar("V")

SentWord = Literal["no", "yes", "unknown"]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The outcome of one attempt, as the one who made it knows it.

    `after_s` is the other side's wish (Retry-After), in seconds. `evidence` may hold `request_id`,
    `external_reference` and `external_version`. `code` and `details` are set where an adapter knows better
    than the class alone says. `still_works` says of an `ambiguous` one that the other side has accepted it.
    """

    kind: OutcomeClass
    output: T | None = None
    message: str = ""
    sent: Sent = Sent.YES
    after_s: float | None = None
    evidence: dict[str, Any] = field(default_factory=dict[str, Any])
    code: ErrorCode | None = None
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    still_works: bool = False

    @classmethod
    def success(cls, output: V | None = None, evidence: dict[str, Any] | None = None) -> Outcome[V]:
        """It happened, and this is what came of it."""
        return Outcome(OutcomeClass.SUCCESS, output, evidence=evidence or {})

    @classmethod
    def no_result(cls, evidence: dict[str, Any] | None = None) -> Outcome[Any]:
        """It was done and there is nothing to show."""
        return Outcome(OutcomeClass.NO_RESULT, evidence=evidence or {})

    @classmethod
    def partial(cls, output: V | None, message: str, evidence: dict[str, Any] | None = None) -> Outcome[V]:
        """Some of it happened; its effect counts as completed."""
        return Outcome(OutcomeClass.PARTIAL, output, message, evidence=evidence or {})

    @classmethod
    def retryable(cls, message: str, sent: SentWord, after_s: float | None = None) -> Outcome[Any]:
        """It failed and may be tried again. `sent="no"` states that nothing left, `"yes"` that it was refused there."""
        return Outcome(OutcomeClass.RETRYABLE_FAILURE, message=message, sent=Sent(sent), after_s=after_s)

    @classmethod
    def permanent(cls, message: str, sent: SentWord = "yes") -> Outcome[Any]:
        """It failed without effect, and would fail again; `sent="unknown"` if the effect is not known."""
        return Outcome(OutcomeClass.PERMANENT_FAILURE, message=message, sent=Sent(sent))

    @classmethod
    def ambiguous(cls, message: str) -> Outcome[Any]:
        """Nobody here knows whether it happened."""
        return Outcome(OutcomeClass.AMBIGUOUS, message=message, sent=Sent.UNKNOWN)

    @classmethod
    def accepted(
        cls,
        message: str = "",
        evidence: dict[str, Any] | None = None,
        external_reference: str | None = None,
        after_s: float | None = None,
    ) -> Outcome[Any]:
        """The other side has it and still works; the tool's probe, which it must have, will tell how it ends.

        `after_s` is how long it would rather not be asked, in seconds.
        """
        known = (evidence or {}) | ({} if external_reference is None else {"external_reference": external_reference})
        return Outcome(
            OutcomeClass.AMBIGUOUS, message=message, sent=Sent.YES, after_s=after_s, evidence=known, still_works=True
        )

    @classmethod
    def unavailable(cls, message: str) -> Outcome[Any]:
        """No byte was sent: the other side could not be reached at all."""
        return Outcome(OutcomeClass.RETRYABLE_FAILURE, message=message, sent=Sent.NO, code=ErrorCode.UNAVAILABLE)


class ProbeAnswer(StrEnum):
    """What a probe found out about an earlier attempt."""

    HAPPENED = "happened"
    ABSENT = "absent"
    PENDING = "pending"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe's answer; `output` and `evidence` only with `happened`, and `after_s` (seconds) only with `pending`."""

    answer: ProbeAnswer
    output: Any = None
    evidence: dict[str, Any] = field(default_factory=dict[str, Any])
    after_s: float | None = None

    @classmethod
    def happened(cls, output: Any = None, evidence: dict[str, Any] | None = None) -> Probe:  # noqa: ANN401 (a tool's own value)
        """It took effect; `output` is what the call would have returned."""
        return cls(ProbeAnswer.HAPPENED, output, evidence or {})

    @classmethod
    def absent(cls) -> Probe:
        """It is not there now. That alone never lets the runtime send again."""
        return cls(ProbeAnswer.ABSENT)

    @classmethod
    def pending(cls, after_s: float | None = None) -> Probe:
        """The other side has it and has not finished; it would rather not be asked again for `after_s` seconds."""
        return cls(ProbeAnswer.PENDING, after_s=after_s)

    @classmethod
    def unknown(cls) -> Probe:
        """Nothing could be found out."""
        return cls(ProbeAnswer.UNKNOWN)
