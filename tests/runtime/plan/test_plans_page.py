"""Every example of the page about plans is tried: its plan checked, its references resolved, its mistakes refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from counterfoil.registry.budgets import Kind
from counterfoil.registry.vocabulary import JsonValue
from counterfoil.runtime.plan.checking import PlanLimits
from counterfoil.runtime.plan.problems import MOST, Code
from counterfoil.runtime.plan.reading import OPERATORS, PLAN_FIELDS, STEP_FIELDS
from counterfoil.runtime.plan.values import UNSET, Scope, resolve
from tests.runtime.plan.shop import ORDER_STEP, checked, plan, problems, step

PAGE = (Path(__file__).parents[3] / "docs/reference/plans.md").read_text()
BLOCKS: list[Any] = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
EXAMPLE, VALUES, CONDITIONS, REFUSED = BLOCKS
ROWS = re.findall(r"^\| `(\".*\")` \| `(.*)` \|$", PAGE, re.MULTILINE)


def section(title: str) -> list[str]:
    """The names in the first column of a section's table."""
    text = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([a-z_]+)`", cell)]


def test_the_plan_of_the_page_is_accepted_and_runs_in_the_order_that_is_told() -> None:
    assert checked(EXAMPLE).waves == (("order", "policy"), ("shipment",), ("refund",), ("tell",))


def test_every_field_and_code_is_on_the_page_and_no_other() -> None:
    assert sorted(section("The plan")) == sorted(PLAN_FIELDS)
    assert sorted(section("A step")) == sorted(STEP_FIELDS)
    assert sorted(section("What is checked")) == sorted(Code)
    assert all(f"`{word}`" in PAGE for word in [*OPERATORS, *(kind for kind in Kind if kind is not Kind.SUM)])


def test_the_limits_on_the_page_are_the_real_ones() -> None:
    limits = PlanLimits()
    for words in (
        f"1 to {limits.steps:,} steps",
        f"at most {limits.for_each} (`[limits]",
        f"at most {MOST} with the number",
    ):
        assert words in PAGE


@pytest.mark.parametrize(("written", "becomes"), ROWS)
def test_a_reference_becomes_what_the_page_says(written: str, becomes: str) -> None:
    scope = Scope(
        VALUES["input"],
        "run_1",
        lambda name: VALUES[name] if name == "order" else UNSET,
        lambda name: {"external_version": "v7"} if name == "order" else None,
        VALUES["item"],
    )
    assert resolve(json.loads(written), scope, "args") == json.loads(becomes)
    assert len(ROWS) == 14


@pytest.mark.parametrize("when", CONDITIONS)
def test_a_condition_of_the_page_is_accepted(when: JsonValue) -> None:
    shipment = step("shipment", "shipments_get", {"shipment_id": "s"})
    assert problems(plan(ORDER_STEP, shipment, step("a", "echo", when=when), input={"least": 3})) == []


@pytest.mark.parametrize(("code", "wrong"), REFUSED.items())
def test_a_mistake_of_the_page_is_refused_with_its_code(code: str, wrong: JsonValue) -> None:
    steps = [wrong if one["id"] == "policy" else one for one in EXAMPLE["steps"]]
    assert code in {one.code for one in problems({**EXAMPLE, "steps": steps})}
