"""Where everything of a run stands in the memory of the one who drives it. It is told what happened and awaits nothing.

A place is a step, or one item of it. What no call says is put down in `notes`, for the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ...ledger.run_rows import WHOLE
from ...ledger.runs import StepChange
from ...ledger.undoing import is_in_doubt
from ...registry.vocabulary import ErrorCode
from .folding import fold_items, has_effect, state_of
from .scheduler import End, Freed, Scheduler, nodes_of
from .states import ENDED, StepState

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ...ledger.run_rows import RunRow
    from ...registry.vocabulary import JsonValue
    from ..plan.model import Plan, Step
    from ..refusal import Reason
    from .outputs import Outputs

W = TypeVar("W")


class Place(NamedTuple):
    """A step of the plan by its index, or one of its items."""

    step: int
    item: int = WHOLE


@dataclass(frozen=True, slots=True)
class Halt:
    """Nothing more is started, or nothing but reads: what ends before it was sent ends so, for this reason."""

    state: StepState
    reason: str
    message: str
    spares_reads: bool = False
    because: int | None = None


CANCEL: Final = Halt(StepState.CANCELLED, "cancelled", "The run was cancelled before it was sent.")
OVERDUE: Final = Halt(StepState.NOT_RUN, "deadline_exceeded", "The run's deadline passed before it was sent.")
SPENT: Final = Halt(StepState.NOT_RUN, "budget", "The run's own budget was used up before it.")
FINAL_HALTS: Final = frozenset({CANCEL, OVERDUE, SPENT})
"""Of these the first that came decides how the run ends, but for a cancellation, which comes before the others."""


@dataclass(frozen=True, slots=True)
class Later:
    """A place that is tried again at a time, in microseconds, or with None whenever its run is woken."""

    reason: Reason
    due_at: int | None


@dataclass(slots=True)
class Items:
    """The items of a `for_each`: their values once they are known, their states, and their calls."""

    states: list[StepState]
    rows: dict[int, CallRow] = field(default_factory=dict[int, "CallRow"])
    codes: dict[int, str] = field(default_factory=dict[int, str])
    values: Sequence[JsonValue] | None = None
    left: int = 0

    @classmethod
    def of(cls, count: int) -> Items:
        """So many, of which none has begun."""
        return cls([StepState.WAITING] * count, left=count)

    def put(self, number: int, state: StepState, row: CallRow | None, code: str | None) -> None:
        """How an item stands now."""
        self.left += (state not in ENDED) - (self.states[number] not in ENDED)
        self.states[number] = state
        if row is not None:
            self.rows[number] = row
        if code is not None:
            self.codes[number] = code

    @property
    def code(self) -> str | None:
        """The error code of the first of them that has one."""
        return self.codes[min(self.codes)] if self.codes else None

    @property
    def outputs(self) -> list[CallRow] | None:
        """Their calls, in their order, once all have succeeded."""
        if any(state is not StepState.SUCCEEDED for state in self.states):
            return None
        return [self.rows[number] for number in range(len(self.states))]

    @property
    def unstarted(self) -> list[int]:
        """Those that nothing was done about."""
        return [number for number, state in enumerate(self.states) if state is StepState.WAITING]


class Board:
    """One run as it stands. `reads` are the indexes of the steps that only read."""

    def __init__(
        self,
        run: RunRow,
        plan: Plan,
        reads: frozenset[int],
        outputs: Outputs,
        tell: Callable[[int, Step, StepState], None],
    ) -> None:
        self.run = run
        self.plan = plan
        self.reads = reads
        self.scheduler = Scheduler(nodes_of(plan, reads), plan.on_failure)
        self.items: dict[int, Items] = {}
        self.parked: dict[Place, CallRow] = {}
        self.elsewhere: dict[Place, CallRow] = {}
        self.held: dict[Place, CallRow] = {}
        self.later: dict[Place, Later] = {}
        self.back: list[Place] = []  # came back: their calls are to be looked at
        self.starting: list[Place] = []  # have no call, and may begin
        self.waiting: list[Place] = []  # may not start while the run is stopped or its authority has lapsed
        self.ready: list[int] = []
        self.notes: list[StepChange] = []
        self.codes: dict[str, str | None] = {}
        self.halt: Halt | None = None
        self.known = True  # whether its subject is known here (any more)
        self.done = 0
        self.effects = False  # whether anything has had an effect
        self.doubtful: list[str] = []  # calls that failed, and whether they had an effect is not known
        self._outputs = outputs
        self._tell = tell

    def begin(self, started: Iterable[int], ends: Iterable[End]) -> None:
        """Take up what is stored; with nothing stored, begin."""
        freed = self.scheduler.resume(started, ends)
        self.done = sum(self.scheduler.state(step.index) in ENDED for step in self.plan.steps) - len(freed.not_run)
        self._follows(freed)

    def take_ready(self, may: Callable[[int], bool]) -> list[int]:
        """The ready steps that may start, in declared order, started; the others stay ready."""
        ready = sorted(step for step in self.ready if self.scheduler.state(step) is StepState.READY)
        self.ready = [step for step in ready if not may(step)]
        taken = [step for step in ready if may(step)]
        for step in taken:
            self.scheduler.start(step)
        return taken

    def step_id(self, index: int) -> str:
        """The id of a step."""
        return self.plan.steps[index].id

    def is_read(self, place: Place) -> bool:
        """True if nothing at this place has an effect."""
        return place.step in self.reads

    def expand(self, step: int, values: Sequence[JsonValue]) -> None:
        """How many items a `for_each` has; none is an end, with an empty output."""
        known = self.items.get(step)
        if known is not None:
            known.values = values
            return
        items = self.items[step] = Items.of(len(values))
        items.values = values
        state = StepState.RUNNING if items.left else StepState.SUCCEEDED
        outcome = None if items.left else "success"
        self.notes.append(StepChange(self.step_id(step), WHOLE, state.value, outcome=outcome, items=len(values)))
        if not items.left:
            self._finish(step, state, [], None)

    def end_by_row(self, place: Place, row: CallRow) -> None:
        """A call has ended."""
        self.effects = self.effects or has_effect(row)
        if is_in_doubt(row):
            self.doubtful.append(row.call_id)
        self._end(place, state_of(row), row, row.code)

    def end_by_note(self, place: Place, change: StepChange) -> None:
        """A place has ended without a call that says so."""
        self.notes.append(change)
        self._end(place, StepState(change.state), None, change.code)

    def end_reused(self, place: Place, row: CallRow) -> None:
        """An earlier run's call stands for this place; what it did stays that run's."""
        change = StepChange(
            self.step_id(place.step), place.item, StepState.SUCCEEDED.value, row.outcome, reused=row.call_id
        )
        self.notes.append(change)
        self._end(place, StepState.SUCCEEDED, row, None)

    def end_halted(self, place: Place, halt: Halt) -> None:
        """A place has ended because nothing more is started."""
        self.end_by_note(place, self._halted(place, halt))

    def close(self, halt: Halt) -> None:
        """Start nothing more, or nothing but reads. Steps that have not begun end; what has begun comes back."""
        self.halt = halt
        if not halt.spares_reads:
            self.ready = []
            for step in self.scheduler.close(halt.state):
                self.notes.append(self._halted(Place(step), halt))
                self._outputs.ended(step, None, whole=False)
                self._told(step, halt.state)
        for place in [*self.held, *self.later]:
            if self.is_halted(place):
                self.forget(place)
                self.back.append(place)
        self.back += [place for place in self.waiting if self.is_halted(place)]
        self.waiting = [place for place in self.waiting if not self.is_halted(place)]

    def may_start(self, place: Place, now: int) -> bool:
        """True unless its subject has stopped the run, or is to renew its authority."""
        if self.run.stopped_at is not None and not self.is_read(place):
            return False
        return self.known and now < self.run.grant_expires_at

    def begin_item(self, place: Place) -> JsonValue:
        """An item is under way; its value."""
        items = self.items[place.step]
        assert items.values is not None, "expanded before its items begin"
        items.put(place.item, StepState.RUNNING, None, None)
        return items.values[place.item]

    def wait(self, waiting: dict[Place, W], place: Place, what: W) -> None:
        """It waits for this, unless it may not start any more."""
        if self.is_halted(place):
            self.back.append(place)
        else:
            waiting[place] = what

    def no_longer_held_by(self, call_id: str) -> None:
        """A call that held others up is known now."""
        for place, blocker in tuple(self.held.items()):
            if blocker.call_id == call_id:
                del self.held[place]
                self.back.append(place)

    def is_halted(self, place: Place) -> bool:
        """True if this place may not start any more."""
        return self.halt is not None and not (self.halt.spares_reads and self.is_read(place))

    def forget(self, place: Place) -> None:
        """It waits for nothing any more."""
        for waiting in (self.parked, self.elsewhere, self.held, self.later):
            waiting.pop(place, None)

    def keep(self, waiting: dict[Place, CallRow], place: Place, row: CallRow) -> None:
        """Its call waits for somebody, or is under way elsewhere."""
        waiting[place] = row
        if place.item != WHOLE:
            self.items[place.step].put(place.item, state_of(row), row, None)

    def states(self) -> dict[str, StepState]:
        """The state of each step, in declared order."""
        found = {step.id: self.scheduler.state(step.index) for step in self.plan.steps}
        for step, items in self.items.items():
            found[self.step_id(step)] = fold_items(items.states)
        for place, row in self.parked.items():
            if place.item == WHOLE:
                found[self.step_id(place.step)] = state_of(row)
        return found

    def _halted(self, place: Place, halt: Halt) -> StepChange:
        code = ErrorCode.CANCELLED.value if halt.state is StepState.CANCELLED else None
        return StepChange(
            self.step_id(place.step), place.item, halt.state.value, code=code, message=halt.message, reason=halt.reason
        )

    def _end(self, place: Place, state: StepState, row: CallRow | None, code: str | None) -> None:
        if place.item == WHOLE:
            self._finish(place.step, state, None if row is None else [row], code)
            return
        items = self.items[place.step]
        items.put(place.item, state, row, code)
        if not items.left:
            self._finish(place.step, fold_items(items.states), items.outputs, items.code)

    def _finish(self, step: int, state: StepState, rows: Sequence[CallRow] | None, code: str | None) -> None:
        self._outputs.ended(step, rows, whole=step in self.items)
        self.items.pop(step, None)
        self.codes[self.step_id(step)] = code
        self._told(step, state)
        because = self.halt.because if state is StepState.NOT_RUN and self.halt is not None else None
        self._follows(self.scheduler.finish(step, state, because))

    def _follows(self, freed: Freed) -> None:
        self.ready += freed.ready
        for found in freed.not_run:
            cause = self.step_id(found.because)
            ended = self.scheduler.state(found.because)
            message = f"Not run because of {cause}, which is {ended}."
            self.notes.append(
                StepChange(self.step_id(found.step), WHOLE, StepState.NOT_RUN.value, message=message, reason=cause)
            )
            self._outputs.ended(found.step, None, whole=False)
            self._told(found.step, StepState.NOT_RUN)

    def _told(self, step: int, state: StepState) -> None:
        self.done += 1
        self._tell(self.done, self.plan.steps[step], state)
