"""Which steps may start, and which never will. Pure graph code: told each end, it says what follows from it.

A step is counted down as its dependencies end; the work over a whole run is linear in its edges. No ledger, no
clock and no await live here, nor anything about how a call is made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..plan.model import Needs, OnPlanFailure, OnStepFailure
from .states import ENDED, FAILING, StepState

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..plan.model import Plan

_UNSTARTED: Final = frozenset({StepState.WAITING, StepState.READY})


@dataclass(frozen=True, slots=True)
class Node:
    """What of a step decides when it may run. `deps` are indexes, ascending."""

    deps: tuple[int, ...]
    needs: Needs = Needs.SUCCESS
    on_failure: OnStepFailure = OnStepFailure.FAIL
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class NotRun:
    """A step that will not run, and the step whose own end is the cause, however far away."""

    step: int
    because: int


@dataclass(frozen=True, slots=True)
class Freed:
    """What follows from an end: the steps that may start now, in declared order, and those that never will."""

    ready: tuple[int, ...] = ()
    not_run: tuple[NotRun, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """How a step ended; `because` is the causing step of one that was not run."""

    step: int
    state: StepState
    because: int | None = None


class AlreadyEndedError(Exception):
    """A step was said to end twice, or to start after its end. It is always a fault of ours."""


def nodes_of(plan: Plan, reads: Collection[int]) -> tuple[Node, ...]:
    """The graph of a plan; `reads` are the indexes of the steps whose tool only reads."""
    return tuple(Node(plan.edges[step.index], step.needs, step.on_failure, step.index in reads) for step in plan.steps)


class Scheduler:
    """The graph of one run. `begin` once, then `start` and `finish` as it happens."""

    def __init__(self, nodes: Sequence[Node], on_failure: OnPlanFailure = OnPlanFailure.STOP) -> None:
        self._nodes = nodes
        self._compensates = on_failure is OnPlanFailure.COMPENSATE
        self._states = [StepState.WAITING] * len(nodes)
        self._missing = [len(node.deps) for node in nodes]
        self._because: dict[int, int] = {}
        self._dependents: list[list[int]] = [[] for _ in nodes]
        for index, node in enumerate(nodes):
            for dep in node.deps:
                self._dependents[dep].append(index)
        self._left = len(nodes)
        self._closed = False
        self.failed_first: int | None = None

    def begin(self) -> Freed:
        """The steps that depend on nothing."""
        return self._freed([index for index, missing in enumerate(self._missing) if missing == 0], [])

    @property
    def over(self) -> bool:
        """True once every step has ended."""
        return self._left == 0

    def state(self, step: int) -> StepState:
        """`waiting`, `ready`, `running` for everything that was started, or its end."""
        return self._states[step]

    def because(self, step: int) -> int | None:
        """The step that caused this one not to run."""
        return self._because.get(step)

    def start(self, step: int) -> None:
        """A ready step is under way from now on: no failure elsewhere takes it back."""
        if self._states[step] in ENDED:
            raise AlreadyEndedError(f"step {step} was started but is {self._states[step]}")
        self._states[step] = StepState.RUNNING

    def finish(self, step: int, state: StepState, because: int | None = None) -> Freed:
        """A step ended; what follows from that, at once and however far it reaches.

        Raises:
            AlreadyEndedError: it had ended.
        """
        if state not in ENDED or self._states[step] in ENDED:
            raise AlreadyEndedError(f"step {step} is {self._states[step]} and was said to end as {state}")
        ready: list[int] = []
        not_run: list[NotRun] = []
        queue = deque([End(step, state, because)])
        while queue:
            end = queue.popleft()
            if end.step == step or self._states[end.step] in _UNSTARTED:
                self._take(end, queue, ready, not_run)
        return self._freed(ready, [found for found in not_run if found.step != step])

    def close(self, state: StepState) -> tuple[int, ...]:
        """Nothing starts any more: every step that was not started ends so. The steps, in declared order."""
        self._closed = True
        closed = tuple(index for index, was in enumerate(self._states) if was in _UNSTARTED)
        for index in closed:
            self._states[index] = state
        self._left -= len(closed)
        return closed

    def resume(self, started: Iterable[int], ends: Iterable[End]) -> Freed:
        """Live through what is stored, in place of `begin`: the steps that have started, and the ends in their order.

        What is returned is everything that is ready now, and every step that is not run and is not among the ends.
        """
        self.begin()
        known = list(ends)
        for step in {*started, *(end.step for end in known)}:
            self.start(step)  # what is stored stands, whatever the other ends would have made of it
        not_run: list[NotRun] = []
        for end in known:
            not_run += self.finish(end.step, end.state, end.because).not_run
        ready = tuple(index for index, state in enumerate(self._states) if state is StepState.READY)
        return Freed(ready, tuple(sorted(not_run, key=lambda found: found.step)))

    def _take(self, end: End, queue: deque[End], ready: list[int], not_run: list[NotRun]) -> None:
        self._states[end.step] = end.state
        self._left -= 1
        if end.state is StepState.NOT_RUN and end.because is not None:
            self._because[end.step] = end.because
            not_run.append(NotRun(end.step, end.because))
        cause = end.step if end.because is None else end.because
        fails = end.state in FAILING and self._nodes[end.step].on_failure is OnStepFailure.FAIL
        if fails and self.failed_first is None:
            self.failed_first = end.step
            if self._compensates:
                queue.extend(End(other, StepState.NOT_RUN, end.step) for other in self._unstarted_effects())
        for other in self._dependents[end.step]:
            self._missing[other] -= 1
            if self._states[other] not in _UNSTARTED:
                continue
            if end.state is not StepState.SUCCEEDED and self._nodes[other].needs is Needs.SUCCESS:
                queue.append(End(other, StepState.NOT_RUN, cause))
            elif self._missing[other] == 0:
                ready.append(other)

    def _unstarted_effects(self) -> list[int]:
        return [
            index for index, state in enumerate(self._states) if state in _UNSTARTED and not self._nodes[index].is_read
        ]

    def _freed(self, ready: list[int], not_run: list[NotRun]) -> Freed:
        if self._closed:
            return Freed()
        may = sorted(index for index in ready if self._states[index] is StepState.WAITING)
        for index in may:
            self._states[index] = StepState.READY
        return Freed(tuple(may), tuple(sorted(not_run, key=lambda found: found.step)))
