"""The worked plan of `plan_chain` and the references that descriptions teach, judged by the real plan checker."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from counterfoil.registry.catalogue import Catalogue
from counterfoil.registry.policy import Policy
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import Effect, Verdict
from counterfoil.runtime.plan.checking import CheckedPlan, PlanRules, check_plan
from counterfoil.runtime.plan.problems import PlanInvalidError
from counterfoil.server.prompts import example
from counterfoil.tools.decorator import tools_of
from counterfoil.tools.threads import Threads
from tests.kit import order_tools
from tests.server.test_prompts import calls_in

ME = Principal("local", "me", scopes=frozenset({"*"}))


@pytest.fixture
def rules() -> PlanRules:
    catalogue = Catalogue()
    for tool in tools_of(order_tools):
        for contract, adapter in tool.registrations(Threads(1)):
            catalogue.register(contract, adapter)
    verdicts = {Effect.READ: Verdict.ALLOW, Effect.WRITE: Verdict.ALLOW, Effect.DESTRUCTIVE: Verdict.APPROVE}
    return PlanRules(catalogue, Policy([], verdicts))


def checked(rules: PlanRules, document: Any) -> CheckedPlan:
    try:
        return check_plan(document, ME, rules)
    except PlanInvalidError as error:
        raise AssertionError([problem.wire() for problem in error.problems]) from None


def test_the_example_is_a_plan_that_can_run_and_shows_what_it_teaches(rules: PlanRules) -> None:
    found = checked(rules, example.PLAN)
    assert found.waves == (("order", "policy"), ("shipment",), ("refund",), ("tell",))
    assert {step["id"]: step["effect"] for step in cast("list[Any]", found.wire()["steps"])} == {
        "order": "read",
        "policy": "read",
        "shipment": "read",
        "refund": "destructive",
        "tell": "write",
    }


def test_what_is_printed_is_what_is_judged() -> None:
    assert calls_in("plan " + example.shown()) == [("plan", example.PLAN)]


@pytest.mark.parametrize(
    ("place", "value", "code"),
    [
        (("args", "amount"), "${order.totl}", "bad_reference"),
        (("args", "amount"), "${ordr.total}", "unknown_step"),
        (("args", "amount"), "about ${order.total}", "bad_reference"),
        (("depends_on",), ["tell"], "cycle"),
    ],
)
def test_an_example_with_a_mistake_would_be_found(
    rules: PlanRules, place: tuple[str, ...], value: object, code: str
) -> None:
    document: Any = copy.deepcopy(example.PLAN)
    target = document["steps"][3]
    for name in place[:-1]:
        target = target[name]
    target[place[-1]] = value
    with pytest.raises(PlanInvalidError) as caught:
        check_plan(document, ME, rules)
    assert code in [problem.code for problem in caught.value.problems]


def test_the_references_of_the_description_of_plan_are_taken(rules: PlanRules) -> None:
    steps = [
        {"id": "order", "tool": "orders_get", "args": {"order_id": "${input.x}"}},
        {"id": "refund", "tool": "orders_refund", "args": {"order_id": "o", "amount": "${order.total ?? 0}"}},
        {
            "id": "tell",
            "tool": "notify_send",
            "for_each": "${order.contacts}",
            "args": {"to": "${item.email}", "text": "t"},
            "needs": "settled",
            "save_as": "told",
            "on_failure": "continue",
        },
    ]
    assert checked(rules, {"goal": "g", "input": {"x": "ord_1"}, "steps": steps}).plan.goal == "g"
