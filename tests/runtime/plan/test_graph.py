"""Orders, waves and cycles of random graphs."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.runtime.plan.graph import cycles, ordered, waves

Edges = list[tuple[int, ...]]


@st.composite
def dags(draw: st.DrawFn) -> Edges:
    size = draw(st.integers(1, 12))
    return [tuple(sorted(draw(st.sets(st.integers(0, step - 1))) if step else ())) for step in range(size)]


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    size = draw(st.integers(1, 9))
    drawn = [draw(st.sets(st.integers(0, size - 1))) for _ in range(size)]
    return [tuple(sorted(before - {step})) for step, before in enumerate(drawn)]


@given(dags())
def test_each_step_comes_after_all_that_it_waits_for_and_in_a_later_wave(edges: Edges) -> None:
    order, wave = ordered(edges), waves(edges)
    assert sorted(order) == list(range(len(edges)))
    place = {step: index for index, step in enumerate(order)}
    for step, before in enumerate(edges):
        assert all(place[one] < place[step] for one in before)
        assert wave[step] == max((wave[one] + 1 for one in before), default=0)
    assert cycles(edges) == []


@given(dags(), st.randoms(use_true_random=False))
def test_waves_do_not_depend_on_the_order_of_declaration(edges: Edges, chance: random.Random) -> None:
    renamed = list(range(len(edges)))
    chance.shuffle(renamed)
    moved: Edges = [()] * len(edges)
    for step, before in enumerate(edges):
        moved[renamed[step]] = tuple(sorted(renamed[one] for one in before))
    there = waves(moved)
    assert waves(edges) == [there[renamed[step]] for step in range(len(edges))]


@given(graphs())
def test_each_cycle_is_a_real_one_and_there_is_one_exactly_where_steps_cannot_be_ordered(edges: Edges) -> None:
    found = cycles(edges)
    assert bool(found) == (len(ordered(edges)) < len(edges))
    for way in found:
        assert len(set(way)) == len(way) > 1
        for step, waits_for in zip(way, [*way[1:], way[0]], strict=True):
            assert waits_for in edges[step]
    assert len({step for way in found for step in way}) == sum(map(len, found))


def test_a_chain_of_many_steps_needs_no_recursion() -> None:
    size = 20_000
    assert waves([(step - 1,) if step else () for step in range(size)])[-1] == size - 1
    assert len(cycles([((step + 1) % size,) for step in range(size)])[0]) == size
