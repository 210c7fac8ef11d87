"""A run played through on paper: the scheduler says what may start, the recorded outcomes say what came of it.

Steps are taken in the order in which they ended then. A person who was asked is taken to say the same again; where
nobody was asked, whoever would be asked now is taken to agree. What was never recorded ends nothing: it is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...ledger.run_rows import WHOLE
from ...registry.arguments import InvalidArgumentsError
from ...registry.vocabulary import ErrorCode, Verdict
from ..plan.graph import ordered
from ..plan.values import MissingPathError, NotBooleanError, ask_when, resolve
from .folding import fold_items, state_of
from .outputs import Outputs
from .reports import UNKNOWN, Ruling, Same, strictest
from .reusing import is_same
from .scheduler import Scheduler, nodes_of
from .states import ENDED, StepState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...ledger.rows import CallRow
    from ...ledger.run_rows import StepRow
    from ...registry.catalogue import Catalogue
    from ...registry.policy import Policy
    from ...registry.principal import Principal
    from ...registry.vocabulary import JsonObject, JsonValue
    from ..plan.model import Plan, Step
    from ..plan.values import Scope
    from .outputs import Read

_DECIDED_ANEW: Final = frozenset({ErrorCode.INVALID_ARGUMENTS.value, ErrorCode.DENIED.value})
"""What ended a step then and is found out again now."""


@dataclass(frozen=True, slots=True)
class Cast:
    """What a run is played with: the contracts and the rules of now, who asked for it, and what was recorded of it.

    `rows` and `notes` are by step and item.
    """

    catalogue: Catalogue
    policy: Policy
    who: Principal
    run_id: str
    input: JsonObject
    rows: Mapping[tuple[str, int], CallRow]
    notes: Mapping[tuple[str, int], StepRow]


@dataclass(slots=True)
class Played:
    """What becomes of a step, or of an item; a `state` of None is not known. `rows` are the calls that it stands on."""

    state: StepState | None
    ruling: Ruling | None = None
    arguments: Same | None = None
    rows: list[CallRow] | None = None


@dataclass(slots=True)
class Play:
    """One run. `play` once; then `steps` has what becomes of each that is come to."""

    cast: Cast
    plan: Plan
    read: Read
    steps: dict[int, Played] = field(default_factory=dict[int, Played])
    scheduler: Scheduler = field(init=False)
    _outputs: Outputs = field(init=False)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(nodes_of(self.plan, self._reads()), self.plan.on_failure)
        self._outputs = Outputs(self.plan, self.read)

    def _reads(self) -> frozenset[int]:
        found: set[int] = set()
        for step in self.plan.steps:
            entry = self.cast.catalogue.get(step.tool, step.version)
            if entry is not None and entry.contract.is_read:
                found.add(step.index)
        return frozenset(found)

    async def play(self) -> None:
        """Until nothing more is known to start."""
        ready, order = self._set_out(self.scheduler.begin().ready), self._order()
        while ready:
            index = min(ready, key=order.__getitem__)
            ready.discard(index)
            if self.scheduler.state(index) is StepState.READY:
                self.scheduler.start(index)
            elif self.scheduler.state(index) is not StepState.RUNNING:
                continue  # an end before it has taken it back
            step = self.plan.steps[index]
            await self._outputs.load(index)
            played = self.steps[index] = self._step(step)
            if played.state is not None and played.state in ENDED:
                self._outputs.ended(index, played.rows, whole=step.for_each is not None)
                ready |= self._set_out(self.scheduler.finish(index, played.state).ready)

    def _set_out(self, ready: Iterable[int]) -> set[int]:
        """Steps start side by side, before any of them ends; but for those that had not started when the run ended."""
        found = set(ready)
        for index in found:
            note = self.cast.notes.get((self.plan.steps[index].id, WHOLE))
            if note is None or note.state not in {StepState.NOT_RUN, StepState.CANCELLED}:
                self.scheduler.start(index)
        return found

    def states(self) -> dict[str, str]:
        """How each step would stand: as recorded, as it follows, or `unknown` where that hangs on what is not known."""
        found: dict[int, str] = {}
        for index in ordered(self.plan.edges):
            played, ended = self.steps.get(index), self.scheduler.state(index)
            if played is not None:
                found[index] = UNKNOWN if played.state is None else played.state.value
            elif ended in ENDED:
                found[index] = ended.value
            else:
                unknown = any(found[other] == UNKNOWN for other in self.plan.edges[index])
                found[index] = UNKNOWN if unknown else StepState.WAITING.value
        return {step.id: found[step.index] for step in self.plan.steps}

    def _order(self) -> dict[int, tuple[int, int]]:
        """When each step ended then; those of which nothing is recorded come last."""
        ended: dict[str, int] = {}
        for (step, _), row in self.cast.rows.items():
            ended[step] = max(ended.get(step, 0), row.settled_at or row.created_at)
        for (step, _), note in self.cast.notes.items():
            ended[step] = max(ended.get(step, 0), note.at)
        return {step.index: (ended.get(step.id, 1 << 62), step.index) for step in self.plan.steps}

    def _step(self, step: Step) -> Played:
        scope = self._outputs.scope(self.cast.input, self.cast.run_id)
        try:
            if step.when is not None and not ask_when(step.when, scope):
                return Played(StepState.SKIPPED)
            if step.for_each is None:
                return self._place(step, WHOLE, scope)
            found = resolve(step.for_each, scope, "for_each")
        except (MissingPathError, NotBooleanError):
            return Played(StepState.FAILED)
        return self._items(step, found) if isinstance(found, list) else Played(StepState.FAILED)

    def _items(self, step: Step, values: list[JsonValue]) -> Played:
        if not values:
            return Played(StepState.SUCCEEDED, rows=[])
        items = [self._item(step, number, value) for number, value in enumerate(values)]
        states = [item.state for item in items if item.state is not None]
        then = self.cast.notes.get((step.id, WHOLE))
        counted = then is None or then.items is None or then.items == len(values)
        state = fold_items(states) if len(states) == len(items) and counted else None
        arguments = _worst(items) if counted else "changed"
        rows = [row for item in items for row in item.rows or ()]
        whole = rows if state is StepState.SUCCEEDED and len(rows) == len(items) else None
        return Played(state, strictest(item.ruling for item in items), arguments, whole)

    def _item(self, step: Step, number: int, value: JsonValue) -> Played:
        scope = self._outputs.scope(self.cast.input, self.cast.run_id, value)
        try:
            return self._place(step, number, scope)
        except MissingPathError:
            return Played(StepState.FAILED)

    def _place(self, step: Step, item: int, scope: Scope) -> Played:
        """One call: its arguments as they are now, what policy says of them, and what came of it then."""
        entry = self.cast.catalogue.get(step.tool, step.version)
        if entry is None:
            return Played(None)
        resolved = resolve(step.args, scope, "args")
        try:
            arguments = entry.contract.takes.effective(resolved)
        except InvalidArgumentsError:
            return Played(StepState.FAILED)
        decision = self.cast.policy.decide(entry.contract, arguments.value, self.cast.who)
        ruling = Ruling.of(decision)
        if decision.verdict is Verdict.DENY:
            return Played(StepState.FAILED, ruling)
        row = self.cast.rows.get((step.id, item))
        if row is None:
            ended = self._ended_without_call(step, item)
            return Played(None, ruling, UNKNOWN) if ended is None else Played(ended)
        if not is_same(self.cast.catalogue, step, resolved, row):
            return Played(None, ruling, "changed")
        return Played(_came_to(row, decision.verdict), ruling, "same", [row])

    def _ended_without_call(self, step: Step, item: int) -> StepState | None:
        """How a place ended of which no call says it, unless that is found out anew; None if nothing is known."""
        note = self.cast.notes.get((step.id, item))
        if note is None or note.code in _DECIDED_ANEW or note.state == StepState.SKIPPED:
            return None
        if StepState(note.state) not in ENDED or note.reason in self._before(step):
            return None
        return StepState(note.state)

    def _before(self, step: Step) -> frozenset[str]:
        """All steps that it waits for, however far away: had one of these ended well, it would have been come to."""
        found: set[int] = set()
        waiting = [*self.plan.edges[step.index]]
        while waiting:
            if (other := waiting.pop()) not in found:
                found.add(other)
                waiting += self.plan.edges[other]
        return frozenset(self.plan.steps[other].id for other in found)


def _worst(items: list[Played]) -> Same | None:
    """What is to be said of the arguments of several items."""
    said = {item.arguments for item in items}
    if "changed" in said:
        return "changed"
    if UNKNOWN in said:
        return UNKNOWN
    return "same" if "same" in said else None


def _came_to(row: CallRow, verdict: Verdict) -> StepState | None:
    """What came of the same call then, if it would be sent, or asked about, now as it was."""
    if row.code == ErrorCode.DENIED.value:
        return None  # it was never sent, and would be now
    state = state_of(row)
    if state is StepState.REJECTED and verdict is not Verdict.APPROVE:
        return None  # nobody would be asked now
    return state
