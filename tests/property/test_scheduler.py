"""Random graphs, ends and interruptions: what the scheduler lets start, what it never will, and that it always ends.

The drawn story decides in which order ready steps start and running ones end, and where the process dies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.runtime.chain.scheduler import AlreadyEndedError, End, Freed, Node, Scheduler
from counterfoil.runtime.chain.states import ENDED, FAILING, StepState
from counterfoil.runtime.plan.model import Needs, OnPlanFailure, OnStepFailure

S = StepState
OWN_ENDS: Final = (S.SUCCEEDED, S.SUCCEEDED, S.SUCCEEDED, S.FAILED, S.REJECTED, S.SKIPPED, S.CANCELLED)


@dataclass
class Story:
    """One life of a graph: what happened, in its order, and what the scheduler said to it."""

    nodes: tuple[Node, ...]
    on_failure: OnPlanFailure
    fates: tuple[StepState, ...]
    scheduler: Scheduler
    ready: list[int] = field(default_factory=list[int])
    running: list[int] = field(default_factory=list[int])
    ends: list[End] = field(default_factory=list[End])

    def take(self, freed: Freed) -> None:
        assert list(freed.ready) == sorted(freed.ready), "ready steps come in declared order"
        for found in freed.not_run:
            assert found.step not in self.running, "what runs is never taken back"
            self.ready = [step for step in self.ready if step != found.step]
            self.ends.append(End(found.step, S.NOT_RUN, found.because))
        for step in freed.ready:
            self.may_start(step)
        self.ready += freed.ready

    def may_start(self, step: int) -> None:
        ended = {end.step: end.state for end in self.ends}
        node = self.nodes[step]
        assert all(dep in ended for dep in node.deps), "nothing starts before what it depends on has ended"
        if node.needs is Needs.SUCCESS:
            assert all(ended[dep] is S.SUCCEEDED for dep in node.deps)

    def end(self, step: int) -> None:
        self.running.remove(step)
        self.ends.append(End(step, self.fates[step]))
        self.take(self.scheduler.finish(step, self.fates[step]))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Node, ...]:
    """Up to a dozen steps, each depending on some of the earlier ones, then shuffled: declared order means nothing."""
    count = draw(st.integers(1, 12))
    order = draw(st.permutations(range(count)))
    place = {step: order[step] for step in range(count)}
    nodes: dict[int, Node] = {}
    for step in range(count):
        earlier = draw(st.sets(st.integers(0, step - 1), max_size=4)) if step else set[int]()
        nodes[place[step]] = Node(
            deps=tuple(sorted(place[other] for other in earlier)),
            needs=draw(st.sampled_from(Needs)),
            on_failure=draw(st.sampled_from(OnStepFailure)),
            is_read=draw(st.booleans()),
        )
    return tuple(nodes[index] for index in range(count))


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """A graph whose own ends are drawn."""
    nodes = draw(graphs())
    fates = tuple(draw(st.sampled_from(OWN_ENDS)) for _ in nodes)
    on_failure = draw(st.sampled_from(OnPlanFailure))
    return Story(nodes, on_failure, fates, Scheduler(nodes, on_failure))


def advance(story: Story, data: st.DataObject, limit: int | None = None) -> None:
    """Start and end steps in a drawn order until nothing is left, or for so many moves."""
    moves = 0
    while (story.ready or story.running) and moves != limit:
        moves += 1
        if story.ready and (not story.running or data.draw(st.booleans())):
            step = story.ready.pop(0)
            story.scheduler.start(step)
            story.running.append(step)
        else:
            story.end(data.draw(st.sampled_from(story.running)))


@given(stories(), st.data())
def test_every_step_ends_and_none_starts_before_what_it_depends_on(story: Story, data: st.DataObject) -> None:
    story.take(story.scheduler.begin())
    advance(story, data)
    assert story.scheduler.over
    assert sorted(end.step for end in story.ends) == list(range(len(story.nodes))), "each ends once"


@given(stories(), st.data())
def test_whoever_is_not_run_names_a_step_whose_own_end_is_the_cause(story: Story, data: st.DataObject) -> None:
    story.take(story.scheduler.begin())
    advance(story, data)
    states = {end.step: end.state for end in story.ends}
    for end in story.ends:
        if end.state is S.NOT_RUN:
            assert end.because is not None
            assert states[end.because] not in {S.SUCCEEDED, S.NOT_RUN}
            assert story.scheduler.because(end.step) == end.because


@given(stories(), st.data())
def test_a_step_whose_dependencies_all_succeeded_runs_unless_a_failure_elsewhere_is_compensated(
    story: Story, data: st.DataObject
) -> None:
    story.take(story.scheduler.begin())
    advance(story, data)
    states = {end.step: end.state for end in story.ends}
    for step, node in enumerate(story.nodes):
        unmet = node.needs is Needs.SUCCESS and any(states[dep] is not S.SUCCEEDED for dep in node.deps)
        undone = story.on_failure is OnPlanFailure.COMPENSATE and not node.is_read
        assert (states[step] is S.NOT_RUN) == unmet or (undone and states[step] is S.NOT_RUN)


@given(stories(), st.data())
def test_after_the_first_failure_of_a_compensated_plan_no_effect_starts(story: Story, data: st.DataObject) -> None:
    story.take(story.scheduler.begin())
    while story.ready or story.running:
        failed = any(
            end.state in FAILING and story.nodes[end.step].on_failure is OnStepFailure.FAIL for end in story.ends
        )
        if failed and story.on_failure is OnPlanFailure.COMPENSATE:
            assert all(story.nodes[step].is_read for step in story.ready)
        advance(story, data, limit=1)


@given(stories(), st.data())
def test_a_resumed_graph_goes_on_as_if_nothing_had_happened(story: Story, data: st.DataObject) -> None:
    story.take(story.scheduler.begin())
    advance(story, data, limit=data.draw(st.integers(0, 2 * len(story.nodes))))
    again = Scheduler(story.nodes, story.on_failure)
    lost = data.draw(st.sets(st.sampled_from([end.step for end in story.ends if end.state is S.NOT_RUN] or [-1])))
    stored = [end for end in story.ends if end.step not in lost]
    own = [end.step for end in story.ends if end.state is not S.NOT_RUN]
    freed = again.resume([*story.running, *own], stored)
    assert list(freed.ready) == sorted(story.ready)
    assert {found.step for found in freed.not_run} == lost - {-1}
    assert [again.state(step) for step in range(len(story.nodes))] == [
        story.scheduler.state(step) for step in range(len(story.nodes))
    ]
    assert [again.because(step) for step in range(len(story.nodes))] == [
        story.scheduler.because(step) for step in range(len(story.nodes))
    ]
    assert again.failed_first == story.scheduler.failed_first


@given(stories(), st.data())
def test_a_closed_graph_starts_nothing_and_is_over_when_what_ran_has_ended(story: Story, data: st.DataObject) -> None:
    story.take(story.scheduler.begin())
    advance(story, data, limit=data.draw(st.integers(0, 2 * len(story.nodes))))
    closed = story.scheduler.close(S.CANCELLED)
    ended = {end.step for end in story.ends}
    assert set(closed) == set(range(len(story.nodes))) - ended - set(story.running)
    story.ready.clear()
    for step in tuple(story.running):
        story.running.remove(step)
        assert story.scheduler.finish(step, S.SUCCEEDED) == Freed()
    assert story.scheduler.over


def test_a_step_ends_once() -> None:
    scheduler = Scheduler((Node(()),))
    scheduler.begin()
    scheduler.finish(0, S.FAILED)
    with pytest.raises(AlreadyEndedError):
        scheduler.finish(0, S.SUCCEEDED)
    with pytest.raises(AlreadyEndedError):
        scheduler.start(0)


def test_an_end_costs_no_more_than_what_depends_on_it() -> None:
    """A chain of 5,000 and a fan of 5,000 are walked in well under the time of one quadratic pass."""
    chain = Scheduler([Node((index - 1,) if index else ()) for index in range(5_000)])
    ready = list(chain.begin().ready)
    while ready:
        chain.start(ready[0])
        ready = list(chain.finish(ready[0], S.SUCCEEDED).ready)
    assert chain.over
    fan = Scheduler([Node(()), *[Node((0,)) for _ in range(5_000)]])
    fan.begin()
    assert len(fan.finish(0, S.FAILED).not_run) == 5_000
    assert fan.over


def test_ends_are_what_the_states_say() -> None:
    assert FAILING < ENDED
