"""Compiled schemas, the words about what is wrong, and examples."""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence

import pytest

from counterfoil.canonical import JsonObject, JsonValue
from counterfoil.registry.closing import forbid_extra
from counterfoil.registry.example import example
from counterfoil.registry.problem import Problem
from counterfoil.registry.problems import SHOWN
from counterfoil.registry.schema import SchemaError, compile_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NODE: JsonObject = {
    "$defs": {"Node": {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}},
    "$ref": "#/$defs/Node",
}


def only(schema: JsonObject, value: JsonValue, conceal: Sequence[str] = ()) -> Problem:
    problems = compile_schema(schema).problems(value, conceal=conceal)
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize(
    "ref", ["http://127.0.0.1:9/x.json", "file:///etc/hostname", "other.json", "#/$defs/none", "#no"]
)
def test_a_reference_out_of_the_schema_is_refused_by_name_and_opens_no_socket(
    ref: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_socket(*_args: object, **_more: object) -> None:
        pytest.fail("a socket was opened")

    monkeypatch.setattr(socket, "socket", no_socket)
    schemas: list[JsonObject] = [
        {"$ref": ref}, {"properties": {"a": {"items": {"$ref": ref}}}}, {"$schema": DRAFT_7, "$ref": ref},
    ]  # fmt: skip
    for schema in schemas:
        with pytest.raises(SchemaError, match=r"\$ref does not resolve") as refused:
            compile_schema(schema)
        assert ref.removeprefix("#") in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nonsense"}, "/type"),
        ({"properties": []}, "/properties"),
        ({"pattern": "("}, "/pattern"),
        ({"$schema": "http://example.org/mine"}, "meta-schema"),
        ({"default": math.nan}, "JSON"),
        ({"description": "x" * 1_100_000}, "bytes"),
    ],
)
def test_a_schema_that_cannot_be_used_says_where(schema: JsonObject, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        compile_schema(schema)


def test_a_schema_too_deep_is_refused() -> None:
    schema: JsonObject = {}
    for _ in range(300):
        schema = {"items": schema}
    for use in (compile_schema, forbid_extra):
        with pytest.raises(SchemaError):
            use(schema)


def test_one_schema_is_compiled_once_and_later_changes_to_the_object_do_not_reach_it() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}}
    compiled = compile_schema(schema)
    assert compile_schema({"properties": {"a": {"type": "integer"}}, "type": "object"}) is compiled
    schema["properties"] = {"a": {"type": "string"}}
    assert compiled.accepts({"a": 1})
    assert compile_schema(schema) is not compiled


def test_recursive_schemas_local_definitions_and_draft_7_work() -> None:
    assert compile_schema(NODE).accepts({"next": {"next": {"name": "x"}}})
    assert not compile_schema(NODE).accepts({"next": {"next": {"name": 1}}})
    old: JsonObject = {
        "$schema": DRAFT_7,
        "definitions": {"A": {"type": "integer"}},
        "items": [{"$ref": "#/definitions/A"}],
    }
    assert compile_schema(old).accepts([1, "x"])
    assert not compile_schema(old).accepts(["x"])


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [10, 10.0, 2**70, 725653563933458432, -0.0], [10.5, True, "10", None]),
        ({"type": "number"}, [1, 1.5, 2**70], [True, "1"]),
        ({"type": "boolean"}, [True], [1, 0, "no"]),
        ({"maximum": 2**63}, [2**63], [2**63 + 1]),
        ({"maximum": 2**70}, [2**70], [2**70 + 1, 10**300]),
        ({"const": 2**53 + 1}, [2**53 + 1], [2**53, 2**53 + 2]),
        ({"enum": [2**70]}, [2**70], [2**70 + 1]),
        ({"enum": [1]}, [1, 1.0], [True]),
        ({"multipleOf": 3}, [3 * 2**70], [3 * 2**70 + 1]),
        ({"type": "integer", "minimum": 0}, [10**3999], [-(10**3999)]),
        ({"format": "date-time"}, ["2026-01-31T12:00:00Z"], ["yesterday"]),
        ({"format": "int64"}, [1, "x"], []),
    ],
)
def test_numbers_are_judged_exactly_bools_are_none_and_formats_are_asserted(
    schema: JsonObject, good: list[JsonValue], bad: list[JsonValue]
) -> None:
    compiled = compile_schema(schema)
    assert [compiled.accepts(value) for value in good] == [True] * len(good)
    assert [compiled.accepts(value) for value in bad] == [False] * len(bad)
    assert all(compiled.problems(value) for value in bad)


def test_a_lone_surrogate_never_passes_for_a_string() -> None:
    with pytest.raises(UnicodeEncodeError):
        compile_schema({"type": "string"}).accepts("\ud800")


def test_a_pattern_made_to_take_for_ever_ends() -> None:
    assert compile_schema({"pattern": "^(a|a)+(?=b)$"}).problems("a" * 60 + "c")


@pytest.mark.parametrize(
    ("schema", "value", "path", "message"),
    [
        ({"properties": {"n": {"type": "integer"}}}, {"n": "7"}, "/n", 'n: expected an integer, got the string "7"'),
        ({"properties": {"n": {"type": ["null", "integer"]}}}, {"n": True}, "/n",
         "n: expected an integer or null, got true"),
        ({"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}, {"n": [1]}, "/n",
         "n: expected an integer or null, got a list of 1"),
        ({"required": ["a"], "properties": {"a": {"type": "string"}}}, {}, "/a",
         "a: missing; expected this field, a string"),
        ({"properties": {"o": {"type": "object"}}}, {"o": "{}"}, "/o",
         'o: expected an object, got the string "{}"; send an object itself, not its text'),
        ({"items": {"enum": ["x", "y"]}}, ["x", "z"], "/1", '[1]: expected "x" or "y", got the string "z"'),
        ({"minimum": 3}, 2, "", "the arguments: expected at least 3, got the number 2"),
        ({"pattern": "^a"}, "b", "", 'the arguments: expected text that matches ^a, got the string "b"'),
        ({"maxLength": 2}, "abc", "", 'the arguments: expected at most 2 characters, got the string "abc"'),
        ({"format": "date"}, "x", "", 'the arguments: expected a date such as 2026-01-31, got the string "x"'),
        ({"uniqueItems": True}, [1, 1.0], "", "the arguments: expected a list without repetitions, got a list of 2"),
        ({"properties": {"a": False}}, {"a": 1}, "/a", "a: expected nothing here, got the number 1"),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, "/b", "b: expected another name, got this name"),
        ({"not": {"type": "null"}}, None, "", "the arguments: expected a value that fits the schema's 'not', got null"),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, "",
         "the arguments: expected a value that fits exactly one of the alternatives, got the number 3"),
    ],
)  # fmt: skip
def test_a_problem_says_where_what_was_expected_and_what_came(
    schema: JsonObject, value: JsonValue, path: str, message: str
) -> None:
    problem = only(schema, value)
    assert (problem.path, problem.message) == (path, message)


def test_an_unknown_field_is_named_with_the_nearest_real_one_also_deep_inside() -> None:
    schema = forbid_extra({**NODE, "properties": {"older_than": {"type": "integer"}}})
    problem = only(schema, {"next": {"next": {"nmae": "x"}}})
    assert (problem.path, problem.nearest) == ("/next/next/nmae", "name")
    assert only(schema, {"olderthan": 30}).nearest == "older_than"
    assert only(schema, {"OLDER_THAN": 30}).nearest == "older_than"
    far = only(schema, {"zzz": 30})
    assert far.nearest is None
    assert "older_than" in far.message


def test_a_field_that_only_failed_its_own_check_is_not_called_unknown() -> None:
    schema: JsonObject = {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}]}
    assert only(forbid_extra(schema), {"a": "x", "b": 1}).path == "/a"


def test_of_several_alternatives_the_closest_one_speaks() -> None:
    def kind(tag: str, field: str) -> JsonObject:
        return {
            "type": "object",
            "properties": {"kind": {"const": tag}, field: {"type": "integer"}},
            "required": ["kind"],
        }

    schema: JsonObject = {"properties": {"u": {"oneOf": [kind("a", "x"), kind("b", "y")]}}}
    assert only(schema, {"u": {"kind": "b", "y": "no"}}).path == "/u/y"
    assert only(schema, {"u": {"kind": "c"}}).expected == '"a" or "b"'
    assert only(schema, {"u": 1}).expected == "an object"


def test_values_are_shown_briefly_in_ascii_and_concealed_ones_not_at_all() -> None:
    schema: JsonObject = {
        "properties": {"a": {"type": "integer"}, "l": {"items": {"properties": {"pw": {"maxLength": 1}}}}}
    }
    shown = only(schema, {"a": "\u202e" + "x" * 10_000}).got
    assert shown.isascii() or shown.encode("ascii", "replace").count(b"?") == 1  # the ellipsis alone
    assert len(shown) <= len("the string ") + SHOWN
    secrets: list[JsonValue] = [{"a": "hush"}, {"l": [{"pw": "hush"}]}]
    for value in secrets:
        problem = only(schema, value, conceal=["/a", "/l/*/pw"])
        assert "hush" not in str(problem)
        assert "not shown" in problem.got
    assert "hush" not in str(only(schema, {"a": {"hush": "hush"}}, conceal=["/a"]))


def test_problems_are_bounded_in_number_and_length() -> None:
    schema: JsonObject = {"properties": {"a" * 5000: {}}, "additionalProperties": False}
    problems = compile_schema(schema).problems({"b" * 200 + str(n): n for n in range(100)}, limit=3)
    assert len(problems) == 3
    assert all(len(problem.path) <= 256 and len(problem.got) < 100 for problem in problems)
    assert all(len(problem.message) < 500 and len(problem.expected) < 500 for problem in problems)


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 1}),
        ({"properties": {"a": {"minimum": 5, "type": "integer"}}, "required": ["a"]}, {"a": 5}),
        ({"properties": {"a": {"type": "string", "format": "date"}}, "required": ["a"]}, {"a": "2026-01-31"}),
        ({"properties": {"a": {"type": "array", "items": {"enum": ["x"]}}}, "required": ["a"]}, {"a": ["x"]}),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}}, "required": ["a"]}, {"a": True}),
        ({"examples": [{"a": 9}], "properties": {"a": {}}}, {"a": 9}),
        ({"$ref": "#/$defs/N", "$defs": {"N": {"properties": {"n": {"default": 4}}, "required": ["n"]}}}, {"n": 4}),
        (
            {"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": "text"},
        ),
    ],
)
def test_an_example_has_the_required_fields_alone_and_fits(schema: JsonObject, shown: JsonValue) -> None:
    assert example(schema) == shown
    assert compile_schema(schema).accepts(example(schema))


def test_an_example_of_a_schema_without_end_ends_and_can_show_optional_fields() -> None:
    endless: JsonObject = {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]}
    assert example(endless)
    assert example({"properties": {"o": {"properties": {"n": {"type": "integer", "default": 0}}}}}, ["/o/n"]) == {
        "o": {"n": 1}
    }
