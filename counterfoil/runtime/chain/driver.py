"""One wake of one run: from its claim until it has ended, waits for somebody, or is left to another process.

Whatever ends comes in by one inbox, so that an end costs the same however many others are under way. A task exists
for what is ready or under way; what waits for a person is data. Nothing is sent here but through the call path.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ...ledger.approving import withdraw
from ...ledger.bookkeeping import request_cancel
from ...ledger.run_calls import calls_at, living, rows_of
from ...ledger.run_rows import WHOLE
from ...ledger.runs import StepChange, Woken, calls_of, claim_run, finish, note_steps, park, release_run, wake
from ...ledger.states import CallState
from ...registry.principal import Principal
from ...registry.vocabulary import ErrorCode, OutcomeClass
from ..clock import MICROSECOND
from ..plan.model import OnPlanFailure
from ..stepping import NO_OUTPUT, Ended, HeldUp, NoOutput, NotNow, Refused, RunSaysNo
from . import rest
from .board import BUDGET, CANCELLED, DEADLINE, Halt, Later, Place
from .folding import has_effect, state_of
from .states import ENDED, StepState
from .steps import Expanded, Moved, Skipped, Unresolvable

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ...ledger.run_rows import RunRow
    from ...registry.vocabulary import JsonValue
    from ..plan.model import Step
    from ..refusal import Reason
    from .loading import TakenUp
    from .steps import Result, Steps, Tools

NEAR: Final = 2 * MICROSECOND
"""A time that is waited for here; for a later one the run is parked."""
FIRST_PAUSE: Final = 5 * MICROSECOND
LONGEST_PAUSE: Final = 60 * MICROSECOND


class Over(StrEnum):
    """How a wake of a run ended."""

    FINISHED = "finished"
    PARKED = "parked"
    LOST = "lost"  # another process drives it, or this one lost its lease
    RELEASED = "released"  # this process stops


class DrivingError(Exception):
    """A step ended by a fault of ours, or the ledger could not say what became of it; the cause is chained."""


class Drive:
    """One run, driven. `owner_id` is who claimed it."""

    def __init__(self, tools: Tools, run: RunRow, taken: TakenUp, steps: Steps, owner_id: str) -> None:
        self.run = run
        self.board = taken.board
        self._tools = tools
        self._ledger = tools.parts.ledger
        self._clock = tools.parts.clock
        self._taken = taken
        self._outputs = taken.outputs
        self._steps = steps
        self._owner_id = owner_id
        self._inbox: deque[tuple[Place, Result]] = deque()
        self._starting: list[Place] = []
        self._waiting: list[Place] = []  # may not start while the run is stopped or its authority has lapsed
        self._timers: dict[Place | None, asyncio.TimerHandle] = {}
        self._tries: dict[Place, int] = {}
        self._woken = asyncio.Event()
        self._flying = 0
        self._look = self._releasing = self._lost = False
        self._fault: BaseException | None = None
        self._effects = taken.effects

    def nudge(self) -> None:
        """Something about the run or one of its calls may have changed: its rows are looked at again."""
        self._look = True
        self._woken.set()

    def release(self) -> None:
        """Leave the run to others; what was sent is followed to its end."""
        self._releasing = True
        self._woken.set()

    async def drive(self) -> Over:
        """Advance until the run has ended or nothing of it moves.

        Raises:
            LedgerError, DrivingError: it cannot be driven now; nothing of it is under way any more.
        """
        try:
            for place, row in self._taken.open_calls:
                await self._stands(place, row, NO_OUTPUT)
            for step in self._taken.expanding:
                self._fly(Place(step), self._steps.begin(self._step(Place(step)), asked=True))
            await self._heed(self.run)
            while (over := await self._pass()) is None:
                if not (self._inbox or self._look or self.board.back or self._starting):
                    await self._woken.wait()
                self._woken.clear()
            return over
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                await self._land()
            raise
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _pass(self) -> Over | None:
        if self._fault is not None:
            raise DrivingError(f"a step of {self.run.run_id} ended by {type(self._fault).__name__}") from self._fault
        if self._releasing:
            return await self._leave()
        while self._inbox:
            await self._take(*self._inbox.popleft())
        if self._look:
            await self._look_again()
        if self.board.back:
            await self._examine()
        if self.board.notes:
            await self._note()
        if self._lost:
            return Over.LOST
        self._launch()
        return None if self._moves() else await self._come_to_rest()

    def _moves(self) -> bool:
        near = self._clock.now() + NEAR
        soon = any(later.due_at is not None and later.due_at <= near for later in self.board.later.values())
        busy = self._inbox or self._look or self._starting or self.board.back or self.board.notes
        return bool(self._flying or busy or self.board.elsewhere or soon)

    # What is started.

    def _launch(self) -> None:
        for step in self.board.take_ready(lambda step: self._may_start(Place(step))):
            self._fly(Place(step), self._steps.begin(self._step(Place(step)), asked=False))
        starting, self._starting = self._starting, []
        for place in starting:
            self._start(place)

    def _start(self, place: Place) -> None:
        """Begin a place that has no call, unless it may not start now."""
        if self.board.is_halted(place):
            assert self.board.halt is not None, "halted by something"
            self.board.end_halted(place, self.board.halt)
            self._woken.set()
        elif not self._may_start(place):
            self._waiting.append(place)
        elif place.item == WHOLE:
            self._fly(place, self._steps.begin(self._step(place), asked=True))
        else:
            items = self.board.items[place.step]
            assert items.values is not None, "expanded before its items begin"
            items.put(place.item, StepState.RUNNING, None, None)
            self._fly(place, self._steps.item(self._step(place), place.item, items.values[place.item]))

    def _may_start(self, place: Place) -> bool:
        if self.run.stopped_at is not None and not self.board.is_read(place):
            return False
        return self._clock.now() < self.run.grant_expires_at

    def _fly(self, place: Place, work: Coroutine[Any, Any, Result]) -> None:
        self._flying += 1
        self._tools.spawn(self._flight(place, work))

    async def _flight(self, place: Place, work: Coroutine[Any, Any, Result]) -> None:
        try:
            self._inbox.append((place, await work))
        except Exception as error:  # noqa: BLE001 (whatever ended a step must end the wake, which is logged there)
            self._fault = error
        finally:
            self._flying -= 1
            self._woken.set()

    # What comes back.

    async def _take(self, place: Place, result: Result) -> None:
        match result:
            case Ended(row=row, output=output):
                await self._stands(place, row, output)
            case Skipped():
                self._end(place, StepChange(self._id(place), place.item, "skipped", reason="when", message="Its `when` was false."))
            case Expanded(values=values):
                self._expand(place, values)
            case Unresolvable(message=message):
                invalid = OutcomeClass.INVALID_REQUEST.value
                code = ErrorCode.INVALID_ARGUMENTS.value
                self._end(place, StepChange(self._id(place), place.item, "failed", invalid, code, message))
            case Refused(reason=reason):
                self._refused(place, reason)
            case HeldUp(row=row):
                self.board.held[place] = row
            case NotNow(reason=reason, due_at=due_at):
                self._later(place, reason, due_at)
            case RunSaysNo(why=why):
                self._lost = self._lost or why == "moved"
                self._look = self._look or why != "given_up"
                self.board.back.append(place)
            case Moved():
                self.board.back.append(place)
        if self.board.is_halted(place) and (place in self.board.held or place in self.board.later):
            self.board.forget(place)
            self.board.back.append(place)

    def _expand(self, place: Place, values: Any) -> None:  # noqa: ANN401 (a list of JSON values)
        if self.board.is_halted(place) and place.step not in self.board.items:
            assert self.board.halt is not None, "halted by something"
            self.board.end_halted(place, self.board.halt)
            return
        self.board.expand(place.step, values)
        items = self.board.items.get(place.step)
        self._starting += [Place(place.step, number) for number in items.unstarted] if items is not None else []

    def _refused(self, place: Place, reason: Reason) -> None:
        if reason.code is ErrorCode.BUDGET_EXHAUSTED and reason.details.get("scope") == "run":
            self._close(Halt(StepState.NOT_RUN, BUDGET, "The run's own budget was used up before it."))
        details = json.dumps(self._ledger.project(reason.details)) if reason.details else None
        outcome, code = reason.meaning.outcome.value, reason.code.value
        self._end(place, StepChange(self._id(place), place.item, "failed", outcome, code, reason.message, details))

    def _later(self, place: Place, reason: Reason, due_at: int | None) -> None:
        if due_at is None and reason.code is not ErrorCode.BUDGET_EXHAUSTED:
            tries = self._tries[place] = self._tries.get(place, 0) + 1
            due_at = self._clock.now() + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries - 1, 10))
        self.board.later[place] = Later(reason, due_at)
        if due_at is not None:
            self._at(place, due_at, lambda: self._due(place))

    def _due(self, place: Place) -> None:
        if self.board.later.pop(place, None) is not None:
            self.board.back.append(place)
            self._woken.set()

    def _end(self, place: Place, change: StepChange) -> None:
        self.board.end_by_note(place, change)
        self._after_end()

    def _after_end(self) -> None:
        """A first failure of a plan that compensates lets no further effect begin."""
        first = self.board.scheduler.failed_first
        if self.board.plan.on_failure is not OnPlanFailure.COMPENSATE or first is None or self.board.halt is not None:
            return
        cause = self.board.step_id(first)
        message = f"Not run because of {cause}: after a failure nothing of this plan has another effect."
        self._close(Halt(StepState.NOT_RUN, cause, message, spares_reads=True, because=first))

    async def _stands(self, place: Place, row: CallRow, output: JsonValue | NoOutput) -> None:
        """How a place's call stands now; what can go on does, what has ended is counted, what waits is kept."""
        self.board.forget(place)
        state = state_of(row)
        if state in ENDED:
            self._ended(place, row, output)
        elif row.state in {CallState.AWAITING_APPROVAL, CallState.QUEUED} and self.board.is_halted(place):
            await self._withdraw(place, row)
        elif row.state == CallState.QUEUED:
            await self._queued(place, row)
        elif row.state == CallState.AWAITING_APPROVAL or not await self._is_gone(row):
            (self.board.elsewhere if row.state == CallState.DISPATCHED else self.board.parked)[place] = row
            if row.state == CallState.AWAITING_APPROVAL:
                return
        else:
            self._fly(place, self._steps.recover(self._step(place), place, row))

    def _ended(self, place: Place, row: CallRow, output: JsonValue | NoOutput) -> None:
        if not isinstance(output, NoOutput):
            self._outputs.gave(place.step, place.item, row, output)
        self._effects = self._effects or (has_effect(row) and self._step(place).compensate != "none")
        self.board.end_by_row(place, row)
        for other, blocker in tuple(self.board.held.items()):
            if blocker.call_id == row.call_id:
                self.board.forget(other)
                self.board.back.append(other)
        self._after_end()

    async def _queued(self, place: Place, row: CallRow) -> None:
        if not self._may_start(place):
            self._waiting.append(place)
        elif row.owner_id == self._owner_id:
            self._fly(place, self._steps.resume(self._step(place), place, row))
        elif row.owner_id is None or await self._is_gone(row):
            self._fly(place, self._steps.carry_on(self._step(place), place, row))
        else:
            self.board.elsewhere[place] = row

    async def _withdraw(self, place: Place, row: CallRow) -> None:
        halt, at = self.board.halt, self._clock.now()
        assert halt is not None, "withdrawn by something"
        by = self.run.cancel_requested_by or self.run.subject
        done = await self._ledger.record(lambda: withdraw(row.call_id, by, halt.message, at))
        if done is None:
            self.board.back.append(place)
        else:
            await self._stands(place, done, NO_OUTPUT)

    async def _is_gone(self, row: CallRow) -> bool:
        owner_id = row.owner_id
        if owner_id is None or owner_id == self._owner_id:
            return False
        return owner_id not in await self._ledger.record(lambda: living([owner_id]))

    # What is looked at again.

    async def _look_again(self) -> None:
        self._look = False
        at, run_id = self._clock.now(), self.run.run_id
        claimed = await self._ledger.record(lambda: claim_run(run_id, self._owner_id, at))
        if claimed is None or claimed.lost_owner is not None:
            self._lost = True
            return
        await self._heed(claimed.run)
        known = [*self.board.parked.items(), *self.board.elsewhere.items()]
        asked = [row.call_id for _, row in known] + [row.call_id for row in self.board.held.values()]
        now = await self._ledger.record(lambda: rows_of(asked))
        for place, row in known:
            new = now.get(row.call_id)
            if new is not None and (new.revision != row.revision or place in self.board.elsewhere):
                await self._stands(place, new, NO_OUTPUT)
        for place, row in tuple(self.board.held.items()):
            new = now.get(row.call_id)
            if new is None or not new.is_unresolved:
                self.board.forget(place)
                self.board.back.append(place)
        waiting, self._waiting = self._waiting, []
        self.board.back += [place for place in waiting if self._may_start(place) or self.board.is_halted(place)]
        self._waiting += [place for place in waiting if place not in self.board.back]

    async def _examine(self) -> None:
        """Places that came back: with a call they stand as that says, without one they begin again."""
        places, self.board.back = list(dict.fromkeys(self.board.back)), []
        run_id, asked = self.run.run_id, [(self._id(place), place.item) for place in places]
        rows = await self._ledger.record(lambda: calls_at(run_id, asked))
        for place, row in zip(places, rows, strict=True):
            if row is None:
                self._starting.append(place)
            else:
                await self._stands(place, row, NO_OUTPUT)

    async def _heed(self, run: RunRow) -> None:
        """What the run's row says now: its grant, and whether it is to stop, now or at its deadline."""
        self.run = run
        principal = self._steps.principal
        self._steps.principal = replace(principal, scopes=frozenset(json.loads(run.scopes)))
        stated = self.board.halt.reason if self.board.halt is not None else None
        if run.cancel_requested_at is not None and stated != CANCELLED:
            await self._stop_sent(run)
            self._close(Halt(StepState.CANCELLED, CANCELLED, "The run was cancelled before it."), reads=True)
            await self._withdraw_pending()
        elif run.deadline_at is not None and stated not in {CANCELLED, DEADLINE}:
            if self._clock.now() >= run.deadline_at:
                self._close(Halt(StepState.NOT_RUN, DEADLINE, "The run's deadline passed before it."))
                await self._withdraw_pending()
            else:
                self._at(None, run.deadline_at, self.nudge)

    def _close(self, halt: Halt, *, reads: bool = False) -> None:
        self.board.close(halt)
        self._tools.stepper.give_up(self.run.run_id, reads=reads)
        self._look = True  # proposals that nobody may carry out any more are withdrawn there
        waiting, self._waiting = self._waiting, []
        self.board.back += waiting

    async def _withdraw_pending(self) -> None:
        for place, row in tuple(self.board.parked.items()):
            if row.state == CallState.AWAITING_APPROVAL and self.board.is_halted(place):
                await self._stands(place, row, NO_OUTPUT)

    async def _stop_sent(self, run: RunRow) -> None:
        """Every call that was sent is told; its tool asks before it acts, and a read is stopped."""
        by, reason, at = run.cancel_requested_by or run.subject, run.cancel_reason or "", self._clock.now()
        for row in await self._ledger.record(lambda: calls_of(run.run_id)):
            if row.state == CallState.DISPATCHED and row.cancel_requested_at is None:
                call_id = row.call_id
                await self._ledger.record(lambda call_id=call_id: request_cancel(call_id, by, reason, at))  # type: ignore[misc]

    # How it ends.

    async def _note(self) -> None:
        notes, self.board.notes = self.board.notes, []
        at, run_id = self._clock.now(), self.run.run_id
        noted = await self._ledger.record(lambda: note_steps(run_id, self._owner_id, notes, at))
        self._lost = self._lost or noted is None

    async def _come_to_rest(self) -> Over | None:
        at, run_id, owner_id = self._clock.now(), self.run.run_id, self._owner_id
        if self.board.scheduler.over:
            halt = self.board.halt
            stated = halt.reason if halt is not None else None
            end = rest.finished(
                self.board,
                self.run,
                deadline=stated == DEADLINE,
                over_budget=stated == BUDGET,
                effects=self._effects,
            )
            done = await self._ledger.record(lambda: finish(run_id, owner_id, end, at))
            return self._unless_woken(done, Over.FINISHED)
        why = rest.parked(self.board, self.run, at)
        over = self._unless_woken(await self._ledger.record(lambda: park(run_id, owner_id, why, at)), Over.PARKED)
        if over is Over.PARKED and why.waits_for is not None:
            await self._wake_if_settled(why.waits_for)
        return over

    def _unless_woken(self, done: RunRow | Woken | None, over: Over) -> Over | None:
        if done is None:
            return Over.LOST
        if isinstance(done, Woken):
            self._look = True
            return None
        self.run = done
        return over

    async def _wake_if_settled(self, call_id: str) -> None:
        """What it waits for may have been settled between the last look and its parking."""
        found = await self._ledger.record(lambda: rows_of([call_id]))
        if call_id not in found or not found[call_id].is_unresolved:
            at, run_id = self._clock.now(), self.run.run_id
            await self._ledger.record(lambda: wake(run_id, at))

    async def _leave(self) -> Over:
        self._tools.stepper.give_up(self.run.run_id)
        if self.board.notes:
            await self._note()
        at, run_id = self._clock.now(), self.run.run_id
        await self._ledger.record(lambda: release_run(run_id, self._owner_id, at))
        return Over.RELEASED

    async def _land(self) -> None:
        """After a fault: nothing else is sent, and what was is followed to its end."""
        self._tools.stepper.give_up(self.run.run_id)
        while self._flying:
            self._woken.clear()
            await self._woken.wait()

    def _at(self, place: Place | None, at: int, act: Any) -> None:  # noqa: ANN401 (a callback)
        if place in self._timers:
            self._timers.pop(place).cancel()
        after_s = max(0, at - self._clock.now()) / MICROSECOND
        self._timers[place] = asyncio.get_running_loop().call_later(after_s, act)

    def _step(self, place: Place) -> Step:
        return self.board.plan.steps[place.step]

    def _id(self, place: Place) -> str:
        return self.board.step_id(place.step)
