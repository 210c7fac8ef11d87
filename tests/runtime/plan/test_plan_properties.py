"""Properties of whole plans: any JSON is checked or refused, orders hold in random graphs, and nothing is quadratic."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.registry.vocabulary import JsonObject, JsonValue
from counterfoil.runtime.plan.checking import check_plan
from counterfoil.runtime.plan.problems import LONGEST, MOST, Code, PlanInvalidError
from counterfoil.runtime.plan.values import UNSET, MissingPathError, NotBooleanError, Scope, ask_when, resolve
from tests.runtime.plan.shop import ALICE, ORDER_STEP, plan, rules, step

RULES = rules()
NAMES = st.sampled_from(["a", "b", "order", "saved", "input", "item", "run", ""])
REFERENCE = st.builds(
    lambda root, path, default: f"${{{root}{path}{default}}}",
    NAMES,
    st.sampled_from(
        ["", ".x", ".total", ".contacts", ".id", "[0]", "[0].email", '["k"]', ".$evidence.request_id", ".", "[x]"]
    ),
    st.sampled_from(["", "", " ?? 1", ' ?? "x"', " ?? null", " ?? []", " ?? "]),
)
TEXT = REFERENCE | st.text(max_size=5) | st.builds("{}{} $${{".format, REFERENCE, REFERENCE)
WORDS = st.sampled_from(["ref", "gt", "in", "tool", "args"])
LEAF = st.none() | st.booleans() | st.integers(-3, 300) | st.floats(allow_nan=False) | TEXT
JSON = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | WORDS, inner, max_size=3),
    max_leaves=6,
)
TOOLS = st.sampled_from(["orders_get", "orders_refund", "notify_send", "echo", "shipments_get", "nope", "run"])
ARGS = st.fixed_dictionaries({}, optional=dict.fromkeys(("order_id", "amount", "note", "to", "text", "x"), JSON))
STEP: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"id": NAMES, "tool": TOOLS},
    optional={
        "args": ARGS | JSON,
        "depends_on": st.lists(NAMES, max_size=2) | JSON,
        "needs": st.sampled_from(["success", "settled", 1]),
        "save_as": NAMES | JSON,
        "for_each": JSON,
        "when": JSON,
        "if_version": JSON,
        "timeout_s": JSON,
        "retry": JSON,
        "on_failure": st.sampled_from(["fail", "continue"]),
        "compensate": st.sampled_from(["default", "none"])
        | st.fixed_dictionaries({"tool": TOOLS, "args": ARGS})
        | JSON,
        "version": st.sampled_from(["1", "2"]),
        "zzz": JSON,
    },
)
PLAN: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"goal": st.text(min_size=1, max_size=3), "steps": st.lists(STEP | JSON, min_size=1, max_size=4)},
    optional={
        "input": st.dictionaries(st.sampled_from(["x", "total", "contacts", "id"]), JSON),
        "on_failure": st.sampled_from(["stop", "compensate"]),
        "compensation": st.sampled_from(["best_effort", "strict"]),
        "budget": st.dictionaries(st.sampled_from(["calls", "writes", "cost"]), JSON) | JSON,
        "allow": JSON,
        "max_parallel": JSON,
    },
)


@given(PLAN | JSON)
def test_any_json_is_a_plan_or_refused_with_problems_of_the_stated_kinds(document: JsonValue) -> None:
    try:
        found = check_plan(document, ALICE, RULES)
    except PlanInvalidError as error:
        _is_told_well(error)
    else:
        assert found.plan.steps
        _resolves_or_says_why(found.plan.steps, found.input)


def _is_told_well(error: PlanInvalidError) -> None:
    assert 0 < len(error.problems) <= MOST
    for one in error.problems:
        assert one.code in list(Code)
        assert len(one.message) <= LONGEST


def _resolves_or_says_why(steps: Any, given_input: JsonObject) -> None:
    """An accepted plan has no template that a run could not even read."""
    scope = Scope(given_input, "run_1", lambda _: UNSET, lambda _: None, {})
    for one in steps:
        for template in (one.args, one.for_each, one.if_version):
            try:
                resolve(template, scope, "args")
            except MissingPathError:
                continue
        if one.when is not None:
            try:
                ask_when(one.when, scope)
            except (MissingPathError, NotBooleanError):
                continue


@settings(max_examples=40)
@given(st.integers(1, 10), st.randoms(use_true_random=False))
def test_waves_of_random_plans_respect_every_edge_and_not_the_order_of_declaration(
    size: int, chance: random.Random
) -> None:
    steps: list[JsonValue] = []
    for n in range(size):
        earlier = [f"s{m}" for m in range(n) if chance.random() < 0.4]
        by_reference, stated = earlier[::2], list[JsonValue](earlier[1::2])
        steps.append(step(f"s{n}", "echo", {"x": [f"${{{name}}}" for name in by_reference]}, depends_on=stated))
    found = check_plan(plan(*steps), ALICE, RULES)
    wave = {one.id: one.wave for one in found.predicted}
    for one in found.plan.steps:
        before = [wave[found.plan.steps[at].id] for at in found.plan.edges[one.index]]
        assert wave[one.id] == max(before, default=-1) + 1
    chance.shuffle(steps)
    again = check_plan(plan(*steps), ALICE, RULES)
    assert {one.id: one.wave for one in again.predicted} == wave


def chain(size: int) -> JsonObject:
    return plan(
        *[step(f"s{n}", "orders_get", {"order_id": "x"}, depends_on=[f"s{n - 1}"] if n else []) for n in range(size)]
    )


def fan(size: int) -> JsonObject:
    inner = [f"s{n}" for n in range(size - 1)]
    return plan(*[step(name, "echo", depends_on=["s0"] if name != "s0" else []) for name in inner],
                step("last", "echo", depends_on=list[JsonValue](inner)))  # fmt: skip


def referring(size: int) -> JsonObject:
    steps = [step(f"s{n}", "orders_get", {"order_id": f"${{s{n - 1}.shipment_id}}"}) for n in range(1, size)]
    return plan(step("s0", "orders_get", {"order_id": "x"}), *steps)


def wrong(size: int) -> JsonObject:
    steps = [
        step(f"s{n}", f"orders_gett{n}", {"order": f"${{s{n - 1}.q}}"}, dependson=1, depends_on=[f"x{n}"])
        for n in range(size)
    ]
    return plan(*steps)


def misfits(size: int) -> JsonObject:
    steps = [step(f"s{n}", "orders_refund", {"order_id": f"${{s{n - 1}.total}}", "amuont": n}) for n in range(1, size)]
    return plan({**ORDER_STEP, "id": "s0"}, *steps)


def ring(size: int) -> JsonObject:
    return plan(*[step(f"s{n}", "echo", depends_on=[f"s{(n + 1) % size}"]) for n in range(size)])


def calls_of(document: JsonObject) -> int:
    """Python functions that one check enters: the same on every machine."""
    count = 0

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        check_plan(document, ALICE, RULES)
    except PlanInvalidError:
        pass
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("shape", [chain, fan, referring, wrong, misfits, ring])
def test_four_times_the_steps_cost_about_four_times_as_much(shape: Callable[[int], JsonObject]) -> None:
    calls_of(shape(50))
    small, large = calls_of(shape(150)), calls_of(shape(600))
    assert large < 5 * small
    assert large < 900 * 600


def test_five_thousand_steps_are_handled_and_one_more_is_refused() -> None:
    assert len(check_plan(chain(5_000), ALICE, RULES).waves) == 5_000
    with pytest.raises(PlanInvalidError) as caught:
        check_plan(chain(5_001), ALICE, RULES)
    assert [one.code for one in caught.value.problems] == ["too_large"]
    assert caught.value.more == 0
