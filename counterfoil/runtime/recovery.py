"""What follows for an attempt without a settlement (design section 4). Pure: contract and facts in, one step out.

The order: a probe if there is one; else the same key again, if the far side honours it; else again if repeating is
harmless; else a person. `absent` is not enough to send again: the old attempt may still act.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..registry.contract import Contract
from ..registry.outcome import ProbeAnswer
from ..registry.vocabulary import Idempotency


class Step(StrEnum):
    """The next thing to do about an unresolved call."""

    ASK = "ask"  # run its probe
    RESEND = "resend"  # send again: same action id, same bytes
    SETTLE_HAPPENED = "settle_happened"
    SETTLE_ABSENT = "settle_absent"  # it did not happen, and can no longer
    WAIT = "wait"  # the far side still works on it
    PARK = "park"  # a person must say


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known about an unresolved call; times in microseconds.

    `repeatable_here` is false for a direct call at a restart: reads and natural calls repeat only inside a run.
    `compensating` is true where the call is to be undone if it happened: what did not happen is not done any more.
    `undisturbed` is true while a natural call still holds its resources and no later call on them was dispatched.
    """

    contract: Contract
    now: int
    first_dispatched_at: int
    hard_deadline_at: int | None
    answer: ProbeAnswer | None = None
    asked: bool = False
    repeatable_here: bool = False
    undisturbed: bool = False
    compensating: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """The step, with the reason that is shown and recorded."""

    step: Step
    why: str
    ruled_out: bool = False  # the attempts so far are known to have had no effect, for good


def advise(case: Situation) -> Advice:
    """The next step for an unresolved call."""
    if case.contract.recovery.probe and not case.asked:
        return Advice(Step.ASK, "its contract has a probe")
    if case.answer is not None:
        return _after_answer(case)
    if _key_holds(case):
        return Advice(Step.RESEND, "the far side honours its key, so the same call again has one effect")
    if _harmless(case):
        return Advice(Step.RESEND, "repeating it is harmless")
    return Advice(Step.PARK, "nothing but a person can tell whether it happened")


def _after_answer(case: Situation) -> Advice:
    if case.answer is ProbeAnswer.HAPPENED:
        return Advice(Step.SETTLE_HAPPENED, "the probe found it")
    if case.answer is ProbeAnswer.PENDING:
        return Advice(Step.WAIT, "the far side still works on it")
    if case.answer is ProbeAnswer.ABSENT:
        return _after_absent(case)
    return Advice(Step.PARK, "the probe could not tell")


def _after_absent(case: Situation) -> Advice:
    gone = settled_for_good(case.contract, case.hard_deadline_at, case.now)
    if case.compensating and case.contract.recovery.settle_s is not None:
        if gone:
            return Advice(Step.SETTLE_ABSENT, "the probe does not find it, and it can no longer appear")
        return Advice(Step.WAIT, "the probe does not find it yet, and it may still appear")
    if _key_holds(case):
        return Advice(Step.RESEND, "the probe does not find it, and its key makes sending again safe")
    if gone:
        return Advice(Step.RESEND, "the probe does not find it, and it can no longer appear", ruled_out=True)
    return Advice(Step.PARK, "the probe does not find it now, but the first attempt may still act")


def stops_waiting(answer: ProbeAnswer | None, until: int | None, now: int) -> str | None:
    """Why an accepted call is waited for no longer, in a sentence; None while it is.

    That the far side cannot tell now ends the wait only once its time, `until` in microseconds, is over.
    """
    if answer is ProbeAnswer.ABSENT:
        return "The far side had accepted it, and its probe does not find it now. Nobody knows whether it happened."
    if until is not None and now >= until:
        return "The far side had accepted it and has not finished in the time given. Nobody knows whether it happened."
    return None


def last_effect_at(hard_deadline_at: int | None, accepted_until: int | None) -> int | None:
    """When an attempt can act no more: what was accepted may act for as long as it is waited for. None if never."""
    if hard_deadline_at is None or accepted_until is None:
        return hard_deadline_at
    return max(hard_deadline_at, accepted_until)


def settled_for_good(contract: Contract, hard_deadline_at: int | None, now: int) -> bool:
    """True once an absent effect can no longer appear: hard deadline and `settle_s` are past."""
    until = settles_at(contract, hard_deadline_at)
    return until is not None and now > until


def settles_at(contract: Contract, hard_deadline_at: int | None) -> int | None:
    """When an absent effect can no longer appear, in microseconds; None if nobody promised that."""
    if hard_deadline_at is None or contract.recovery.settle_s is None:
        return None
    return hard_deadline_at + round(contract.recovery.settle_s * 1_000_000)


def _key_holds(case: Situation) -> bool:
    recovery = case.contract.recovery
    kept_until = case.first_dispatched_at + round(recovery.key_retention_s * 1_000_000)
    return recovery.idempotency is Idempotency.KEYED and case.now < kept_until


def _harmless(case: Situation) -> bool:
    if not case.repeatable_here:
        return False
    if case.contract.is_read:
        return True
    return case.contract.recovery.idempotency is Idempotency.NATURAL and case.undisturbed
