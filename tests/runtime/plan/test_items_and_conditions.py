"""Items of a `for_each`, conditions and versions: typed by what they are made from, and told with their place."""

from __future__ import annotations

import pytest

from counterfoil.registry.vocabulary import JsonObject, JsonValue
from tests.runtime.plan.shop import ORDER_STEP, plan, problems, rules, step, told

BAD, INVALID = "bad_reference", "invalid_arguments"


@pytest.mark.parametrize(
    ("for_each", "args", "expected"),
    [
        ("${order.contacts}", {"to": "${item.email}", "text": '${item.name ?? ""}'}, []),
        ("${order.contacts}", {"to": "${item.mail}", "text": "x"}, [("args.to", BAD)]),
        ("${order.contacts}", {"to": "${item}", "text": "x"}, [("args.to", BAD)]),
        ("${order.total}", {"to": "a", "text": "x"}, [("for_each", BAD)]),
        ("${order}", {"to": "a", "text": "x"}, [("for_each", BAD)]),
        ("${order.total ?? []}", {"to": "a", "text": "x"}, []),
        ("${input.people}", {"to": "${item.to}", "text": "x"}, []),
        ("${input.people}", {"to": "${item.too}", "text": "x"}, [("args.to", BAD), ("args.to", BAD)]),
        ("${input.mixed}", {"to": "${item}", "text": "x"}, [("args.to", INVALID)]),
        ("${input.name}", {"to": "x", "text": "x"}, [("for_each", BAD)]),
        (["a", "b"], {"to": "${item}", "text": "x"}, []),
        (["a", 2], {"to": "${item}", "text": "x"}, [("args.to", INVALID)]),
        ([{"to": "${order.note}"}], {"to": "${item.to}", "text": "x"}, []),
        ([{"to": "${order.total}"}], {"to": "${item.to}", "text": "x"}, [("args.to", BAD)]),
        (["${order.contacts[0]}"], {"to": "${item.email}", "text": "${item.name}"}, []),
        (["${order.contacts[0]}"], {"to": "${item.mail}", "text": "x"}, [("args.to", BAD)]),
        ([], {"to": 7, "text": "x"}, [("args.to", INVALID)]),
        (["${item}"], {"to": "a", "text": "x"}, [("for_each[0]", BAD)]),
    ],
)  # fmt: skip
def test_items_are_typed_by_their_list(for_each: JsonValue, args: JsonObject, expected: list[tuple[str, str]]) -> None:
    document = plan(
        ORDER_STEP,
        step("tell", "notify_send", args, for_each=for_each),
        input={"people": [{"to": "a"}, {"to": "b"}], "mixed": ["a", 1], "name": "x"},
    )
    assert [(one.field, one.code) for one in problems(document)] == expected


def test_a_problem_of_one_item_says_which_one() -> None:
    found = problems(plan(step("tell", "notify_send", {"to": "${item}", "text": ""}, for_each=["a", 2, "c", None])))
    assert [one.message.rpartition(" (")[2] for one in found] == ["item 1)", "item 3)"]


def test_an_item_is_known_neither_in_when_nor_without_a_for_each() -> None:
    document = plan(
        ORDER_STEP,
        step("a", "echo", {"x": "${item}"}),
        step("b", "echo", for_each="${order.contacts}", when="${item.late}"),
    )
    assert told(document) == [("a", "args.x", BAD), ("b", "when", BAD)]


def test_the_output_of_a_for_each_is_the_list_of_its_items_outputs() -> None:
    document = plan(
        ORDER_STEP,
        step("all", "orders_get", {"order_id": "${item}"}, for_each=["a", "b"]),
        step("ok", "echo", {"x": "${all[1].total}", "y": "${all}"}),
        step("again", "notify_send", {"to": "${item.order_id}", "text": ""}, for_each="${all}"),
        step("no1", "echo", {"x": "${all.total}"}),
        step("no2", "echo", {"x": "${all[2]}"}),
        step("no3", "echo", {"x": "${all.$evidence.request_id}"}),
    )
    assert told(document) == [("no1", "args.x", BAD), ("no2", "args.x", BAD), ("no3", "args.x", BAD)]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("${shipment.late}", []),
        ("${shipment.days}", [("when", BAD)]),
        ("${shipment.days ?? false}", []),
        ("${shipment.latte}", [("when", BAD)]),
        ("${input.yes}", []),
        ("${input.n}", [("when", BAD)]),
        ({"ref": "${shipment.days}", "gt": 2}, []),
        ({"ref": "${shipment.late}", "gt": 2}, [("when.ref", BAD)]),
        ({"ref": "${shipment.days}", "gt": "${shipment.late}"}, [("when.gt", BAD)]),
        ({"ref": "${shipment.days}", "in": "${shipment.days}"}, [("when.in", BAD)]),
        ({"ref": "${shipment.late}", "eq": "x"}, []),
    ],
)
def test_a_when_must_be_able_to_give_a_boolean(when: JsonValue, expected: list[tuple[str, str]]) -> None:
    document = plan(
        step("shipment", "shipments_get", {"shipment_id": "s"}),
        step("a", "echo", when=when),
        input={"yes": True, "n": 1},
    )
    assert [(one.field, one.code) for one in problems(document)] == expected


@pytest.mark.parametrize(
    ("if_version", "versions", "expected"),
    [
        ("7", True, []),
        ("${order.$evidence.external_version}", True, []),
        ("v${order.total}", True, []),
        ("${order.total}", True, [("if_version", BAD)]),
        ("${input.n}", True, [("if_version", BAD)]),
        ("7", False, [("if_version", INVALID)]),
        ("${order.order_id}", False, [("if_version", INVALID)]),
    ],
)
@pytest.mark.parametrize("amount", [1, "${order.total}"])
def test_an_if_version_is_a_string_for_a_tool_that_can_make_sure_of_it(
    if_version: str, versions: bool, expected: list[tuple[str, str]], amount: JsonValue
) -> None:
    pay = step("pay", "orders_refund", {"order_id": "x", "amount": amount}, if_version=if_version)
    found = problems(plan(ORDER_STEP, pay, input={"n": 1}), rules(versions=versions))
    assert [(one.field, one.code) for one in found] == expected
