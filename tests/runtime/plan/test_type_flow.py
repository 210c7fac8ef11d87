"""Values are followed through a plan by schema: what can never work is refused, and nothing else."""

from __future__ import annotations

import pytest

from counterfoil.registry.vocabulary import JsonObject, JsonValue
from tests.runtime.plan.shop import (
    BOOLEAN,
    CONTACT,
    NUMBER,
    ORDER_STEP,
    STRING,
    checked,
    items,
    plan,
    problems,
    record,
    rules,
    step,
    told,
    tool,
)

BAD, INVALID = "bad_reference", "invalid_arguments"
INTEGER: JsonObject = {"type": "integer"}
NULL: JsonObject = {"type": "null"}


def flows(gives: JsonObject | None, reference: str, takes: JsonValue, **fields: JsonValue) -> list[tuple[str, str]]:
    """What is told of one argument that takes this and refers to an output like that."""
    under = rules(tool("make", None, gives), tool("use", record(x=takes)))
    document = plan(step("made", "make"), step("used", "use", {"x": reference}, **fields))
    return [(one.field, one.code) for one in problems(document, under)]


TREE: JsonObject = {
    "$defs": {"node": record(["name"], name=STRING, child={"$ref": "#/$defs/node"}, tags=items(STRING, maxItems=2))},
    "$ref": "#/$defs/node",
}
EITHER: JsonObject = {"oneOf": [record(kind={"const": "a"}, a=STRING), record(kind={"const": "b"}, b=NUMBER), NULL]}
BOTH: JsonObject = {"allOf": [record(a=STRING), record(b=NUMBER)]}
PAIR: JsonObject = record(pair={"type": "array", "prefixItems": [STRING, NUMBER], "items": False})


@pytest.mark.parametrize(
    ("gives", "reference"),
    [
        (record(a=STRING), "${made.b}"),
        (record(a=STRING), "${made.a.b}"),
        (record(a=STRING), "${made.a[0]}"),
        (record(a=STRING), "${made[0]}"),
        (record(a=STRING), "${made.b ?? 1}"),
        (record(a=items(STRING)), "${made.a.length}"),
        (record(a=items(record(b=STRING))), "${made.a[3].c}"),
        (STRING, "${made.a}"),
        (TREE, "${made.child.child.nam}"),
        (TREE, "${made.tags[2]}"),
        (EITHER, "${made.c}"),
        (BOTH, "${made.c}"),
        (PAIR, "${made.pair[2]}"),
        ({"enum": ["x", 1]}, "${made.a}"),
        ({"type": "object", "additionalProperties": False}, "${made.a}"),
    ],
)
def test_a_path_that_the_output_schema_rules_out_is_refused(gives: JsonObject, reference: str) -> None:
    assert flows(gives, reference, {}) == [("args.x", BAD)]


@pytest.mark.parametrize(
    ("gives", "reference"),
    [
        (None, "${made.a.b[0]}"),
        ({}, "${made.a}"),
        ({"type": "object"}, "${made.a.b}"),
        (record(a=True), "${made.a.b[7]}"),
        ({**record(a=STRING), "additionalProperties": True}, "${made.b}"),
        ({**record(a=STRING), "additionalProperties": STRING}, "${made.b}"),
        ({**record(a=STRING), "patternProperties": {"^b": STRING}}, "${made.b}"),
        ({"type": ["object", "array"]}, "${made[0].x}"),
        (TREE, "${made.child.child.tags[1]}"),
        (EITHER, "${made.b}"),
        (BOTH, "${made.b}"),
        (PAIR, "${made.pair[1]}"),
        (record([], a=STRING), "${made.a}"),
        ({"$ref": "https://elsewhere.example/s"}, "${made.a}"),
        (record(a=STRING), "${made.$evidence.external_version}"),
    ],
)
def test_a_path_that_can_be_there_is_accepted(gives: JsonObject | None, reference: str) -> None:
    assert flows(gives, reference, {}) == []


def test_a_mistyped_name_is_told_with_the_nearest_one() -> None:
    found = problems(plan(ORDER_STEP, step("a", "echo", {"x": "${order.totla}", "y": "${order.zzz}"})))
    assert "no 'totla' in ${order}; did you mean 'total'?" in found[0].message
    assert "it has order_id, total" in found[1].message


@pytest.mark.parametrize(
    ("gives", "takes"),
    [
        (record(a=STRING), NUMBER),
        (record(a=NUMBER), STRING),
        (record(a=INTEGER), BOOLEAN),
        (record(a=NULL), STRING),
        (record(a={"type": ["string", "null"]}), {"type": ["number", "boolean"]}),
        (record(a={"anyOf": [STRING, NULL]}), INTEGER),
        (record(a={"enum": ["x", "y"]}), {"enum": ["z"]}),
        (record(a={"const": 1}), {"const": 2}),
        (record(a={"type": "number", "maximum": 3}), {"type": "number", "minimum": 4}),
        (record(a={"type": "string", "maxLength": 2}), {"type": "string", "minLength": 3}),
        (record(a=items(STRING, minItems=1)), items(NUMBER)),
        (record(a=items(STRING, maxItems=1)), items(STRING, minItems=2)),
        (record(a=record(b=STRING)), record(b=NUMBER)),
        (record(a=record(b=STRING, c=STRING)), record(b=STRING)),
        (record(a={**record(b=STRING), "additionalProperties": False}), record(b=STRING, c=STRING)),
        (record(a=CONTACT), {"anyOf": [STRING, items(CONTACT)]}),
    ],
)
def test_a_value_of_a_kind_that_the_argument_never_takes_is_refused(gives: JsonObject, takes: JsonObject) -> None:
    assert flows(gives, "${made.a}", takes) == [("args.x", BAD)]


@pytest.mark.parametrize(
    ("gives", "takes"),
    [
        (record(a=STRING), True),
        (record(a=STRING), {}),
        (record(a=True), NUMBER),
        (record(a={"type": ["string", "null"]}), STRING),
        (record(a=NUMBER), INTEGER),
        (record(a=INTEGER), NUMBER),
        (record(a=STRING), {"enum": ["z"]}),
        (record(a=STRING), {"type": "string", "pattern": "^x$", "format": "email"}),
        (record(a={"enum": ["x", "y"]}), {"enum": ["y", "z"]}),
        (record(a={"type": "number", "maximum": 3}), {"type": "number", "minimum": 3}),
        (record(a=items(STRING)), items(NUMBER)),
        (record(a=record([], b=STRING)), record([], b=NUMBER)),
        (record(a=record(b=STRING)), record(b=STRING, c=STRING)),
        (record(a=record(b=STRING)), {**record(b=STRING), "additionalProperties": True}),
        (record(a=EITHER), NULL),
        (record(a=STRING), {"not": STRING}),
        (record(a=STRING), {"if": True, "then": NUMBER}),
    ],
)
def test_a_value_that_could_fit_is_left_to_the_run(gives: JsonObject, takes: JsonObject) -> None:
    assert flows(gives, "${made.a}", takes) == []


def test_a_whole_output_may_be_null_where_a_step_ends_without_a_result() -> None:
    assert flows(record(a=STRING), "${made}", NULL) == []
    assert flows(record(a=STRING), "${made}", record(a=STRING)) == []
    assert flows(record(a=STRING), "${made}", STRING) == [("args.x", BAD)]


def test_with_a_default_it_is_enough_that_one_of_both_can_fit() -> None:
    nullable = record(a={"type": ["number", "null"]})
    assert flows(nullable, '${made.a ?? "none"}', STRING) == []
    assert flows(nullable, "${made.a ?? true}", NUMBER) == []
    assert flows(nullable, "${made.a ?? true}", STRING) == [("args.x", BAD)]
    assert flows(record(a=NULL), "${made.a ?? 1}", NULL) == [("args.x", BAD)]
    assert flows(record(a=NULL), "${made.a ?? 1}", NUMBER) == []


def test_inside_a_text_any_value_is_text() -> None:
    assert flows(record(a=NUMBER), "n ${made.a}", STRING) == []
    assert flows(record(a=NUMBER), "n ${made.a}", NUMBER) == [("args.x", BAD)]
    assert flows(record(a=NUMBER), "${run.id}", NUMBER) == [("args.x", BAD)]


def test_the_message_names_both_kinds_and_the_reference() -> None:
    document = plan(ORDER_STEP, step("pay", "orders_refund", {"order_id": "a", "amount": "${order.note}"}))
    found = problems(document)
    assert [(one.step, one.field, one.code) for one in found] == [("pay", "args.amount", BAD)]
    assert "orders_refund takes a number, and ${order.note} is null or a string" in found[0].message


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"order_id": "${order.order_id}"}, [("args.amount", INVALID)]),
        ({"order_id": "${order.order_id}", "amount": "3"}, [("args.amount", INVALID)]),
        ({"order_id": "${order.order_id}", "amount": 3, "amuont": 1}, [("args.amuont", INVALID)]),
        ({"order_id": "${order.order_id}", "amount": 3, "note": ["x"]}, [("args.note", INVALID)]),
        ({"order_id": ["${order.order_id}"], "amount": 3}, [("args.order_id", INVALID)]),
        ({"order_id": "${order.order_id}", "amount": 3}, []),
    ],
)
def test_what_is_known_beside_references_is_validated(args: JsonObject, expected: list[tuple[str, str]]) -> None:
    found = problems(plan(ORDER_STEP, step("pay", "orders_refund", args)))
    assert [(one.field, one.code) for one in found] == expected


CHOICE: JsonObject = {
    "type": "object",
    "properties": {
        "who": {"anyOf": [record(email=STRING), record(phone=STRING, country=STRING)]},
        "mode": {"enum": ["fast", "slow"]},
        "lines": items(record(sku=STRING, count=INTEGER), minItems=2, uniqueItems=True),
    },
    "if": {"properties": {"mode": {"const": "fast"}}, "required": ["mode"]},
    "then": {"required": ["lines"]},
}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"who": {"email": "${order.note}"}}, []),
        ({"who": {"phone": "${order.note}", "country": "de"}}, []),
        ({"who": {"phone": "${order.note}"}}, ["args.who.country"]),
        ({"who": {"email": 1, "x": "${order.note}"}}, ["args.who.email"]),
        ({"who": {"email": "${order.total}"}}, ["args.who.email"]),
        ({"who": "${order.contacts[0]}"}, []),
        ({"mode": "${order.note}"}, []),
        ({"mode": "medium", "who": "${order.contacts[0]}"}, ["args.mode"]),
        ({"mode": "fast", "who": "${order.contacts[0]}"}, []),
        ({"lines": ["${order.contacts[0]}"]}, ["args.lines", "args.lines[0]"]),
        ({"lines": [{"sku": "${order.note}", "count": 1}, {"sku": "${order.note}", "count": 1}]}, []),
        ({"lines": [{"sku": "${order.note}", "count": "1"}, {"sku": "b", "count": 1}]}, ["args.lines[0].count"]),
        ({"lines": [{"sku": "${order.note}"}, {"sku": "b", "count": 1}]}, ["args.lines[0].count"]),
    ],
)
def test_of_alternatives_and_conditions_only_what_no_value_can_mend_is_told(
    args: JsonObject, expected: list[str]
) -> None:
    found = problems(plan(ORDER_STEP, step("a", "choose", args)), rules(tool("choose", CHOICE)))
    assert sorted(one.field for one in found) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("${input.id}", None),
        ("${input.lines[1].sku}", None),
        ('${input.gone ?? "x"}', None),
        ('${input.empty ?? "x"}', None),
        ("order ${input.n}", None),
        ("${input.gone}", BAD),
        ("${input.id.x}", BAD),
        ("${input.lines[2]}", BAD),
        ("a ${input.empty}", BAD),
        ("${run.name}", BAD),
        ("${run}", BAD),
        ("${item}", BAD),
        ("${input.n}", INVALID),
        ("${input.empty}", INVALID),
        ("${input.gone ?? 1}", INVALID),
        ("${input}", INVALID),
    ],
)  # fmt: skip
def test_the_input_is_known_and_validated_for_real(reference: str, expected: str | None) -> None:
    document = plan(
        step("a", "orders_get", {"order_id": reference}),
        input={"id": "ord_1", "n": 5, "empty": None, "lines": [{"sku": "a"}, {"sku": "b"}]},
    )
    assert told(document) == ([] if expected is None else [("a", "args.order_id", expected)])


def test_data_of_the_input_that_looks_like_a_reference_is_none() -> None:
    document = plan(
        step("a", "orders_get", {"order_id": "${input.id}"}),
        step("b", "orders_get", {"order_id": "${item}"}, for_each="${input.l}"),
        input={"id": "${nobody.x}", "l": ["${nobody}", "${"]},
    )
    assert told(document) == []


def test_defaults_of_the_tool_count_as_given() -> None:
    takes = record([], n={"type": "integer", "default": 3})
    checked(
        plan(ORDER_STEP, step("a", "with_default"), step("b", "with_default", {"n": 4.0})),
        rules(tool("with_default", takes)),
    )


@pytest.mark.parametrize(
    "args",
    [
        {"order_id": "a", "amount": 1, "note": 77_001_177},
        {"order_id": "${order.order_id}", "amount": 1, "note": 77_001_177},
        {"order_id": "a", "amount": "${input.api_key}"},
        {"order_id": "${order.order_id}", "amount": "${input.api_key}"},
        {"order_id": "a", "amount": 1, "password": {"x": "${77001177"}},
    ],
)
def test_no_secret_is_quoted(args: JsonObject) -> None:
    found = problems(plan(ORDER_STEP, step("pay", "orders_refund", args), input={"api_key": "77001177"}))
    assert found
    assert not any("77001177" in one.message for one in found)


def test_secret_items_of_a_list_are_not_quoted_either() -> None:
    document = plan(
        step("a", "orders_get", {"order_id": "${item}"}, for_each="${input.token}"), input={"token": [77001177]}
    )
    found = problems(document)
    assert len(found) == 1
    assert "77001177" not in found[0].message


def test_outputs_of_a_tool_that_is_not_known_are_anything() -> None:
    document = plan(step("a", "nope"), step("b", "orders_get", {"order_id": "${a.x.y[0]}"}))
    assert told(document) == [("a", "tool", "unknown_tool")]


def test_a_large_input_counts_as_unknown_once_much_of_it_was_put_in_place() -> None:
    many = [step(f"s{n}", "orders_refund", {"order_id": "a", "amount": "${input.big}"}) for n in range(20)]
    assert len(told(plan(*many, input={"big": "x"}))) == 20
    assert 0 < len(told(plan(*many, input={"big": "x" * 1_000_000}))) < 10
