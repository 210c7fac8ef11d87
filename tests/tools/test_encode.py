from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, field_serializer

from counterfoil.tools import encode as encoder
from counterfoil.tools.encode import encode


class Colour(Enum):
    RED = "red"


class Model(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    at: datetime
    secret: SecretStr
    renamed: int = Field(serialization_alias="other")
    hidden: str = Field(default="x", exclude=True)


@dataclass
class Point:
    x: int
    y: float = math.nan
    tags: set[str] = field(default_factory=set[str])


class Hostile:
    """Every way of looking at it fails."""

    def __repr__(self) -> str:
        raise RuntimeError("my secret")

    __str__ = __repr__

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("my secret")


class LeakyText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no")


def strict(text: str) -> Any:
    def refuse(token: str) -> Any:
        raise AssertionError(f"not JSON: {token}")

    return json.loads(text, parse_constant=refuse)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
plain_text = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.recursive(
    scalars | plain_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
    max_leaves=20,
)
any_text = st.text(st.characters())
keys = (
    any_text | st.integers() | st.floats() | st.none() | st.booleans() | st.tuples(st.integers()) | st.just(Colour.RED)
)
leaves: st.SearchStrategy[Any] = (
    scalars
    | any_text
    | st.floats()
    | st.binary()
    | st.decimals()
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.complex_numbers()
    | st.builds(object)
    | st.builds(Hostile)
    | st.just(LeakyText("x"))
    | st.builds(pow, st.just(10), st.just(5000))
    | st.sampled_from(Colour)
    | st.sets(st.integers() | any_text)
    | st.builds(Point, st.integers())
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists, objects = st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)
    return lists | st.tuples(inner, inner) | objects | lists.map(deque[Any]) | objects.map(MappingProxyType[Any, Any])


anything: st.SearchStrategy[Any] = st.recursive(
    leaves,
    containers,
    max_leaves=20,
)


@given(plain)
@settings(deadline=None)
def test_plain_json_is_unchanged(value: Any) -> None:
    encoded = encode(value)
    assert encoded.value == value
    assert encoded.changed == []
    assert strict(json.dumps(encoded.value)) == value


@given(anything)
@settings(deadline=None)
def test_anything_becomes_json_that_a_strict_parser_reads_back(value: Any) -> None:
    encoded = encode(value)
    text = json.dumps(encoded.value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert strict(text.decode()) == encoded.value


@given(anything, st.sampled_from([Model, list[datetime], dict[str, Point], Colour, int, Decimal]))
@settings(deadline=None, max_examples=50)
def test_a_return_type_that_does_not_fit_never_makes_it_fail(value: Any, kind: Any) -> None:
    json.dumps(encode(value, TypeAdapter(kind)).value, allow_nan=False)


def test_integers_stay_exact_up_to_four_thousand_digits() -> None:
    assert encode(725653563933458432).value == 725653563933458432
    assert encode([10**4000 - 1, 1 - 10**4000]).value == [10**4000 - 1, 1 - 10**4000]
    huge = encode({"n": 10**4000})
    assert huge.value == {"n": {"$number": hex(10**4000)}}
    assert huge.changed == ["/n"]


def test_floats_that_are_no_numbers_are_marked_at_their_place() -> None:
    encoded = encode({"mean": math.nan, "a/b": [math.inf, -math.inf]})
    assert encoded.value == {
        "mean": {"$number": "NaN"},
        "a/b": [{"$number": "Infinity"}, {"$number": "-Infinity"}],
    }
    assert encoded.changed == ["/mean", "/a~1b/0", "/a~1b/1"]


def test_lone_surrogates_are_written_out_in_values_and_in_keys() -> None:
    encoded = encode({"a": "x\ud800y", "\udfff": 1})
    assert encoded.value == {"a": {"$text": "x\\ud800y"}, "\\udfff": 1}
    assert encoded.changed == ["/a", "/\\udfff"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC), "2026-01-02T03:04:05.000678Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(minutes=1), "PT1M"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (PurePosixPath("a/b"), "a/b"),
        (Colour.RED, "red"),
        (b"\x00\xff", {"$bytes": "AP8="}),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, (2,)), [1, [2]]),
        (range(3), [0, 1, 2]),
        (SecretStr("hush"), "**********"),
        (LeakyText("x"), "x"),
    ],
)
def test_ordinary_python_values_have_their_usual_text(value: Any, written: Any) -> None:
    encoded = encode(value)
    assert (encoded.value, encoded.changed) == (written, [])


def test_models_use_their_aliases_and_keep_secrets_and_excluded_fields_to_themselves() -> None:
    model = Model(at=datetime(2026, 1, 1, tzinfo=UTC), secret=SecretStr("hush"), renamed=1)
    expected = {"at": "2026-01-01T00:00:00Z", "secret": "**********", "other": 1}
    assert encode(model).value == expected
    assert encode([model], TypeAdapter(list[Model])).value == [expected]


def test_a_model_whose_own_serializer_raises_is_known_by_its_type() -> None:
    class Broken(BaseModel):
        a: int = 1

        @field_serializer("a")
        def fail(self, value: int) -> int:
            raise RuntimeError("my secret")

    encoded = encode({"ok": 1, "bad": Broken()})
    assert encoded.value == {"ok": 1, "bad": {"$type": f"{__name__}.{Broken.__qualname__}"}}
    assert encoded.changed == ["/bad"]


def test_unknown_objects_are_known_by_type_and_never_by_repr() -> None:
    encoded = encode([object(), Hostile(), int, ValueError("my secret")])
    assert encoded.value == [
        {"$type": "builtins.object"},
        {"$type": f"{__name__}.Hostile"},
        {"$type": "builtins.type"},
        {"$type": "builtins.ValueError"},
    ]


def test_keys_that_are_no_text_become_text_and_none_is_lost() -> None:
    encoded = encode({1: "a", "1": "b", None: "c", Colour.RED: "d", (1,): "e"})
    assert encoded.value == {"1": "a", "1#2": "b", "None": "c", "red": "d", "$type:builtins.tuple": "e"}
    assert encoded.changed == ["/1", "/1#2", "/None", "/red", "/$type:builtins.tuple"]


def test_a_value_that_contains_itself_is_cut_where_it_begins_again() -> None:
    loop: dict[str, Any] = {"a": 1}
    loop["self"] = [loop]
    assert encode(loop).value == {"a": 1, "self": [{"$omitted": "a value that contains itself"}]}


def test_the_same_value_twice_side_by_side_is_no_cycle() -> None:
    shared = [1]
    assert encode([shared, shared]).value == [[1], [1]]


def test_sixty_four_levels_are_kept_and_the_next_is_omitted() -> None:
    def nested(levels: int) -> Any:
        value: Any = []
        for _ in range(levels - 1):
            value = [value]
        return value

    assert encode(nested(64)).changed == []
    deep = encode(nested(65))
    assert deep.changed == ["/0" * 64]
    assert "more than 64 levels" in json.dumps(deep.value)


def test_the_number_of_values_is_bounded_and_the_cut_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "VALUES_MAX", 100)
    doubling: Any = "x"
    for _ in range(60):
        doubling = [doubling, doubling]
    for value in (doubling, range(10**12), {i: i for i in range(5_000)}, set(range(5_000))):
        encoded = encode(value)
        assert "$omitted" in json.dumps(encoded.value)
        assert len(json.dumps(encoded.value)) < 20_000
        assert encoded.changed


def test_two_hundred_thousand_values_are_kept_and_the_next_is_omitted() -> None:
    assert encode([0] * 199_999).changed == []
    beyond = encode([0] * 1_000_000)
    assert isinstance(beyond.value, list)
    assert (len(beyond.value), beyond.value[-1]) == (200_000, {"$omitted": "more than 200000 values"})


def test_at_most_a_hundred_places_are_listed() -> None:
    assert len(encode([math.nan] * 500).changed) == 100
