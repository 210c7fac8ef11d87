"""Names and edges: who waits for whom, and every way in which that cannot be."""

from __future__ import annotations

import pytest

from counterfoil.registry.vocabulary import JsonObject
from tests.runtime.plan.shop import ORDER_STEP, checked, plan, problems, step, told


def test_references_anywhere_add_edges_beside_depends_on() -> None:
    document = plan(
        ORDER_STEP,
        step("a", "echo", {"x": [{"y": "n ${order.total}"}]}),
        step("b", "echo", for_each="${order.contacts}"),
        step("c", "echo", when={"ref": "${order.total}", "gt": "${d.days}"}),
        step("d", "shipments_get", {"shipment_id": "s"}, if_version="${order.$evidence.external_version}"),
        step("e", "orders_refund", {"order_id": "x", "amount": 1}, depends_on=["a", "a"],
             compensate={"tool": "orders_charge", "args": {"order_id": "${saved.order_id}", "amount": "${e.amount}"}}),
        step("f", "orders_get", {"order_id": "x"}, save_as="saved"),
    )  # fmt: skip
    assert checked(document).plan.edges == ((), (0,), (0,), (0, 4), (0,), (1, 6), ())


def test_waves_follow_the_longest_way_and_list_steps_as_declared() -> None:
    document = plan(
        step("d", "echo", depends_on=["c", "a"]),
        step("c", "echo", depends_on=["b"]),
        step("b", "echo"),
        step("a", "echo"),
    )
    assert checked(document).waves == (("b", "a"), ("c",), ("d",))


def test_a_step_may_be_called_by_its_id_or_its_save_as() -> None:
    document = plan(
        step("a", "orders_get", {"order_id": "x"}, save_as="order"),
        step("b", "echo", {"x": "${a.total}", "y": "${order.total}"}, depends_on=["order", "a"]),
    )
    found = checked(document).plan
    assert (found.edges, found.steps[1].depends_on) == (((), (0,)), ("a",))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"id": "a"}, {"id": "a"}, ("a", "id", "duplicate_id")),
        ({"id": "a", "save_as": "x"}, {"id": "b", "save_as": "x"}, ("b", "save_as", "duplicate_id")),
        ({"id": "a", "save_as": "b"}, {"id": "b"}, ("a", "save_as", "duplicate_id")),
    ],
)
def test_two_steps_cannot_have_one_name(first: JsonObject, second: JsonObject, expected: tuple[str, str, str]) -> None:
    assert told(plan({"tool": "echo", **first}, {"tool": "echo", **second})) == [expected]


def test_a_save_as_that_repeats_the_id_says_nothing() -> None:
    assert checked(plan(step("a", "echo", save_as="a"))).plan.steps[0].save_as is None


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"depends_on": ["order", "shipmnt"]}, "depends_on"),
        ({"args": {"x": "${shipmnt.late}"}}, "args.x"),
        ({"when": "${shipmnt.late}"}, "when"),
        ({"for_each": "${shipmnt.late}"}, "for_each"),
        ({"if_version": "v${shipmnt.late}"}, "if_version"),
        ({"when": {"ref": "${order.total}", "eq": "${shipmnt.x}"}}, "when.eq"),
        ({"compensate": {"tool": "notify_send", "args": {"to": "${shipmnt.x}", "text": ""}}}, "compensate.args.to"),
    ],
)
def test_an_unknown_step_is_told_where_it_is_named_with_the_nearest_one(fields: JsonObject, place: str) -> None:
    document = plan(
        ORDER_STEP, step("shipment", "shipments_get", {"shipment_id": "s"}), {**step("a", "echo"), **fields}
    )
    found = problems(document)
    assert [(one.step, one.field, one.code) for one in found] == [("a", place, "unknown_step")]
    assert "did you mean 'shipment'?" in found[0].message


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"depends_on": ["a"]}, "depends_on"),
        ({"args": {"x": "${a.y}"}}, "args.x"),
        ({"args": {"x": "${saved.y}"}}, "args.x"),
        ({"when": "${a.y}"}, "when"),
    ],
)
def test_a_step_cannot_refer_to_itself(fields: JsonObject, place: str) -> None:
    assert told(plan({**step("a", "echo", save_as="saved"), **fields})) == [("a", place, "self_reference")]


def test_a_cycle_is_told_once_with_the_ids_along_it() -> None:
    document = plan(
        step("a", "echo", {"x": "${c}"}),
        step("b", "echo", depends_on=["a"]),
        step("c", "echo", depends_on=["b"]),
        step("behind", "echo", depends_on=["a"]),
        step("x", "echo", depends_on=["y"]),
        step("y", "echo", depends_on=["x"]),
    )
    found = problems(document)
    assert [(one.step, one.field, one.code) for one in found] == [
        ("a", "args.x", "cycle"),
        ("x", "depends_on", "cycle"),
    ]
    assert "a -> c -> b -> a" in found[0].message


def test_a_reference_to_a_descendant_is_a_cycle_also_in_a_compensation() -> None:
    undo: JsonObject = {"tool": "orders_charge", "args": {"order_id": "${late.order_id}", "amount": 1}}
    document = plan(
        step("pay", "orders_refund", {"order_id": "x", "amount": 1}, compensate=undo),
        step("late", "orders_get", {"order_id": "${pay.refund_id}"}),
    )
    assert told(document) == [("pay", "compensate.args.order_id", "cycle")]


def test_a_long_cycle_is_told_by_its_first_steps_and_its_length() -> None:
    size = 40
    document = plan(*[step(f"s{n}", "echo", depends_on=[f"s{(n + 1) % size}"]) for n in range(size)])
    found = problems(document)
    assert len(found) == 1
    assert "s0 -> s1 -> s2" in found[0].message
    assert found[0].message.endswith("… -> s0 (40 steps)")


def test_a_name_of_a_member_cannot_hold_a_reference() -> None:
    assert told(plan(step("a", "echo", {"x": {"${input.k}": 1}}))) == [("a", "args.x", "bad_reference")]
