"""One wake of one run: from its claim until it has ended, waits for somebody, or is left to another process.

A task exists for what is ready or under way; what waits for a person is data. Nothing is sent here but through the
call path, and nothing is decided here that the ledger does not say too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ...ledger.bookkeeping import request_cancel
from ...ledger.holding import list_holds
from ...ledger.run_calls import rows_of
from ...ledger.run_rows import WHOLE, post
from ...ledger.runs import Reopened, Woken, calls_of, claim_run, compensate, finish, note_steps, park, release_run
from ...ledger.states import CallState
from ...registry.budgets import Kind
from ..clock import MICROSECOND
from . import rest
from .arrivals import Arrivals
from .board import CANCEL, FINAL_HALTS, Place
from .flights import Flights
from .timing import bound_of

if TYPE_CHECKING:
    from ...ledger.run_rows import RunRow
    from ..plan.model import Step
    from .loading import TakenUp
    from .steps import Steps, Tools
    from .timing import Bound

NEAR: Final = 2 * MICROSECOND
"""A time that is waited for here; for a later one the run is parked."""


class Over(StrEnum):
    """How a wake of a run ended."""

    FINISHED = "finished"
    REOPENED = "reopened"  # a call that had ended is open again: what is known of the run is out of date
    UNDOES = "undoes"  # it has failed, and its effects are to be undone before it ends
    PARKED = "parked"
    LOST = "lost"  # another process drives it, or this one lost its lease
    RELEASED = "released"  # this process stops


class DrivingError(Exception):
    """A step ended by a fault of ours, or the ledger could not say what became of it; the cause is chained."""


class Drive:
    """One run, driven. `owner_id` is who claimed it; `changed` is told of everything that was recorded."""

    def __init__(
        self,
        tools: Tools,
        taken: TakenUp,
        steps: Steps,
        owner_id: str,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        changed: Callable[[str], None],
    ) -> None:
        self.board = taken.board
        self._tools = tools
        self._ledger = tools.parts.ledger
        self._clock = tools.parts.clock
        self._taken = taken
        self._steps = steps
        self._owner_id = owner_id
        self._changed = changed
        self._flights = Flights(tools.parts.clock, spawn)
        self._arrivals = Arrivals(tools, taken.board, taken.outputs, steps, self._flights, owner_id)
        self._releasing = False
        self._over_at: int | None = None  # when the last step had ended

    @property
    def run(self) -> RunRow:
        """Its row, as it was last seen."""
        return self.board.run

    @property
    def waits_elsewhere(self) -> bool:
        """True while another process has a call of it under way."""
        return bool(self.board.elsewhere)

    def nudge(self) -> None:
        """Something about the run or one of its calls may have changed: its rows are looked at again."""
        self._arrivals.look = True
        self._flights.stir()

    @property
    def is_nudged(self) -> bool:
        """True if that was said and not looked at yet."""
        return self._arrivals.look

    def release(self) -> None:
        """Leave the run to others; what was sent is followed to its end."""
        self._releasing = True
        self._flights.stir()

    async def drive(self) -> Over:
        """Advance until the run has ended or nothing of it moves.

        Raises:
            LedgerError, DrivingError: it cannot be driven now; nothing of it is under way any more.
        """
        try:
            await self._resume()
            for place, row in self._taken.open_calls:
                await self._arrivals.stands(place, row)
            for step in self._taken.expanding:
                self._flights.fly(Place(step), self._steps.begin(self._step(step), asked=True))
            while (over := await self._pass()) is None:
                if not self._is_busy():
                    await self._flights.stirred()
        except Exception:
            await self.landed()
            raise
        finally:
            self._flights.end()
        return over

    async def _resume(self) -> None:
        """What stood in the way of further steps when it was left stands in their way again."""
        if self.board.scheduler.over:
            self._over_at = self._taken.last_end
        await self._heed(self.board.run)
        self._arrivals.stay_halted(self._taken.halt)

    async def landed(self) -> None:
        """Nothing more is sent; come back when what was has its end."""
        self._tools.stepper.give_up(self.board.run.run_id)
        await self._flights.landed()

    async def _pass(self) -> Over | None:
        board, arrivals = self.board, self._arrivals
        if (fault := self._flights.fault) is not None:
            raise DrivingError(f"a step of {board.run.run_id} ended by {type(fault).__name__}") from fault
        if self._releasing:
            return await self._leave()
        if self._flights.inbox:
            await self._empty_inbox()
        if arrivals.look:
            await self._look_again()
        if board.back:
            await arrivals.examine()
        if board.notes:
            await self._note()
        if arrivals.lost:
            return Over.LOST
        if self._is_late():
            arrivals.look = True  # a timer runs by another clock than the one that a deadline is stated in
            return None
        self._launch()
        return None if self._moves() else await self._come_to_rest()

    async def _empty_inbox(self) -> None:
        self._changed(self.board.run.run_id)
        while self._flights.inbox:
            await self._arrivals.take(*self._flights.inbox.popleft())
        if self.board.scheduler.over and self._over_at is None:
            self._over_at = self._clock.now()

    def _is_busy(self) -> bool:
        board = self.board
        return bool(self._flights.inbox or self._arrivals.look or board.back or board.starting or board.notes)

    def _is_late(self) -> bool:
        """True once the run's time has passed and nobody has seen it yet."""
        bound, seen = self._bound(), self.board.halt in FINAL_HALTS
        late = bound is not None and self._clock.now() >= bound.at
        return late and not seen and not self.board.scheduler.over

    def _bound(self) -> Bound | None:
        return bound_of(self.board.run, self._steps.budget.get(Kind.ELAPSED_S))

    def _moves(self) -> bool:
        near = self._clock.now() + NEAR
        soon = any(later.due_at is not None and later.due_at <= near for later in self.board.later.values())
        return bool(self._flights.under_way or self._is_busy() or self.board.elsewhere or soon)

    def _launch(self) -> None:
        board, now = self.board, self._clock.now()
        for step in board.take_ready(lambda step: board.may_start(Place(step), now)):
            self._flights.fly(Place(step), self._steps.begin(self._step(step), asked=False))
        starting, board.starting = board.starting, []
        for place in starting:
            if board.halt is not None and board.is_halted(place):
                board.end_halted(place, board.halt)
            elif not board.may_start(place, now):
                board.waiting.append(place)
            elif place.item == WHOLE:
                self._flights.fly(place, self._steps.begin(self._step(place.step), asked=True))
            else:
                value = board.begin_item(place)
                self._flights.fly(place, self._steps.item(self._step(place.step), place.item, value))

    async def _look_again(self) -> None:
        """Read the run's row and those of what waits; take the wakes that were posted up to now."""
        board, arrivals = self.board, self._arrivals
        arrivals.look = False
        at, run_id = self._clock.now(), board.run.run_id
        claimed = await self._ledger.record(lambda: claim_run(run_id, self._owner_id, at))
        if claimed is None or claimed.lost_owner is not None:
            arrivals.lost = True
            return
        await self._heed(claimed.run)
        known = [*board.parked.items(), *board.elsewhere.items()]
        asked = [row.call_id for _, row in known] + [row.call_id for row in board.held.values()]
        now = await self._ledger.record(lambda: rows_of(asked))
        for place, row in known:
            new = now.get(row.call_id)
            if new is None:
                continue
            strange = new.state != CallState.AWAITING_APPROVAL and new.owner_id != self._owner_id
            if strange or new.revision != row.revision:  # whose owner is another one, that may be gone by now
                await arrivals.stands(place, new)
        for row in tuple(board.held.values()):
            if row.call_id not in now or not now[row.call_id].is_unresolved:
                board.no_longer_held_by(row.call_id)
        await arrivals.withdraw_pending()
        arrivals.try_held()
        waiting, board.waiting = board.waiting, []
        board.back += [place for place in waiting if board.may_start(place, at) or board.is_halted(place)]
        board.waiting = [place for place in waiting if place not in board.back]

    async def _heed(self, run: RunRow) -> None:
        """What the run's row says now: its grant, and whether it is to stop, now or when its time is up."""
        board = self.board
        board.run = run
        granted = self._steps.principal = replace(self._steps.principal, scopes=frozenset(json.loads(run.scopes)))
        board.known = self._tools.parts.scopes_now(granted) is not None
        if run.cancel_requested_at is not None and self._in_time(run.cancel_requested_at):
            if board.halt != CANCEL:
                await self._stop_sent(run)
                self._arrivals.close(CANCEL, reads=True)
        elif (bound := self._bound()) is not None and board.halt not in FINAL_HALTS and self._in_time(bound.at):
            if self._clock.now() >= bound.at:
                self._arrivals.close(bound.halt)
            else:
                self._flights.at(None, bound.at, self.nudge)

    def _in_time(self, at: int) -> bool:
        """True unless every step had ended before that: it is too late to stop what has ended."""
        return self._over_at is None or at <= self._over_at

    async def _stop_sent(self, run: RunRow) -> None:
        """Every call that was sent is told: its tool asks before it acts."""
        by, reason, at = run.cancel_requested_by or run.subject, run.cancel_reason or "", self._clock.now()
        rows = await self._ledger.record(lambda: calls_of(run.run_id))
        for call_id in [row.call_id for row in rows if row.state == CallState.DISPATCHED]:
            await self._ledger.record(lambda call_id=call_id: request_cancel(call_id, by, reason, at))  # type: ignore[misc]  # bound in its turn

    async def _note(self) -> None:
        notes, self.board.notes = self.board.notes, []
        at, run_id = self._clock.now(), self.board.run.run_id
        noted = await self._ledger.record(lambda: note_steps(run_id, self._owner_id, notes, at))
        self._arrivals.lost = self._arrivals.lost or noted is None
        self._changed(run_id)

    async def _come_to_rest(self) -> Over | None:
        """Nothing moves: the run ends, or waits without a driver. A wake that came meanwhile is looked at instead."""
        board, at, owner_id = self.board, self._clock.now(), self._owner_id
        run_id = board.run.run_id
        left = rest.is_left_to_undoing(board)
        if left and not board.scheduler.over and self._arrivals.close_rest():
            return None
        if board.scheduler.over or left:
            end, doubtful = rest.finished(board), board.doubtful
            if rest.is_undone(board, end):
                begun = await self._ledger.record(lambda: compensate(run_id, owner_id, end, doubtful, at))
                return self._unless_woken(begun, Over.UNDOES)
            return self._unless_woken(
                await self._ledger.record(lambda: finish(run_id, owner_id, end, at)), Over.FINISHED
            )
        why = rest.parked(board, at, self._bound())
        over = self._unless_woken(await self._ledger.record(lambda: park(run_id, owner_id, why, at)), Over.PARKED)
        if over is Over.PARKED and why.waits_for is not None:
            await self._wake_if_settled(why.waits_for)
        if over is Over.PARKED and (held := rest.holds(board)):
            await self._wake_if_released(held)
        return over

    def _unless_woken(self, done: RunRow | Woken | Reopened | None, over: Over) -> Over | None:
        if done is None:
            return Over.LOST
        if isinstance(done, Reopened):
            return Over.REOPENED
        if isinstance(done, Woken):
            self._arrivals.look = True
            return None
        self.board.run = done
        self._changed(done.run_id)
        return over

    async def _wake_if_settled(self, call_id: str) -> None:
        """What it waits for may have been settled between the last look and its parking."""
        found = await self._ledger.record(lambda: rows_of([call_id]))
        if call_id not in found or not found[call_id].is_unresolved:
            at, run_id = self._clock.now(), self.board.run.run_id
            await self._ledger.record(lambda: post(run_id, at))

    async def _wake_if_released(self, held: set[tuple[str, str]]) -> None:
        """The wake of a release may have been taken while the refusal was still on its way here."""
        standing = {(hold.kind, hold.name) for hold in await self._ledger.record(list_holds)}
        if not held <= standing:
            at, run_id = self._clock.now(), self.board.run.run_id
            await self._ledger.record(lambda: post(run_id, at))

    async def _leave(self) -> Over:
        run_id = self.board.run.run_id
        self._tools.stepper.give_up(run_id)
        if self.board.notes:
            await self._note()
        at = self._clock.now()
        await self._ledger.record(lambda: release_run(run_id, self._owner_id, at))
        self._changed(run_id)
        return Over.RELEASED

    def _step(self, index: int) -> Step:
        return self.board.plan.steps[index]
