"""DAG-03: a plan with a bad graph is refused as a whole, every mistake by name, before anything of it is sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.kit.chains import View, chained, planned, problems, ran, states, step, told
from tests.kit.chains import plan as document
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
MOST = 5_000
BUSY_CPU_S = 2.0
"""Twice what it may take on a quiet machine: others share this one's caches while tests run."""


def write(name: str, **fields: Any) -> View:
    return step(name, "kit_write", {"ref": name}, **fields)


CYCLE = [write("first"), write("a", after=["c"]), write("b", after=["a"]), write("c", after=["b", "first"])]
BAD = [
    pytest.param(CYCLE, {"cycle"}, {"a", "b", "c"}, id="a cycle"),
    pytest.param([write("first"), write("a", after=["a"])], {"self_reference"}, {"a"}, id="a step behind itself"),
    pytest.param(
        [write("first"), step("a", "kit_echo", {"value": "${a.x}"})], {"self_reference"}, {"a"}, id="its own output"
    ),
    pytest.param(
        [write("first"), write("a", after=["nowhere"])], {"unknown_step"}, {"a", "nowhere"}, id="an unknown dependency"
    ),
    pytest.param(
        [write("first"), step("a", "kit_echo", {"value": "${nowhere.x}"})],
        {"unknown_step"}, {"a", "nowhere"}, id="the output of an unknown step",
    ),
    pytest.param([write("first"), write("a"), write("a")], {"duplicate_id"}, {"a"}, id="an id twice"),
    pytest.param(
        [write("first"), write("a", save_as="first")], {"duplicate_id"}, {"first"}, id="a saved name that is an id"
    ),
    pytest.param(
        [step("a", "kit_echo", {"value": "${b.number}"}), write("b", after=["a"])],
        {"cycle", "bad_reference"}, {"a", "b"}, id="the output of a descendant",
    ),
    pytest.param(
        [write("first"), write("b", after=["first"]), step("last", "kit_wriet", {"ref": "x"}, after=["b"])],
        {"unknown_tool"}, {"last", "kit_wriet"}, id="an unknown tool in the last step",
    ),
    pytest.param(
        [write("first"), step("a", "kit_echo", {"value": "${first.nmber}"})],
        {"bad_reference"}, {"a", "first"}, id="an output that the producer does not have",
    ),
    pytest.param(
        [step("o", "chain_order", {"order_id": "o"}), step("a", "kit_write", {"ref": "a", "amount": "${o.late}"})],
        {"bad_reference", "invalid_arguments"}, {"a", "amount"}, id="an output of another type",
    ),
    pytest.param(
        [write("first"), step("a", "kit_write", {"rev": "a"})], {"invalid_arguments"}, {"a", "rev"}, id="bad arguments"
    ),
]  # fmt: skip


def nothing_happened(shop: Workshop) -> None:
    assert shop.book.calls() == []
    assert shop.book.rows("SELECT * FROM runs") == []
    assert shop.book.rows("SELECT * FROM plans") == []
    assert [shop.world.count(ref) for ref in ("first", "a", "b", "c", "last")] == [0] * 5


@pytest.mark.promise("DAG-03")
@pytest.mark.parametrize("door", ["plan", "run"])
@pytest.mark.parametrize(("steps", "codes", "names"), BAD)
async def test_a_bad_graph_is_refused_by_name_before_anything_is_sent(
    shop: Workshop, steps: list[View], codes: set[str], names: set[str], door: str
) -> None:
    async with chained(shop) as (_, ask):
        if door == "plan":
            found = await problems(ask, document(*steps))
        else:
            refused = await ask("run", plan=document(*steps))
            assert refused["error"]["code"] == "plan_invalid"
            assert refused.get("run_id") is None
            found = told(refused)
        assert {one["code"] for one in found} <= codes
        said = " ".join(f"{one['step']} {one['field']} {one['message']}" for one in found)
        assert {name for name in names if name not in said} == set(), said
        nothing_happened(shop)


@pytest.mark.promise("DAG-03")
async def test_a_plan_without_a_step_is_refused(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        view = await ask("plan", **document())
        assert view["error"]["code"] in {"plan_invalid", "invalid_arguments"}
        nothing_happened(shop)


@pytest.mark.promise("DAG-03")
async def test_everything_that_is_wrong_is_told_at_once(shop: Workshop) -> None:
    steps = [
        write("a", after=["nowhere"]),
        step("b", "no_such_tool", {}),
        step("c", "kit_write", {"ref": 1}),
        step("d", "kit_echo", {"value": "${d}"}),
        write("e", after=["f"]),
        write("f", after=["e"]),
        step("g", "kit_echo", {"value": 1}, wehn=True),
    ]
    async with chained(shop) as (_, ask):
        found = {(one["step"], one["code"]) for one in await problems(ask, document(*steps))}
        assert found >= {
            ("a", "unknown_step"),
            ("b", "unknown_tool"),
            ("c", "invalid_arguments"),
            ("d", "self_reference"),
            ("g", "invalid_arguments"),
        }
        assert {one for one in found if one[1] == "cycle"}
        nothing_happened(shop)


@pytest.mark.promise("DAG-03")
async def test_a_valid_chain_that_is_listed_in_reverse_runs_in_the_order_of_its_dependencies(shop: Workshop) -> None:
    names = [f"s{number}" for number in range(8)]
    steps = [write(name, after=[before]) for name, before in zip(names[1:], names, strict=False)]
    async with chained(shop) as (at, ask):
        listed = document(*reversed([write(names[0]), *steps]))
        assert (await planned(ask, listed))["waves"] == [[name] for name in names]
        view = await ran(ask, listed)
        assert set(states(view).values()) == {"succeeded"}
        assert [one["id"] for one in view["steps"]] == names[::-1]
        assert list(view["outputs"]) == names[::-1], "in declared order"
        made = [view["outputs"][name]["number"] for name in names]
        assert made == sorted(made)
        assert [at.world.count(name) for name in names] == [1] * 8


def wide(number: int) -> list[View]:
    return [step(f"s{n}", "kit_echo", {"value": n}) for n in range(number)]


def long(number: int) -> list[View]:
    return [step("s0", "kit_echo", {"value": 0})] + [
        step(f"s{n}", "kit_echo", {"value": f"${{s{n - 1}}}"}) for n in range(1, number)
    ]


def layered(number: int) -> list[View]:
    """Layers of ten, each step behind three of the layer before, listed in reverse."""
    made = [
        step(f"s{n}", "kit_echo", {"value": n}, after=[f"s{n // 10 * 10 - 10 + k}" for k in (0, 4, 9)] if n > 9 else [])
        for n in range(number)
    ]
    return made[::-1]


def round_and_round(number: int) -> list[View]:
    """One cycle of all steps."""
    return [step(f"s{n}", "kit_echo", {"value": n}, after=[f"s{(n + 1) % number}"]) for n in range(number)]


@pytest.mark.promise("DAG-03")
@pytest.mark.parametrize("shape", [wide, long, layered, round_and_round])
async def test_five_thousand_steps_are_checked_at_a_cost_that_grows_with_their_number(
    shop: Workshop, shape: Callable[[int], list[View]]
) -> None:
    async with chained(shop) as (at, _):

        async def cost(number: int) -> float:
            steps = shape(number)
            began = time.process_time()
            view: View = (await at.app.runtime.plan(at.app.local, document(*steps))).wire()
            spent = time.process_time() - began
            if shape is round_and_round:
                assert [one["code"] for one in view["errors"]] == ["cycle"]
            else:
                assert view.get("error") is None, view
                assert len(cast("list[View]", view["steps"])) == number
            return spent

        few = await cost(MOST // 5)
        many = [await cost(MOST)]
        while len(many) < 4 and many[-1] >= BUSY_CPU_S:
            many.append(await cost(MOST))
    assert min(many) < BUSY_CPU_S
    assert min(many) < 5 * 3 * few, (few, many)


@pytest.mark.promise("DAG-03")
async def test_one_step_beyond_the_limit_is_too_large_and_a_lower_limit_is_kept(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        (found,) = await problems(ask, document(*wide(MOST + 1)))
        assert found["code"] == "too_large"
        assert "5,000" in found["message"] or "5000" in found["message"]
    async with chained(shop, limits="plan_steps = 3") as (_, ask):
        await planned(ask, document(*wide(3)))
        (found,) = await problems(ask, document(*wide(4)))
        assert (found["code"], "3" in found["message"]) == ("too_large", True)
