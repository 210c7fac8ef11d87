"""What becomes of a run in which nothing moves any more: it has ended, or it waits, and for what. Pure.

What it waits for first is said first: an outcome that nobody knows, then a person's decision, then time or its subject.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...ledger.runs import Finished, Parked
from ...ledger.states import UNRESOLVED
from ...registry.vocabulary import ErrorCode
from ..clock import MICROSECOND
from ..plan.model import OnPlanFailure, OnStepFailure
from .board import CANCEL, OVERDUE, SPENT
from .folding import Ending, state_of, verdict, waits_for
from .states import RunStatus, StepState

if TYPE_CHECKING:
    from ...ledger.run_rows import RunRow
    from ..refusal import Reason
    from .board import Board, Later
    from .timing import Bound

FIRST_PAUSE: Final = 5 * MICROSECOND
LONGEST_PAUSE: Final = 60 * MICROSECOND
WATCH_US: Final = 30_000_000
"""How often a run looks again that is held up by more calls than the one that is to wake it, in microseconds."""


def finished(board: Board) -> Finished:
    """The end of a run all of whose steps have ended."""
    continued = frozenset(step.id for step in board.plan.steps if step.on_failure is OnStepFailure.CONTINUE)
    ending = Ending(
        cancelled=board.halt == CANCEL,
        deadline_passed=board.halt == OVERDUE,
        over_budget=board.halt == SPENT,
        continued=continued,
    )
    found = verdict(board.states(), ending, board.codes)
    return Finished(found.status.value, found.reason, found.code, found.message)


def is_undone(board: Board, end: Finished) -> bool:
    """True if what the run has done is to be undone before it ends so."""
    asked = board.plan.on_failure is OnPlanFailure.COMPENSATE
    failed = end.status in {RunStatus.FAILED.value, RunStatus.BUDGET_EXHAUSTED.value}
    return asked and failed and bool(board.effects or board.doubtful or board.parked)


def is_left_to_undoing(board: Board) -> bool:
    """True if a run that is to be undone has failed and nothing is left of it but what nobody knows."""
    halted = board.halt is not None and board.halt != CANCEL
    if not halted or board.plan.on_failure is not OnPlanFailure.COMPENSATE or not board.parked:
        return False
    waits = board.held or board.later or board.waiting or board.elsewhere or board.starting or board.back
    return not waits and all(row.state in UNRESOLVED for row in board.parked.values())


def parked(board: Board, now: int, bound: Bound | None) -> Parked:
    """Why nothing of a run moves that has not ended; `bound` is when its time is up, unless only people are awaited."""
    run = board.run
    states = [state_of(row) for row in board.parked.values()]
    states += [StepState.AWAITING_RECONCILIATION] * bool(board.held)
    status, reason = waits_for(states), held_back(run, now, known=board.known)
    dues = [later.due_at for later in board.later.values() if later.due_at is not None]
    others = sorted({row.call_id for row in board.held.values() if row.run_id != run.run_id})
    if len(others) > 1:
        dues.append(now + WATCH_US)
    pauses = not dues and not others and StepState.AWAITING_EXTERNAL not in states
    if not pauses and bound is not None and bound.at > now:
        dues.append(bound.at)
    soonest = _soonest(board.later.values())
    if status is None and reason is None and soonest is not None:
        reason = why_later(soonest.reason)
    return Parked(
        (status or RunStatus.QUEUED).value,
        reason,
        soonest.reason.message if status is None and soonest is not None else None,
        min(dues, default=None),
        others[0] if others else None,
        pauses,
    )


def held_back(run: RunRow, now: int, *, known: bool) -> str | None:
    """Why nothing with an effect may be sent for this run, whatever it is; `known`: its subject is, by now."""
    if run.stopped_at is not None:
        return "stopped"
    return "authority_expired" if now >= run.grant_expires_at or not known else None


def holds(board: Board) -> set[tuple[str, str]]:
    """The holds, by kind and name, of which nothing but the release is waited for."""
    kept = [later.reason.details for later in board.later.values() if later.reason.code is ErrorCode.HELD]
    return {(str(details["kind"]), str(details["name"])) for details in kept}


def _soonest(waiting: Iterable[Later]) -> Later | None:
    return min(waiting, key=lambda later: math.inf if later.due_at is None else later.due_at, default=None)


def why_later(reason: Reason) -> str:
    """The reason of a run that waits because of this refusal."""
    if reason.code is ErrorCode.BUDGET_EXHAUSTED:
        return "budget"
    return "held" if reason.code is ErrorCode.HELD else "unavailable"


def due_of(reason: Reason, due_at: int | None, now: int, wakes: int) -> int | None:
    """When what was refused for now is tried again, in microseconds; None for what is held, whose release is a wake.

    Where the refusal itself names no time, it is the later the more often the run was woken.
    """
    if reason.code is ErrorCode.HELD:
        return None
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(max(0, wakes - 1), 10))
    return now + pause if due_at is None else due_at
