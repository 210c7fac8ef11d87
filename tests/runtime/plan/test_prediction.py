"""What a plan is predicted to do and need, and its normal form: the design's example, and what varies from it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from counterfoil.canonical import canonical, sha256_hex
from counterfoil.registry.policy import Policy, Rule
from counterfoil.registry.vocabulary import Assurance, JsonObject, JsonValue, Verdict
from counterfoil.runtime.plan.checking import CheckedPlan, PlanLimits, check_plan
from counterfoil.runtime.plan.stored import from_stored, to_document, to_stored
from counterfoil.runtime.plan.values import needed
from tests.runtime.plan.shop import ALICE, ORDER_STEP, STRING, Hands, checked, plan, record, rules, step, tool

EXAMPLE: JsonObject = {
    "goal": "Make good for a delayed order",
    "input": {"order_id": "ord_17"},
    "steps": [
        {"id": "order", "tool": "orders_get", "args": {"order_id": "${input.order_id}"}},
        {"id": "shipment", "tool": "shipments_get", "args": {"shipment_id": "${order.shipment_id}"}},
        {"id": "policy", "tool": "policy_find", "args": {"topic": "late delivery"}},
        {
            "id": "refund", "tool": "orders_refund",
            "args": {"order_id": "${input.order_id}", "amount": "${order.total}"},
            "depends_on": ["shipment", "policy"], "when": "${shipment.late}", "compensate": "default",
        },
        {
            "id": "tell", "tool": "notify_send", "for_each": "${order.contacts}",
            "args": {"to": "${item.email}", "text": "Order ${input.order_id}: ${refund.amount} refunded. $${ stays."},
        },
    ],
    "on_failure": "compensate",
    "compensation": "best_effort",
    "max_parallel": 4,
    "deadline_s": 600,
    "budget": {"destructive": 1, "calls": 20},
}  # fmt: skip
FOUR_EYES = Rule(
    id="big",
    verdict=Verdict.APPROVE,
    tool="orders_refund",
    when={"/amount": {"gt": 100}},
    assurance=Assurance.SECOND_PERSON,
    reason="Refunds above 100 need four eyes.",
)


def wire(found: CheckedPlan) -> Any:
    return json.loads(json.dumps(found.wire()))


def approval(amount: JsonValue, *more: Rule, **fields: JsonValue) -> tuple[str, str]:
    pay = step("pay", "orders_refund", {"order_id": "x", "amount": amount}, **fields)
    found = checked(plan(ORDER_STEP, pay, input={"n": 150}), rules(policy=Policy([FOUR_EYES, *more])))
    asked = [one for one in found.approvals if one.step == "pay"]
    return found.predicted[1].approval, asked[0].rule_id if asked else ""


def test_the_example_is_predicted_in_full() -> None:
    told = wire(checked(EXAMPLE))
    assert [
        (one["id"], one["wave"], one["effect"], one["recovery"], one["approval"], one["cost"]) for one in told["steps"]
    ] == [
        ("order", 0, "read", "natural", "none", 0),
        ("shipment", 1, "read", "natural", "none", 0),
        ("policy", 0, "read", "natural", "none", 0),
        ("refund", 2, "destructive", "keyed", "operator", 1),
        ("tell", 3, "write", "person", "client", 0),
    ]
    assert set(told["steps"][0]) == {"id", "tool", "version", "effect", "recovery", "wave", "approval", "cost"}
    assert told["waves"] == [["order", "policy"], ["shipment"], ["refund"], ["tell"]]
    assert [(one["step"], one["approval"], one["rule_id"]) for one in told["approvals"]] == [
        ("refund", "operator", "default:destructive"),
        ("tell", "client", "default:write"),
    ]
    assert told["budget"] == {
        "calls": 5, "writes": 2, "destructive": 1, "cost": 1, "limits": {"calls": 20, "destructive": 1},
    }  # fmt: skip
    assert set(told) == {"digest", "steps", "waves", "approvals", "budget", "warnings"}
    assert any("not known yet, at most 200 times each" in one and "tell" in one for one in told["warnings"])
    assert any("maximum: refund, tell." in one for one in told["warnings"])


def test_a_verdict_that_hangs_on_a_value_not_yet_known_is_depends() -> None:
    assert approval("${order.total}") == ("depends", "big")
    assert approval(150) == ("second_person", "big")
    assert approval("${input.n}") == ("second_person", "big")
    assert approval(50) == ("operator", "default:destructive")


def test_the_strictest_item_decides_where_all_are_known() -> None:
    assert approval("${item}", for_each=[1, 150, 2]) == ("second_person", "big")
    assert approval("${item}", for_each=[1, 2]) == ("operator", "default:destructive")
    assert approval("${item}", for_each=[1, "${order.total}"]) == ("depends", "big")
    assert approval(1, for_each="${order.contacts}") == ("operator", "default:destructive")


def test_a_rule_that_asks_for_the_same_whatever_the_value_is_no_depends() -> None:
    same = Rule(id="same", verdict=Verdict.APPROVE, tool="orders_refund", assurance=Assurance.SECOND_PERSON)
    assert approval("${order.total}", same)[0] == "second_person"


def test_counts_are_of_items_and_a_known_skip_counts_nothing() -> None:
    each = step("pay", "orders_refund", {"order_id": "${item}", "amount": 1}, for_each=["a", "b", "c"])
    after = step("after", "echo", {"x": "${pay}"})
    budget = checked(plan(each, after)).budget
    assert (budget["calls"], budget["writes"], budget["destructive"], budget["cost"]) == (4, 3, 3, 3)
    skipped = checked(plan({**each, "when": "${input.go}"}, after, input={"go": False}))
    assert (skipped.budget["calls"], skipped.budget["cost"]) == (0, 0)
    assert any("not counted: pay, after." in one for one in skipped.warnings)
    assert checked(plan({**each, "when": "${input.go}"}, input={"go": True})).warnings == ()


def test_warnings_name_few_steps_and_count_the_rest() -> None:
    many = [step(f"s{n}", "echo", for_each="${order.contacts}") for n in range(30)]
    warnings = checked(plan(ORDER_STEP, *many)).warnings
    assert len(warnings) == 1
    assert warnings[0].endswith("s7 and 22 more.")


def test_more_parallel_steps_than_there_are_and_a_style_without_compensation_are_warned_of() -> None:
    found = checked(plan(ORDER_STEP, max_parallel=9, compensation="strict"), rules(limits=PlanLimits(max_parallel=2)))
    assert [one.split(";")[0] for one in found.warnings] == [
        "'compensation' means nothing while 'on_failure' is 'stop'.",
        "max_parallel is 9",
    ]


def shuffled(value: JsonValue) -> JsonValue:
    """The same JSON with all members in the opposite order."""
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(value)}
    return [shuffled(one) for one in value] if isinstance(value, list) else value


def test_the_digest_is_that_of_the_normal_document_and_does_not_hang_on_how_it_was_written() -> None:
    first, second = checked(EXAMPLE), checked(shuffled(EXAMPLE))
    assert first.digest == second.digest == sha256_hex(canonical(first.stored))
    spelled = plan(
        {**ORDER_STEP, "depends_on": [], "needs": "success", "on_failure": "fail", "retry": {}, "save_as": "order"}
    )
    assert checked(spelled).digest == checked(plan(ORDER_STEP, on_failure="stop", compensation="best_effort")).digest


@pytest.mark.parametrize(
    "change", [{"goal": "x"}, {"input": {"order_id": "ord_18"}}, {"max_parallel": 5}, {"on_failure": "stop"}]
)
def test_another_plan_has_another_digest(change: JsonObject) -> None:
    assert checked(EXAMPLE).digest != checked({**EXAMPLE, **change}).digest


def test_a_changed_tool_changes_the_digest() -> None:
    changed = tool("echo", record([], x=STRING))
    document = plan(step("a", "echo"))
    under = rules()
    before = check_plan(document, ALICE, under)
    under.catalogue.remove("echo")
    under.catalogue.register(changed, Hands())
    after = check_plan(document, ALICE, under)
    assert before.digest != after.digest
    assert after.plan.steps[0].schema_digest == changed.schema_digest


def full() -> JsonObject:
    undo: JsonObject = {"tool": "orders_charge", "args": {"order_id": "a", "amount": "${pay.amount}"}}
    pay = step(
        "pay", "orders_refund", {"order_id": "a", "amount": 1.5}, depends_on=["order"], needs="settled", save_as="paid",
        if_version="1", timeout_s=2, retry={"attempts": 1}, on_failure="continue", compensate=undo,
    )  # fmt: skip
    each = step(
        "each", "echo", {"x": "${item}"}, for_each=["a"], when={"ref": "${paid.amount}", "gt": 0}, compensate="none"
    )
    return plan(ORDER_STEP, pay, each, input={"a": [None]}, deadline_s=5, budget={"cost": 2}, allow={"max_cost": 4})


@pytest.mark.parametrize("document", [EXAMPLE, full()])
def test_a_stored_plan_is_the_same_plan_again(document: JsonObject) -> None:
    found = checked(document)
    kept = cast("JsonObject", json.loads(canonical(found.stored)))
    again = from_stored(kept)
    assert again == found.plan
    assert to_stored(again) == kept == to_stored(found.plan)


@pytest.mark.parametrize("document", [EXAMPLE, full()])
def test_a_stored_plan_can_be_checked_again_at_its_pinned_versions(document: JsonObject) -> None:
    found = checked(document)
    newer = rules(tool("echo", version="2"))
    again = check_plan(to_document(found.plan), ALICE, newer)
    assert (again.digest, again.plan) == (found.digest, found.plan)


def test_every_reference_of_a_step_is_among_its_edges() -> None:
    found = checked(EXAMPLE).plan
    index = {one.id: one.index for one in found.steps}
    for one in found.steps:
        names = needed([one.args, one.for_each, one.when, one.if_version])
        assert {index[name] for name in names} <= set(found.edges[one.index])
