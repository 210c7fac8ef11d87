"""What references become once a run has values: types kept, expanded once, nothing made up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.canonical import canonical
from counterfoil.registry.vocabulary import JsonObject, JsonValue
from counterfoil.runtime.plan.values import (
    LONGEST_TEXT,
    UNSET,
    MissingPathError,
    NotBooleanError,
    Scope,
    ask_when,
    needed,
    resolve,
)

ORDER: JsonObject = {
    "total": 12.5,
    "late": True,
    "note": None,
    "lines": [{"sku": "a"}, {"sku": "b"}],
    "any key": {"é": 1},
    "tricky": "${order.total} and $${x}",
    "0": "zero",
    "$evidence": "a member",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def scope(item: Any = UNSET, **outputs: JsonValue) -> Scope:
    known: dict[str, JsonValue] = {"order": ORDER, "nothing": None, **outputs}
    facts: dict[str, JsonObject] = {"order": {"external_version": "v7", "request_id": None}}
    return Scope({"id": "ord_1", "n": None}, "run_1", lambda name: known.get(name, UNSET), facts.get, item)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("${order.total}", 12.5),
        ("${order.late}", True),
        ("${order.note}", None),
        ("${order.lines}", [{"sku": "a"}, {"sku": "b"}]),
        ("${order.lines[1].sku}", "b"),
        ('${order["any key"]["é"]}', 1),
        ("${ order.total }", 12.5),
        ("${order.0}", "zero"),
        ('${order["$evidence"]}', "a member"),
        ("${order.$evidence.external_version}", "v7"),
        ("${input.id}", "ord_1"),
        ("${run.id}", "run_1"),
        ("${nothing}", None),
        ("no reference, $ and {braces}", "no reference, $ and {braces}"),
        ("$${order.total}", "${order.total}"),
        ("$$${order.total}", "$${order.total}"),
        ("${order.total}${order.total}", "12.512.5"),
        ("is ${order.late}: ${order.lines}", 'is true: [{"sku":"a"},{"sku":"b"}]'),
        ({"a": ["${order.total}", {"b": "x${input.id}"}]}, {"a": [12.5, {"b": "xord_1"}]}),
        ({"${input.id}": 1}, {"${input.id}": 1}),
        ([1, True, None], [1, True, None]),
    ],
)  # fmt: skip
def test_a_template_becomes_its_value(template: JsonValue, expected: JsonValue) -> None:
    assert canonical(resolve(template, scope(), "args")) == canonical(expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("${order.gone ?? 0}", 0),
        ("${order.note ?? 'x'}".replace("'", '"'), "x"),
        ('${order.gone ?? {"a": "}", "b": [1]}}', {"a": "}", "b": [1]}),
        ("${order.gone ?? null}", None),
        ("${late_step.x ?? false}", False),
        ("${order.$evidence.request_id ?? 1}", 1),
        ("${order.total ?? 0}", 12.5),
        ('a ${order.gone ?? "none"} b', "a none b"),
    ],
)
def test_a_default_stands_where_there_is_nothing_or_null(template: str, expected: JsonValue) -> None:
    assert resolve(template, scope(), "args") == expected


@pytest.mark.parametrize(
    ("template", "place", "words"),
    [
        ({"amount": "${order.gone}"}, "args.amount", "${order} is an object without member 'gone'"),
        ({"a": ["${order.lines[2]}"]}, "args.a[0]", "${order.lines} is a list without place 2"),
        ("${order.total.x}", "args", "${order.total} is a number without member 'x'"),
        ("${order.lines.sku}", "args", "is a list without member 'sku'"),
        ("${order[0]}", "args", "is an object without place 0"),
        ("${nothing.x}", "args", "${nothing} is null without member 'x'"),
        ("${silent}", "args", "it has no output"),
        ("${order.$evidence.request_id}", "args", "there is no request_id of it"),
        ("${input.gone}", "args", "${input} is an object without member 'gone'"),
        ("it is ${order.note}", "args", "null, which has no text"),
    ],
)
def test_a_missing_path_is_an_error_that_names_place_and_reason(template: JsonValue, place: str, words: str) -> None:
    with pytest.raises(MissingPathError) as caught:
        resolve(template, scope(), "args")
    assert caught.value.field == place
    assert words in caught.value.message
    assert caught.value.reference.startswith("${")


def test_what_a_value_holds_is_never_read_as_a_reference() -> None:
    assert resolve("${order.tricky}", scope(), "args") == "${order.total} and $${x}"
    assert resolve("x ${order.tricky}", scope(), "args") == "x ${order.total} and $${x}"


def test_an_item_is_the_whole_one_or_a_member_and_may_be_null() -> None:
    assert resolve("${item.to}", scope(item={"to": "a"}), "args") == "a"
    assert resolve(["${item}"], scope(item=None), "args") == [None]
    with pytest.raises(MissingPathError, match="it has no output"):
        resolve("${item}", scope(), "args")


def test_a_text_does_not_grow_without_end() -> None:
    with pytest.raises(MissingPathError, match="characters"):
        resolve("${big}${big}", scope(big="x" * (LONGEST_TEXT // 2 + 1)), "args")


def test_the_steps_that_a_template_needs_are_named_as_written() -> None:
    template: JsonValue = {"a": ["${order.x} ${saved}"], "b": "${input.x}${run.id}${item}", "c": "$${no}"}
    assert needed(template) == {"order", "saved"}


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("${order.late}", True),
        ("${order.gone ?? false}", False),
        ({"ref": "${order.total}", "gt": 12}, True),
        ({"ref": "${order.total}", "ge": 12.5, "lt": 12.5}, False),
        ({"ref": "${order.total}", "le": 12.5}, True),
        ({"ref": "${order.total}", "eq": 12.5}, True),
        ({"ref": "${order.total}", "eq": "12.5"}, False),
        ({"ref": "${order.total}", "ne": "12.5"}, True),
        ({"ref": "${order.note}", "eq": None}, True),
        ({"ref": "${order.total}", "in": [1, 12.5]}, True),
        ({"ref": "${order.total}", "in": "${order.lines}"}, False),
        ({"ref": "${order.total}", "ge": "${order.total}"}, True),
        ({"ref": "${order.gone}", "exists": False}, True),
        ({"ref": "${order.note}", "exists": True}, True),
        ({"ref": "${silent.x}", "exists": True}, False),
    ],
)
def test_when_is_a_reference_or_comparisons_that_all_hold(when: JsonValue, expected: bool) -> None:
    assert ask_when(when, scope()) is expected


@pytest.mark.parametrize(
    "when",
    ["${order.total}", "${order.note}", {"ref": "${order.lines}", "gt": 1},
     {"ref": "${order.total}", "gt": "${order.late}"}, {"ref": "${order.total}", "in": "${order.total}"}],
)  # fmt: skip
def test_a_when_that_gives_no_boolean_is_an_error(when: JsonValue) -> None:
    with pytest.raises(NotBooleanError, match="when"):
        ask_when(when, scope())


def test_a_when_about_a_missing_path_is_an_error() -> None:
    with pytest.raises(MissingPathError):
        ask_when({"ref": "${order.gone}", "eq": 1}, scope())


@given(JSON)
def test_a_whole_reference_keeps_any_value_as_it_is(value: JsonValue) -> None:
    where = scope(any=value, holder={"in": [value]})
    assert resolve("${any}", where, "args") == value
    assert resolve({"x": "${holder.in[0]}"}, where, "args") == {"x": value}


@given(st.text())
def test_data_with_the_signs_of_references_passes_through(text: str) -> None:
    value = f"{text}${{order.total}}$${{x}}"
    assert resolve("<${data}>", scope(data=value), "args") == f"<{value}>"


@given(st.text(min_size=1), JSON)
def test_any_key_can_be_reached(key: str, value: JsonValue) -> None:
    written = canonical(key).decode() if _is_unicode(key) else '"x"'
    where = scope(data={key if _is_unicode(key) else "x": value})
    assert resolve(f"${{data[{written}]}}", where, "args") == value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
