"""The canonical form, against the RFC's own numbers and an independent implementation."""

from __future__ import annotations

import json
import math
import struct
from enum import IntEnum, StrEnum
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.canonical import MAX_DEPTH, MAX_POINTER, JsonValue, NotCanonicalError, canonical, pointer, sha256_hex

SAFE = 2**53 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["\ufb33", "\U0001f600", "é", ""]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def values(integers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | integers | FLOATS | TEXT
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


def nested(depth: int, innermost: JsonValue = 1) -> JsonValue:
    value: JsonValue = innermost
    for _ in range(depth):
        value = cast("JsonValue", [value])
    return value


def same(read: object, written: object) -> bool:
    """Equal as JSON: a float is what its digits read as."""
    if isinstance(written, dict) and isinstance(read, dict):
        mine, theirs = cast("dict[str, object]", written), cast("dict[str, object]", read)
        return mine.keys() == theirs.keys() and all(same(theirs[key], mine[key]) for key in mine)
    if isinstance(written, list) and isinstance(read, list):
        pairs = zip(cast("list[object]", read), cast("list[object]", written), strict=True)
        return all(same(one, other) for one, other in pairs)
    if isinstance(written, bool) or written is None or isinstance(written, str | int):
        return read is written if isinstance(written, bool) else read == written
    return float(cast("float", read)) == written


@settings(deadline=None)
@given(values(st.integers(-SAFE, SAFE)))
def test_it_agrees_with_an_independent_rfc_8785_implementation(value: JsonValue) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@settings(deadline=None)
@given(values(st.integers()))
def test_reading_it_gives_the_value_back_at_any_size_of_integer(value: JsonValue) -> None:
    assert same(json.loads(canonical(value)), value)


@given(st.integers())
def test_an_integer_is_written_as_its_exact_digits(number: int) -> None:
    assert canonical([number]) == f"[{number}]".encode()


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555555", "333333333.3333333"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
    ],
)
def test_the_numbers_of_the_rfcs_appendix_b_come_out_as_printed_there(bits: str, text: str) -> None:
    number = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical(number) == text.encode()


def test_keys_are_ordered_by_utf_16_units_not_by_code_points() -> None:
    assert canonical({"\U0001f600": 1, "\ufb33": 2, "a": 3}) == '{"a":3,"\U0001f600":1,"\ufb33":2}'.encode()


def test_control_characters_are_escaped_as_ecmascript_does() -> None:
    assert canonical('\x00\x1f\n"\\/\x7f') == b'"\\u0000\\u001f\\n\\"\\\\/\x7f"'


def test_ten_and_ten_point_zero_are_the_same_bytes() -> None:
    assert canonical({"a": 10}) == canonical({"a": 10.0}) == b'{"a":10}'


def test_integers_that_a_double_cannot_tell_apart_keep_different_bytes() -> None:
    assert canonical(2**53) != canonical(2**53 + 1)


def test_members_of_enums_count_as_their_values() -> None:
    class Word(StrEnum):
        YES = "yes"

    class Level(IntEnum):
        HIGH = 3

    value: Any = {Word.YES: [Word.YES, Level.HIGH, 1.0]}
    assert canonical(value) == b'{"yes":["yes",3,1]}'


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, ""),
        ([math.inf], "/0"),
        ({"a": [1, -math.inf]}, "/a/1"),
        ({"a/b": {"~": "\ud800"}}, "/a~1b/~0"),
        ({"a": {"x\udfff": 1}}, "/a"),
        ({"a": {1: 2}}, "/a"),
        ({"a": {None: 2}}, "/a"),
        ({"a": (1, 2)}, "/a"),
        ([b"bytes"], "/0"),
        ([{1, 2}], "/0"),
        ([10**5000], "/0"),
    ],
)
def test_what_json_does_not_have_is_refused_with_its_place(value: JsonValue, path: str) -> None:
    with pytest.raises(NotCanonicalError) as refused:
        canonical(value)
    assert refused.value.path == path


def test_depth_is_bounded_the_same_on_both_ways() -> None:
    assert canonical(nested(MAX_DEPTH)) == b"[" * MAX_DEPTH + b"1" + b"]" * MAX_DEPTH
    assert canonical(nested(MAX_DEPTH, 1.0)) == canonical(nested(MAX_DEPTH))
    for innermost in (1, 1.0):
        with pytest.raises(NotCanonicalError, match="inside one another"):
            canonical(nested(MAX_DEPTH + 1, innermost))
    with pytest.raises(NotCanonicalError):
        canonical(nested(100_000))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotCanonicalError):
        canonical(loop)


def test_a_pointer_is_escaped_bounded_and_always_text() -> None:
    assert pointer(["a/b", "~", 0]) == "/a~1b/~0/0"
    assert pointer(["a", "x" * 10_000, "b"]) == "/a"
    assert len(pointer(["abcdefg"] * 1000)) <= MAX_POINTER
    pointer(["\ud800"]).encode()


def test_sha256_is_of_the_bytes() -> None:
    assert sha256_hex(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
