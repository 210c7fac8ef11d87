"""Plans and runs under hostile documents and data: refused or bounded, in little time, and never a fault of ours."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from counterfoil.registry.vocabulary import JsonObject
from tests.kit.chains import View, chained, of, plan, problems, ran, states, step
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio

HUGE: Final = 10**400
"""More than any float, and fewer digits than the most that are read."""
CPU_S: Final = 15.0
"""Of this process; what these plans took before they were bounded is minutes."""


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({"timeout_s": HUGE}, {}),
        ({"retry": {"attempts": HUGE}}, {}),
        ({"retry": {"least_s": HUGE}}, {}),
        ({}, {"budget": {"calls": HUGE}}),
        ({}, {"budget": {"cost": HUGE}}),
        ({}, {"allow": {"max_cost": HUGE}}),
        ({}, {"deadline_s": HUGE}),
        ({}, {"max_parallel": HUGE}),
    ],
)
async def test_a_number_beyond_every_float_is_refused_as_any_other(shop: Workshop, fields: View, more: View) -> None:
    document = plan(step("a", "kit_read", {"ref": "a"}, **fields), **more)
    async with chained(shop) as (_, ask):
        view = await ask("run", plan=document, wait_s=0)
    assert view["error"]["code"] == "plan_invalid", view
    assert [one["code"] for one in view["errors"]] == ["invalid_arguments"], view


@pytest.mark.parametrize("version", [None, True, {"a": 1}, [7]])
async def test_a_call_that_is_to_be_conditional_is_never_sent_without_its_condition(
    shop: Workshop, version: Any
) -> None:
    async with chained(shop) as (at, ask):
        view = await ran(
            ask,
            plan(
                step("seen", "kit_echo", {"value": {"version": version}}),
                step("set", "chain_guarded", {"ref": "g"}, if_version="${seen.version}"),
            ),
        )
        assert states(view) == {"seen": "succeeded", "set": "failed"}
        assert of(view, "set")["error"]["code"] == "invalid_arguments"
        assert "if_version" in of(view, "set")["error"]["message"]
        assert at.world.count("g") == 0


async def test_a_number_as_a_version_is_its_text(shop: Workshop) -> None:
    async with chained(shop) as (at, ask):
        await ran(
            ask,
            plan(
                step("seen", "kit_echo", {"value": {"version": 7.0}}),
                step("set", "chain_guarded", {"ref": "g"}, if_version="${seen.version}"),
            ),
        )
        assert [one["if_version"] for one in at.world.effects("g")] == ["7"]


async def test_texts_made_of_one_large_value_are_bounded_together(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        view = await ran(
            ask,
            plan(
                step("big", "more_text", {"size": 900_000}),
                step("once", "kit_echo", {"value": "a ${big}"}),
                step("often", "kit_echo", {"value": ["a ${big}"] * 1_000}),
            ),
        )
    assert states(view) == {"big": "succeeded", "once": "succeeded", "often": "failed"}
    assert "more than 16,777,216 characters" in of(view, "often")["error"]["message"]


def _alike() -> JsonObject:
    names = ["n" * 85 + str(number) for number in range(20_000)]
    steps = [step("n" * 60 + str(number), "kit_read", {"ref": "a"}) for number in range(300)]
    return plan(*steps, step("z", "kit_read", {"ref": "a"}, after=names))


def _patterns() -> JsonObject:
    patterns = [f"x{number}*?[a-z]" for number in range(50_000)]
    return plan(*_steps(1_000), allow={"tools": patterns})


def _comparing(**when: Any) -> JsonObject:
    steps = [step(f"s{number}", "kit_read", {"ref": "a"}, when=when) for number in range(1_000)]
    return plan(*steps, input={"one": "q", "list": list(range(90_000))})


def _items() -> JsonObject:
    args = {"value": [0] * 9_000}
    return plan(*[step(f"s{number}", "kit_echo", args, for_each=[0] * 200) for number in range(10)])


def _steps(count: int) -> list[View]:
    return [step(f"s{number}", "kit_read", {"ref": "a"}) for number in range(count)]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(_alike(), id="unknown names that are told in the same words"),
        pytest.param(_patterns(), id="patterns of tools"),
        pytest.param(_comparing(ref="${input.one}", **{"in": "${input.list}"}), id="a search in a long list"),
        pytest.param(_comparing(ref="${input.list}", eq="${input.list}"), id="a comparison of long lists"),
        pytest.param(_items(), id="items of large arguments"),
    ],
)
async def test_a_plan_that_is_within_its_bounds_is_checked_in_bounded_time(
    shop: Workshop, document: JsonObject
) -> None:
    async with chained(shop) as (_, ask):
        before = time.process_time()
        await ask("plan", **document)
        assert time.process_time() - before < CPU_S


async def test_more_patterns_than_can_be_meant_are_too_large(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        found = await problems(ask, _patterns())
    assert found[0]["field"] == "allow.tools"
    assert found[0]["code"] == "too_large"
