"""What steps gave: kept while somebody needs it, read again where it is not in memory, and never made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counterfoil.ledger.rows import CallRow
from counterfoil.runtime.chain.outputs import Outputs
from counterfoil.runtime.plan.model import Plan, Step
from counterfoil.runtime.plan.values import UNSET, MissingPathError, resolve
from counterfoil.runtime.stepping import NO_OUTPUT
from tests.runtime.bench import call_row

pytestmark = pytest.mark.anyio


def a_step(index: int, name: str, args: Any = None, **more: Any) -> Step:
    return Step(name, index, "t", "1", "d" * 64, args=args or {}, **more)


PLAN = Plan(
    goal="g",
    steps=(
        a_step(0, "a", save_as="first"),
        a_step(1, "b", {"x": "${first.n}"}),
        a_step(2, "c", {"x": "${a.n}", "v": "${a.$evidence.external_version}"}),
        a_step(3, "d"),
    ),
    edges=((), (0,), (0,), ()),
)


class Reader:
    """Gives the output that a row's `args_shown` says, and counts."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def __call__(self, row: CallRow) -> Any:
        self.read.append(row.call_id)
        return json.loads(row.args_shown)


def settled(name: str, output: Any, **more: Any) -> CallRow:
    return call_row(name, 0)._replace(state="settled", outcome="success", args_shown=json.dumps(output), **more)


async def use(outputs: Outputs, index: int) -> Any:
    await outputs.load(index)
    return resolve(PLAN.steps[index].args, outputs.scope({}, "run_1"), "args")


async def test_an_output_is_kept_until_the_last_step_that_refers_to_it_has_ended() -> None:
    reader = Reader()
    outputs = Outputs(PLAN, reader)
    row = settled("a", {"n": 7}, evidence='{"external_version": "v3"}')
    outputs.gave(0, -1, row, {"n": 7})
    outputs.ended(0, [row], whole=False)
    assert await use(outputs, 1) == {"x": 7}
    outputs.ended(1, None, whole=False)
    assert await use(outputs, 2) == {"x": 7, "v": "v3"}
    outputs.ended(2, None, whole=False)
    assert (outputs.in_memory, reader.read) == (0, [])


async def test_what_nobody_refers_to_is_not_kept() -> None:
    outputs = Outputs(PLAN, Reader())
    row = settled("d", {"n": 1})
    outputs.gave(3, -1, row, {"n": 1})
    outputs.ended(3, [row], whole=False)
    assert outputs.in_memory == 0


async def test_after_a_restart_an_output_is_read_once_when_it_is_needed() -> None:
    reader = Reader()
    outputs = Outputs(PLAN, reader)
    outputs.ended(0, [settled("a", {"n": 7}, evidence='{"external_version": "v3"}')], whole=False)
    assert reader.read == []
    assert await use(outputs, 1) == {"x": 7}
    assert await use(outputs, 2) == {"x": 7, "v": "v3"}
    assert reader.read == ["a"]


async def test_the_output_of_a_for_each_is_the_list_of_its_items_in_their_order() -> None:
    plan = Plan(goal="g", steps=(a_step(0, "a"), a_step(1, "b", {"x": "${a}"})), edges=((), (0,)))
    outputs = Outputs(plan, Reader())
    rows = [settled("a0", 0), settled("a1", 1)]
    outputs.gave(0, 1, rows[1], 1)
    outputs.ended(0, rows, whole=True)
    await outputs.load(1)
    assert resolve({"x": "${a}"}, outputs.scope({}, "run_1"), "args") == {"x": [0, 1]}


@pytest.mark.parametrize("code", ["output_invalid", "tool_failed"])
async def test_a_step_that_failed_has_no_output_to_refer_to(code: str) -> None:
    reader = Reader()
    outputs = Outputs(PLAN, reader)
    outcome = "success" if code == "output_invalid" else "permanent_failure"
    outputs.ended(0, [settled("a", {"n": 7})._replace(code=code, outcome=outcome)], whole=False)
    with pytest.raises(MissingPathError):
        await use(outputs, 1)
    assert reader.read == []


async def test_a_step_without_an_output_is_unset_and_one_that_gave_null_is_null() -> None:
    outputs = Outputs(PLAN, Reader())
    row = settled("a", None)
    outputs.gave(0, -1, row, None)
    outputs.ended(0, [row], whole=False)
    assert outputs.scope({}, "run_1").output("a") is None
    other = Outputs(PLAN, Reader())
    other.gave(0, -1, row, NO_OUTPUT)
    other.ended(0, [row], whole=False)
    assert other.scope({}, "run_1").output("a") is UNSET
