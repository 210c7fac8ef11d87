"""From rows to states: what a call's row says of its step, what its items say of a `for_each`, what all say of a run.

Pure. A step has no state of its own where its call has one; only what no call says is stored beside the calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...ledger.states import CallState
from ...registry.vocabulary import ErrorCode, OutcomeClass
from .states import ENDED, FAILING, RunStatus, StepState

if TYPE_CHECKING:
    from ...ledger.rows import CallRow

_UNDECIDED: Final = frozenset(
    {ErrorCode.APPROVAL_REJECTED.value, ErrorCode.APPROVAL_EXPIRED.value, ErrorCode.APPROVAL_INVALID.value}
)
_HAPPENED: Final = frozenset({OutcomeClass.SUCCESS.value, OutcomeClass.NO_RESULT.value, OutcomeClass.PARTIAL.value})
_WAITING: Final = {
    CallState.AWAITING_APPROVAL: StepState.AWAITING_APPROVAL,
    CallState.AWAITING_RECONCILIATION: StepState.AWAITING_RECONCILIATION,
    CallState.AWAITING_EXTERNAL: StepState.AWAITING_EXTERNAL,
}
WAITS: Final = (StepState.AWAITING_RECONCILIATION, StepState.AWAITING_EXTERNAL, StepState.AWAITING_APPROVAL)
"""What a run or a `for_each` waits for, the first that applies."""


def state_of(row: CallRow) -> StepState:
    """The state of the step, or item, whose call this is."""
    state = CallState(row.state)
    if state in _WAITING:
        return _WAITING[state]
    if state is CallState.REFUSED:
        return StepState.REJECTED if row.code in _UNDECIDED else StepState.FAILED
    if state is CallState.SETTLED:
        return _settled(row)
    return StepState.READY if state is CallState.QUEUED and not row.generation else StepState.RUNNING


def _settled(row: CallRow) -> StepState:
    if row.code == ErrorCode.CANCELLED.value:
        return StepState.CANCELLED
    if row.outcome == OutcomeClass.NO_RESULT.value:
        return StepState.SUCCEEDED
    good = row.outcome == OutcomeClass.SUCCESS.value and row.code != ErrorCode.OUTPUT_INVALID.value
    return StepState.SUCCEEDED if good else StepState.FAILED


def has_effect(row: CallRow) -> bool:
    """True if an effect of this call stands: what partly succeeded, or broke its output's promise, happened too."""
    return not row.is_read and row.state == CallState.SETTLED and row.outcome in _HAPPENED


def has_output(row: CallRow) -> bool:
    """True if what the call gave may be handed to later steps; an output that broke its promise may not."""
    return row.state == CallState.SETTLED and row.outcome in _HAPPENED and row.code != ErrorCode.OUTPUT_INVALID.value


def is_over_its_budget(code: str | None, details: str | None) -> bool:
    """True for what was refused because its run has used up a budget of its own; `details` is JSON."""
    return code == ErrorCode.BUDGET_EXHAUSTED.value and json.loads(details or "{}").get("scope") == "run"


def fold_items(states: Sequence[StepState]) -> StepState:
    """The state of a `for_each` step: it ends once all its items have, and fails if one of them did.

    While one of them can still move it runs, else it waits for what they wait for, reconciliation first.
    """
    present = set(states)
    if present <= ENDED:
        return _all_ended(present)
    if StepState.RUNNING in present or StepState.READY in present or StepState.WAITING in present:
        return StepState.RUNNING
    return next(wait for wait in WAITS if wait in present)


def _all_ended(present: set[StepState]) -> StepState:
    if present <= {StepState.SUCCEEDED}:
        return StepState.SUCCEEDED
    if len(present) == 1:
        return present.pop()
    if StepState.FAILED in present or present <= {StepState.SUCCEEDED, StepState.NOT_RUN}:
        return StepState.FAILED
    return StepState.REJECTED if StepState.REJECTED in present else StepState.CANCELLED


def waits_for(states: Iterable[StepState]) -> RunStatus | None:
    """What a run waits for in which nothing moves by itself: reconciliation first; None if for nothing of the kind."""
    present = set(states)
    return next((RunStatus(wait.value) for wait in WAITS if wait in present), None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    status: RunStatus
    reason: str | None = None
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known at the end of a run beside the states of its steps.

    `continued` are the ids of the steps that state `continue`; `codes` the error code of a step that failed.
    """

    cancelled: bool = False
    deadline_passed: bool = False
    over_budget: bool = False
    continued: frozenset[str] = frozenset()


def verdict(states: Mapping[str, StepState], ending: Ending, codes: Mapping[str, str | None]) -> Verdict:
    """How a run ended all of whose steps have ended; `states` in declared order.

    It succeeded only if every step that should have run did; what was skipped, and what was not run because of that
    or because of a step that states `continue`, should not have run.
    """
    failing = [step for step, state in states.items() if state in FAILING]
    fatal = [step for step in failing if step not in ending.continued]
    if ending.cancelled:
        return Verdict(RunStatus.CANCELLED, "cancelled", ErrorCode.CANCELLED.value, "It was cancelled.")
    if ending.over_budget:
        message = "The run's own budget is used up; what it could not afford was not sent."
        return Verdict(RunStatus.BUDGET_EXHAUSTED, "budget", ErrorCode.BUDGET_EXHAUSTED.value, message)
    if ending.deadline_passed:
        message = "Its deadline passed before every step had ended; no step was started after it."
        return Verdict(RunStatus.FAILED, "deadline_exceeded", ErrorCode.DEADLINE_EXCEEDED.value, message)
    if fatal:
        first = min(fatal, key=lambda step: states[step] is StepState.CANCELLED)  # what was withdrawn is no cause
        more = f" {len(fatal)} steps failed in all." if len(fatal) > 1 else ""
        return Verdict(
            RunStatus.FAILED,
            f"{first}: {states[first]}",
            codes.get(first),
            f"Step {first} ended as {states[first]}.{more}",
        )
    if failing:
        return Verdict(RunStatus.SUCCEEDED, f"continued after {', '.join(failing[:5])}")
    return Verdict(RunStatus.SUCCEEDED)
