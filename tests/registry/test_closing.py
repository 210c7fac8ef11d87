"""`forbid_extra`: what is not stated is refused, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.canonical import JsonObject, JsonValue
from counterfoil.registry.closing import forbid_extra
from counterfoil.registry.schema import compile_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NODE: JsonObject = {
    "$defs": {"Node": {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}},
    "$ref": "#/$defs/Node",
}
CASES: list[tuple[Any, list[Any], list[Any]]] = [
    ({"properties": {"a": {}}}, [{"a": 1}, {}], [{"b": 1}]),
    ({"type": "object"}, [{"b": 1}], []),
    ({"properties": {"a": {}}, "additionalProperties": True}, [{"b": 1}], []),
    ({"properties": {"a": {}}, "patternProperties": {"^x": {}}}, [{"b": 1}], []),
    ({"properties": {"a": {"properties": {}}}}, [{"a": {}}], [{"a": {"z": 1}}]),
    ({"items": {"properties": {"a": {}}}}, [[{"a": 1}]], [[{"b": 1}]]),
    ({"additionalProperties": {"properties": {"a": {}}}}, [{"x": {"a": 1}}], [{"x": {"b": 1}}]),
    ({"anyOf": [{"properties": {"a": {}}}, {"type": "null"}]}, [{"a": 1}, None], [{"b": 1}]),
    ({"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, [{"a": 1}, {"b": 1}], [{"a": 1, "b": 1}]),
    ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, [{"a": 1, "b": 1}], [{"c": 1}]),
    ({"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
     [{"a": 1}], [{"a": 1, "b": 1}]),
    ({"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}]}, [{"a": 1, "b": 1}], [{"c": 1}]),
    ({"properties": {"a": {}}, "if": {"required": ["a"]}, "then": {"properties": {"b": {}}}},
     [{"a": 1, "b": 1}], [{"b": 1}, {"c": 1}]),
    ({"properties": {"x": {"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}}}},
     [{"x": {"a": 2, "z": 1}}], [{"x": {"a": 1, "z": 1}}]),
    ({"$defs": {"A": {"properties": {"a": {"const": 1}}, "required": ["a"]}},
      "properties": {"x": {"not": {"$ref": "#/$defs/A"}}, "y": {"$ref": "#/$defs/A"}}},
     [{"y": {"a": 1}}], [{"x": {"a": 1, "z": 1}}, {"y": {"a": 1, "z": 1}}]),
    (NODE, [{"next": {"name": "x"}}], [{"z": 1}, {"next": {"z": 1}}]),
    ({"$defs": {"A": {"properties": {"a": {}}}}, "allOf": [{"$ref": "#/$defs/A"}],
      "properties": {"b": {"$ref": "#/$defs/A"}}},
     [{"a": 1, "b": {"a": 1}}], [{"c": 1}, {"b": {"c": 1}}]),
    ({"$schema": DRAFT_7, "definitions": {"A": {"properties": {"a": {}}}},
      "allOf": [{"$ref": "#/definitions/A"}, {"properties": {"b": {"$ref": "#/definitions/A"}}}]},
     [{"a": 1, "b": {"a": 1}}], [{"c": 1}, {"b": {"c": 1}}]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "good", "bad"), CASES)
def test_a_closed_schema_refuses_what_is_not_stated_and_only_that(
    schema: JsonObject, good: list[JsonValue], bad: list[JsonValue]
) -> None:
    closed = forbid_extra(schema)
    assert [compile_schema(closed).accepts(value) for value in good] == [True] * len(good)
    assert [compile_schema(closed).accepts(value) for value in bad] == [False] * len(bad)
    assert forbid_extra(closed) == closed


def test_a_schema_of_plain_objects_is_closed_in_the_plain_way_and_the_original_stays() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert forbid_extra(schema) == {**schema, "additionalProperties": False}
    assert "additionalProperties" not in schema


FIELDS = st.sampled_from(["a", "b", "c"])
EMPTY: dict[str, Any] = {}
FLAT: st.SearchStrategy[Any] = st.dictionaries(FIELDS, st.just(EMPTY), max_size=2).map(
    lambda fields: {"properties": fields}
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    FLAT | st.just({"$ref": "#/$defs/D"}) | st.just({"type": "object"}),
    lambda inner: st.one_of(
        st.dictionaries(FIELDS, inner, min_size=1, max_size=2).map(lambda fields: {"properties": fields}),
        st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"allOf": branches}),
        st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"anyOf": branches}),
        st.tuples(FLAT, inner).map(lambda pair: {**pair[0], "allOf": [pair[1]]}),
    ),
    max_leaves=6,
)
OBJECTS: st.SearchStrategy[Any] = st.recursive(
    st.just(1) | st.just(EMPTY),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c", "z"]), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(SCHEMAS, FLAT, OBJECTS)
def test_closing_only_ever_narrows_and_a_second_time_changes_nothing(
    schema: JsonObject, shared: JsonObject, value: JsonValue
) -> None:
    whole: JsonObject = {**schema, "$defs": {"D": shared}}
    closed = forbid_extra(whole)
    assert forbid_extra(closed) == closed
    if compile_schema(closed).accepts(value):
        assert compile_schema(whole).accepts(value)
