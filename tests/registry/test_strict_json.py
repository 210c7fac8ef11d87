"""Strict, bounded reading of bytes; bounded copies; and whom to answer when a message was refused."""

from __future__ import annotations

import json
import math
import tracemalloc
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.canonical import JsonValue, canonical
from counterfoil.registry.strict_json import Bounds, StrictJsonError, bounded_copy, parse, salvage_id

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
)


def refusal(data: bytes, bounds: Bounds | None = None) -> StrictJsonError:
    with pytest.raises(StrictJsonError) as refused:
        parse(data, bounds or Bounds())
    return refused.value


@settings(deadline=None)
@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_every_json_value_is_read_as_it_was_written(value: JsonValue, ascii_only: bool, indent: int | None) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()) == value


@settings(deadline=None)
@given(VALUES)
def test_tight_bounds_give_the_same_value_or_a_refusal_never_another_value(value: JsonValue) -> None:
    data = canonical(value)
    try:
        read = parse(data, Bounds(depth=2, nodes=6, string=3))
    except StrictJsonError:
        assert parse(data) == json.loads(data)
    else:
        assert read == json.loads(data)


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text('{}[]",:\\1eEu0d8 ', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused_and_an_id_is_looked_for_without_an_error(data: bytes) -> None:
    salvage_id(data)
    try:
        value = parse(data)
    except StrictJsonError:
        return
    assert json.loads(data) == value
    canonical(value)


@pytest.mark.parametrize(
    ("data", "path", "got"),
    [
        (b'{"a":{"b":1,"c":2,"b":3}}', "/a/b", "twice"),
        (b'{"a":1,"\\u0061":1}', "/a", "twice"),
        (b'{"x":[1,{"b":NaN}]}', "/x/1/b", "NaN"),
        (b"[Infinity]", "/0", "Infinity"),
        (b"-Infinity", "", "-Infinity"),
        (b"[0,1e400]", "/1", "1e400"),
        (b"[-1e999999999999999999]", "/0", "-1e9"),
        (b'{"n":' + b"9" * 4001 + b"}", "/n", "4,001"),
        (b"[0." + b"9" * 4001 + b"]", "/0", "4,003"),
        (b'{"a":"\\ud800"}', "/a", "surrogate"),
        (b'["\\uDFFF\\ud800"]', "/0", "surrogate"),
        (b'{"a":{"\\ud800":1}}', "/a/?", "surrogate"),
    ],
)
def test_a_broken_rule_is_refused_with_its_place(data: bytes, path: str, got: str) -> None:
    error = refusal(data)
    assert (error.path, error.syntax) == (path, False)
    assert got in error.got


@pytest.mark.parametrize(
    "data",
    [b"", b"nul", b"[1,]", b"[1] 2", b"01", b"+1", b".5", b"1.", b"'a'", b'"a\nb"', b'{"a":1', b'{"a":1,"a":2',
     b"[NaN,}", b'"\xff"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf{}", b"\x00", b"[" * 60, b"[" * 70 + b'"', b"//x\n1"],
)  # fmt: skip
def test_what_is_no_json_at_all_is_told_apart_from_a_broken_rule(data: bytes) -> None:
    assert refusal(data, Bounds(depth=100)).syntax


def test_integers_stay_exact_and_escaped_pairs_become_one_character() -> None:
    assert parse(b"[9007199254740993,725653563933458432,-1]") == [9007199254740993, 725653563933458432, -1]
    assert parse(b"9" * 4000) == 10**4000 - 1
    assert parse(b'"\\ud83d\\ude00 \\\\ud800"') == "\U0001f600 \\ud800"


def test_depth_is_bounded_exactly_and_strings_do_not_count() -> None:
    assert parse(b"[" * 64 + b"]" * 64)
    assert parse(b'["' + b"[{" * 500 + b'", "\\"[[[[", "\\\\"' + b",[]" * 100 + b"]")
    assert parse(b'["' + b"[" * 200_000 + b'\\"[' * 3 + b'","' + b"," * 200_000 + b'"]', Bounds(nodes=3))
    assert refusal(b'{"a":' * 65 + b"1" + b"}" * 65).path == "/a" * 64
    assert refusal(b'{"p":[1,2,' + b'[{"k":' * 40 + b"1" + b"}]" * 40 + b"]}").path.startswith("/p/2/0/k/0/k")
    assert parse(b"[" + b",".join([b"[{}]"] * 5000) + b"]", Bounds(depth=3))
    with pytest.raises(StrictJsonError, match="inside one another"):
        parse(b"[" + b",".join([b"[{}]"] * 5000) + b"]", Bounds(depth=2))


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_a_million_brackets_are_refused_without_reading_them(opening: bytes) -> None:
    data = opening * 1_000_000
    tracemalloc.start()
    error = refusal(data, Bounds(bytes=10_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not error.syntax
    assert "inside one another" in error.expected
    assert peak < 10 * len(data)


def test_size_number_of_values_and_length_of_strings_are_bounded() -> None:
    assert refusal(b" " * 11, Bounds(bytes=10)).got == "11 bytes"
    assert parse(b"[1,2,3,4]", Bounds(nodes=5)) == [1, 2, 3, 4]
    assert "5 values" in refusal(b"[1,2,3,4,5]", Bounds(nodes=5)).expected
    assert parse(b'[",,,,,,,,,,,,"]', Bounds(nodes=2))
    assert refusal(b'["x", "' + b"y" * 20 + b'"]', Bounds(string=19)).path == "/1"
    assert "100,000 values" in refusal(b"[" + b"[]," * 1_000_000 + b"[]]").expected


def test_bounds_that_cannot_be_kept_are_refused() -> None:
    with pytest.raises(ValueError, match="depth is at most"):
        Bounds(depth=5000)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"params":{"id":9,"a":NaN}}', 7),
        (b'{"params":{"id":"in","a":1,"a":2},"id":"out\\n"}', "out\n"),
        (b'{"params":' + b"[" * 100_000 + b"]" * 100_000 + b',"id":3}', 3),
        (b'{"params":[' + b'{"id":1},' * 3000 + b'1],"id":4}', 4),
        (b'{"x":"\xff","id":4}', 4),
        (b' {"a":"\\"id\\":5","id" : 6 }', 6),
        (b'{"id":1,"id":1}', 1),
        (b'{"id":1,"id":2}', None),
        (b'{"params":{"id":1}}', None),
        (b'[{"id":1}]', None),
        (b'{"id":null}', None),
        (b'{"id":true}', None),
        (b'{"id":1.5}', None),
        (b'{"id":"\\ud800"}', None),
        (b'{"id":"' + b"x" * 300 + b'"}', None),
        (b'{"id":' + b"1" * 300 + b"}", None),
        (b"no json", None),
    ],
)
def test_the_id_of_a_refused_message_is_found_where_there_is_one(data: bytes, found: str | int | None) -> None:
    assert salvage_id(data) == found


@settings(deadline=None)
@given(VALUES)
def test_a_bounded_copy_is_equal_and_shares_nothing(value: JsonValue) -> None:
    copy = bounded_copy(value)
    assert copy == value
    if isinstance(copy, dict | list) and copy:
        assert copy is not value


def test_a_copy_is_of_plain_types_and_parts_that_occur_twice_are_two() -> None:
    class Word(StrEnum):
        YES = "yes"

    class Level(IntEnum):
        HIGH = 3

    shared = [1]
    copy: Any = bounded_copy({Word.YES: [Word.YES, Level.HIGH, True], "a": shared, "b": shared})
    assert [type(item) for item in [*copy, *copy["yes"]]] == [str, str, str, str, int, bool]
    assert copy["a"] is not copy["b"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [math.nan]}, "/a/0"),
        ([-math.inf], "/0"),
        ({"a": "\ud800"}, "/a"),
        ({"a": {"\ud800": 1}}, "/a/?"),
        ({"a": (1, 2)}, "/a"),
        ({"a": {1: 2}}, "/a"),
        ([b"x"], "/0"),
        ([10**5000], "/0"),
        ([object()], "/0"),
    ],
)
def test_what_json_does_not_have_is_not_copied(value: JsonValue, path: str) -> None:
    with pytest.raises(StrictJsonError) as refused:
        bounded_copy(value)
    assert refused.value.path == path


def test_endless_deep_and_exploding_values_end_early() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    bomb: list[Any] = ["x" * 10]
    text_bomb = ["x" * 1_000_000] * 1_000
    for _ in range(40):
        bomb = [bomb, bomb]
    deep: list[Any] = []
    for _ in range(1000):
        deep = [deep]
    for value in (loop, bomb, deep, text_bomb):
        with pytest.raises(StrictJsonError, match="at most"):
            bounded_copy(value)
