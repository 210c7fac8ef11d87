"""What comes back from the steps of a run, and how their calls stand: counted as ended, kept waiting, or sent on.

A row decides, whoever wrote it: the same way is taken by what a task brings, what a wake finds changed, and what is
loaded after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...ledger.approving import withdraw
from ...ledger.run_calls import calls_at, living
from ...ledger.runs import StepChange
from ...ledger.states import CallState
from ...registry.vocabulary import OutcomeClass
from ..plan.model import OnPlanFailure
from ..stepping import NO_OUTPUT, Ended, HeldUp, NoOutput, NotNow, Refused, RunSaysNo
from .board import SPENT, Halt, Later, Place
from .folding import is_over_its_budget, state_of
from .rest import due_of
from .reusing import Again
from .states import ENDED, StepState
from .steps import Expanded, Moved, Skipped, Unresolvable

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ...registry.vocabulary import JsonValue
    from ..plan.model import Step
    from ..refusal import Reason
    from .board import Board
    from .flights import Flights
    from .outputs import Outputs
    from .steps import Result, Steps, Tools

_OTHERS: Final = frozenset({CallState.AWAITING_APPROVAL, CallState.AWAITING_EXTERNAL})
"""What waits for a person, or is asked about by whoever sweeps: no driver follows it up."""


class Arrivals:
    """The calls of one run, as they come back to its driver. `lost` says that the run is no longer driven here."""

    def __init__(
        self, tools: Tools, board: Board, outputs: Outputs, steps: Steps, flights: Flights, owner_id: str
    ) -> None:
        self.lost = False
        self.look = False
        self._tools = tools
        self._ledger = tools.parts.ledger
        self._clock = tools.parts.clock
        self._board = board
        self._outputs = outputs
        self._steps = steps
        self._flights = flights
        self._owner_id = owner_id
        self._tries: dict[Place, int] = {}

    async def take(self, place: Place, result: Result) -> None:
        """Count, keep or send on what a task brings."""
        match result:
            case Ended(row=row, output=output):
                await self.stands(place, row, output)
            case Expanded(values=values):
                self._expand(place, values)
            case Skipped() | Unresolvable() | Again():
                self._ended_unsent(place, result)
            case Refused(reason=reason):
                self._refused(place, reason)
            case HeldUp(row=row):
                self._board.wait(self._board.held, place, row)
            case NotNow(reason=reason, due_at=due_at):
                self._later(place, reason, due_at)
            case RunSaysNo(why=why):
                self.lost = self.lost or why == "moved"
                self.look = self.look or why != "given_up"
                self._board.back.append(place)
            case Moved():
                self._board.back.append(place)

    def _ended_unsent(self, place: Place, result: Skipped | Unresolvable | Again) -> None:
        match result:
            case Skipped():
                self._end(place, StepState.SKIPPED, reason="when", message="Its `when` was false.")
            case Unresolvable(message=message, code=code):
                outcome = OutcomeClass.INVALID_REQUEST.value
                self._end(place, StepState.FAILED, outcome=outcome, code=code.value, message=message)
            case Again(row=row):
                self._board.end_reused(place, row)
                self._after_end()

    async def stands(self, place: Place, row: CallRow, output: JsonValue | NoOutput = NO_OUTPUT) -> None:
        """How a place's call stands now; what can go on does, what has ended is counted, what waits is kept."""
        board = self._board
        board.forget(place)
        if state_of(row) in ENDED:
            self._ended(place, row, output)
        elif row.state in {CallState.AWAITING_APPROVAL, CallState.QUEUED} and board.is_halted(place):
            await self._withdraw(place, row)
        elif row.state == CallState.QUEUED:
            self._queued(place, row)
        elif await self._is_stranded(row):
            self._flights.fly(place, self._steps.recover(self._step(place), place, row))
        else:
            board.keep(board.elsewhere if row.state == CallState.DISPATCHED else board.parked, place, row)

    async def examine(self) -> None:
        """Places that came back: with a call they stand as that says, without one they begin again."""
        board = self._board
        places, board.back = list(dict.fromkeys(board.back)), []
        run_id, asked = board.run.run_id, [(board.step_id(place.step), place.item) for place in places]
        rows = await self._ledger.record(lambda: calls_at(run_id, asked))
        for place, row in zip(places, rows, strict=True):
            if row is None:
                board.starting.append(place)
            else:
                await self.stands(place, row)

    async def withdraw_pending(self) -> None:
        """Take back every proposal that nobody may carry out any more."""
        for place, row in tuple(self._board.parked.items()):
            if row.state == CallState.AWAITING_APPROVAL and self._board.is_halted(place):
                await self.stands(place, row)

    def close(self, halt: Halt, *, reads: bool = False) -> None:
        """Start nothing more, or nothing but reads: what was not sent comes back; `reads` has reads stopped."""
        self._board.close(halt)
        self._tools.stepper.give_up(self._board.run.run_id, reads=reads)
        self.look = True  # what waits is looked at then

    def close_rest(self) -> bool:
        """Nothing but what nobody knows is left of a run that is to be undone: what waits for that never runs."""
        board = self._board
        assert board.halt is not None, "a run that is undone has failed"
        before = len(board.notes)
        board.close(replace(board.halt, state=StepState.NOT_RUN, spares_reads=False))
        return len(board.notes) > before

    def stay_halted(self, halt: Halt | None) -> None:
        """What had ended the starting of steps before this driver came goes on to, unless the run's row says more."""
        if halt is not None and self._board.halt is None:
            self.close(halt)
        self._after_end()

    def _ended(self, place: Place, row: CallRow, output: JsonValue | NoOutput) -> None:
        if not isinstance(output, NoOutput):
            self._outputs.gave(place.step, place.item, row, output)
        self._board.end_by_row(place, row)
        self._board.no_longer_held_by(row.call_id)
        self._after_end()
        if is_over_its_budget(row.code, row.details):
            self.close(SPENT)

    def _end(
        self,
        place: Place,
        state: StepState,
        *,
        outcome: str | None = None,
        code: str | None = None,
        message: str | None = None,
        details: str | None = None,
        reason: str | None = None,
    ) -> None:
        step = self._board.step_id(place.step)
        self._board.end_by_note(
            place, StepChange(step, place.item, state.value, outcome, code, message, details, reason)
        )
        self._after_end()

    def _after_end(self) -> None:
        """The first failure of a plan that compensates lets no further effect begin."""
        board = self._board
        first = board.scheduler.failed_first
        if board.plan.on_failure is not OnPlanFailure.COMPENSATE or first is None or board.halt is not None:
            return
        cause = board.step_id(first)
        message = f"Not run because of {cause}: after its failure nothing of this plan has another effect."
        self.close(Halt(StepState.NOT_RUN, cause, message, spares_reads=True, because=first))

    def _expand(self, place: Place, values: Sequence[JsonValue]) -> None:
        board = self._board
        if board.halt is not None and board.is_halted(place) and place.step not in board.items:
            board.end_halted(place, board.halt)
            return
        board.expand(place.step, values)
        items = board.items.get(place.step)
        board.starting += [Place(place.step, number) for number in items.unstarted] if items is not None else []

    def _refused(self, place: Place, reason: Reason) -> None:
        details = json.dumps(self._ledger.project(reason.details)) if reason.details else None
        outcome, code = reason.meaning.outcome.value, reason.code.value
        self._end(place, StepState.FAILED, outcome=outcome, code=code, message=reason.message, details=details)
        if is_over_its_budget(code, details):
            self.close(SPENT)

    def _later(self, place: Place, reason: Reason, due_at: int | None) -> None:
        tries = self._tries[place] = self._tries.get(place, 0) + 1
        due = due_of(reason, due_at, self._clock.now(), self._board.run.wakes + tries - 1)
        self._board.wait(self._board.later, place, Later(reason, due))
        if place in self._board.later and due is not None:
            self._flights.at(place, due, lambda: self._due(place))

    def try_held(self) -> None:
        """What is held is tried again: only a wake tells of a release."""
        for place in [place for place, later in self._board.later.items() if later.due_at is None]:
            self._due(place)

    def _due(self, place: Place) -> None:
        if self._board.later.pop(place, None) is not None:
            self._board.back.append(place)

    def _queued(self, place: Place, row: CallRow) -> None:
        """What is queued is the driver's to carry on, whoever had it: T1 asks who drives the run."""
        step = self._step(place)
        if not self._board.may_start(place, self._clock.now()):
            self._board.waiting.append(place)
        elif row.owner_id == self._owner_id:
            self._flights.fly(place, self._steps.resume(step, place, row))
        else:
            self._flights.fly(place, self._steps.carry_on(step, place, row))

    async def _withdraw(self, place: Place, row: CallRow) -> None:
        halt, at = self._board.halt, self._clock.now()
        assert halt is not None, "withdrawn by something"
        by = self._board.run.cancel_requested_by or self._board.run.subject
        done = await self._ledger.record(lambda: withdraw(row.call_id, by, halt.message, at))
        if done is None:
            self._board.back.append(place)
        else:
            await self.stands(place, done)

    async def _is_stranded(self, row: CallRow) -> bool:
        """True for what a process that is gone has sent, or parked where following it up once more may help."""
        owner_id = row.owner_id
        if row.state in _OTHERS or owner_id is None or owner_id == self._owner_id:
            return False
        if row.state != CallState.DISPATCHED and self._steps.is_for_a_person(row):
            return False
        return owner_id not in await self._ledger.record(lambda: living([owner_id]))

    def _step(self, place: Place) -> Step:
        return self._board.plan.steps[place.step]
