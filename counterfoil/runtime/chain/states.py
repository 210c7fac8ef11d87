"""The words for how a step and a run stand, and which of them are ends. No behaviour lives here."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class StepState(StrEnum):
    """Where a step, or one item of it, is."""

    WAITING = "waiting"  # for its dependencies
    READY = "ready"  # nothing but the driver stands before it
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    AWAITING_RECONCILIATION = "awaiting_reconciliation"
    AWAITING_EXTERNAL = "awaiting_external"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"  # a person said no, or nobody decided in time
    SKIPPED = "skipped"  # its `when` was false
    NOT_RUN = "not_run"  # because of another step, which it names, or because the run had to end
    CANCELLED = "cancelled"


class RunStatus(StrEnum):
    """Where a run is."""

    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_RECONCILIATION = "awaiting_reconciliation"
    AWAITING_EXTERNAL = "awaiting_external"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BUDGET_EXHAUSTED = "budget_exhausted"


ENDED: Final = frozenset(
    {
        StepState.SUCCEEDED,
        StepState.FAILED,
        StepState.REJECTED,
        StepState.SKIPPED,
        StepState.NOT_RUN,
        StepState.CANCELLED,
    }
)
FAILING: Final = frozenset({StepState.FAILED, StepState.REJECTED, StepState.CANCELLED})
"""The ends that fail a run, unless the step states `continue`."""
FINAL: Final = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.BUDGET_EXHAUSTED})
