"""However many steps a run has: as many rows as fit, every step in a row or counted, no loud one lost in a fold."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.server.cli.run_folding import ENDED, LOUD, fold

STATES = sorted(LOUD | ENDED | {"waiting", "ready"})
STEPS = st.lists(st.sampled_from(STATES), max_size=120).map(
    lambda states: [{"id": f"s{n}", "state": state} for n, state in enumerate(states)]
)


@given(STEPS, st.integers(1, 60))
def test_every_step_is_in_one_row_or_left_out_and_rows_keep_their_order(steps: list[Any], most: int) -> None:
    folded = fold(steps, most)
    shown = [step for row in folded.rows for step in row.steps]
    assert len(folded.rows) <= most
    assert shown == [step for step in steps if step in shown]
    assert sorted((*shown, *folded.left_out), key=lambda step: int(step["id"][1:])) == steps


@given(STEPS, st.integers(1, 60))
def test_a_loud_step_stands_alone_and_is_left_out_only_where_loud_ones_fill_the_page(
    steps: list[Any], most: int
) -> None:
    folded = fold(steps, most)
    assert all(row.alone for row in folded.rows if row.loud)
    if any(step["state"] in LOUD for step in folded.left_out):
        assert all(row.loud for row in folded.rows)


def test_few_steps_are_not_folded() -> None:
    steps = [{"id": f"s{n}", "state": "succeeded"} for n in range(40)]
    assert all(row.alone for row in fold(steps, 40).rows)
    assert len(fold([*steps, {"id": "s40", "state": "succeeded"}], 40).rows) == 1
