r"""The one rule by which a handler's value becomes JSON. It is total: it never raises, and its work is bounded.

Plain JSON is unchanged, integers exact. Models, dataclasses and mappings become objects; tuples, deques and ranges
arrays; sets arrays in the order of their JSON text; enums their value; dates, times, UUIDs, paths, addresses and URLs
their usual text, decimals theirs; bytes `{"$bytes": base64}`; secrets ten asterisks.
What JSON cannot hold is marked, and its place listed in `changed`:

    {"$number": "NaN" | "Infinity" | "-Infinity"}    a float that is no number; a hexadecimal string: over 4000 digits
    {"$text": "a\\ud800b"}                           text with lone surrogates, written out
    {"$omitted": "why"}                              a cycle, more than 64 levels, more than 200,000 values
    {"$type": "module.Name"}                         anything else: by its type only, since a repr may hold secrets

A key that is no string becomes its `str`; one that would then be taken twice gets `#2`, `#3` and so on.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from numbers import Integral
from pathlib import PurePath
from typing import Any, Final, cast
from uuid import UUID

from pydantic import AnyUrl, BaseModel, SecretBytes, SecretStr, TypeAdapter
from pydantic_core import MultiHostUrl, Url, to_jsonable_python

from ..canonical import JsonObject, JsonValue

DEPTH_MAX: Final = 64
VALUES_MAX: Final = 200_000
CHANGED_MAX: Final = 100

_INTEGER_LIMIT = 10**4000
_SURROGATE = re.compile("[\ud800-\udfff]")
_ADDRESSES = (IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network)
_WRITTEN_AS_TEXT = (date, time, timedelta, UUID, Url, MultiHostUrl, AnyUrl, *_ADDRESSES)
_KEYS_BY_TEXT = (bool, int, float, type(None), Decimal, PurePath, *_WRITTEN_AS_TEXT)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A JSON value, and JSON Pointers to what could not be written as it was (the first 100)."""

    value: JsonValue
    changed: list[str] = field(default_factory=list[str])


def encode(value: object, return_type: TypeAdapter[Any] | None = None) -> Encoded:
    """Write a Python value as JSON; `return_type` lends the serializers of the declared type, where they work."""
    encoder = _Encoder()
    return Encoded(encoder.value(_shaped(value, return_type)), encoder.changed)


def _shaped(value: object, return_type: TypeAdapter[Any] | None) -> object:
    if return_type is None:
        return value
    try:
        return return_type.dump_python(value, by_alias=True, warnings=False)
    except Exception:  # noqa: BLE001 (serializers are the author's code; without them the value speaks for itself)
        return value


class _Encoder:
    """One value's way into JSON: where it is, what is open above it, how much may still come."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self._path: list[str] = []
        self._open: set[int] = set()
        self._left = VALUES_MAX

    def value(self, value: object) -> JsonValue:
        self._left -= 1
        try:
            return self._of(value)
        except Exception:  # noqa: BLE001 (a value's own methods may raise anything; it is then known by its type)
            return self._mark("$type", _type_name(value))

    def _of(self, value: object) -> JsonValue:  # noqa: PLR0911 (one line a kind)
        kind = type(value)
        if kind is str:
            return self._text(value)  # type: ignore[arg-type] # the exact type was just compared
        if value is None or kind is bool:
            return value  # type: ignore[return-value] # the exact type was just compared
        if kind is dict or kind is list:
            return self._container(value)
        if isinstance(value, Enum):
            return self.value(value.value)
        if isinstance(value, str | int | float | Integral | Decimal):
            return self._scalar(value)
        if isinstance(value, bytes | bytearray):
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        if isinstance(value, SecretStr | SecretBytes):
            return "**********"
        if isinstance(value, PurePath):
            return self._text(str(value))
        if isinstance(value, _WRITTEN_AS_TEXT):
            return self._text(to_jsonable_python(value))
        return self._container(value)

    def _scalar(self, value: str | float | Integral | Decimal) -> JsonValue:
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, float):
            number = float.__float__(value)
            return number if math.isfinite(number) else self._mark("$number", _NOT_NUMBERS.get(number, "NaN"))
        whole = int.__index__(value) if isinstance(value, int) else int(value)
        return whole if -_INTEGER_LIMIT < whole < _INTEGER_LIMIT else self._mark("$number", hex(whole))

    def _container(self, value: object) -> JsonValue:
        if id(value) in self._open:
            return self._mark("$omitted", "a value that contains itself")
        if len(self._open) >= DEPTH_MAX:
            return self._mark("$omitted", f"more than {DEPTH_MAX} levels")
        self._open.add(id(value))
        try:
            return self._opened(value)
        finally:
            self._open.discard(id(value))

    def _opened(self, value: object) -> JsonValue:
        if type(value) is not dict and isinstance(value, BaseModel):
            return self._dumped(value.model_dump(by_alias=True, warnings=False))
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[object, object]", value).items())
        if isinstance(value, list | tuple | deque | range):
            return self._array(cast("Iterable[object]", value))
        if isinstance(value, set | frozenset):
            return self._set(cast("Iterable[object]", value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return self._mark("$type", _type_name(value))

    def _dumped(self, dumped: object) -> JsonValue:
        """What a model made of itself: an object as a rule, a root model's own value, or what its serializer gave."""
        return (
            self._object(cast("dict[object, object]", dumped).items())
            if isinstance(dumped, dict)
            else self.value(dumped)
        )

    def _array(self, values: Iterable[object]) -> list[JsonValue]:
        array: list[JsonValue] = []
        for index, value in enumerate(values):
            last = self._left <= 0
            array.append(self._at(str(index), value))
            if last:
                break
        return array

    def _set(self, values: Iterable[object]) -> list[JsonValue]:
        array: list[JsonValue] = []
        for value in values:
            last = self._left <= 0
            array.append(self._bounded(value))
            if last:
                break
        return sorted(array, key=lambda item: json.dumps(item, sort_keys=True))

    def _object(self, members: Iterable[tuple[object, object]]) -> JsonObject:
        written: JsonObject = {}
        names = _Names(written)
        for key, value in members:
            last = self._left <= 0
            name = names.free(key)
            written[name] = self._at(name, value, renamed=name != key)
            if last:
                break
        return written

    def _at(self, step: str, value: object, *, renamed: bool = False) -> JsonValue:
        self._path.append(step)
        try:
            if renamed:
                self._note()
            return self._bounded(value)
        finally:
            self._path.pop()

    def _bounded(self, value: object) -> JsonValue:
        if self._left <= 0:
            return self._mark("$omitted", f"more than {VALUES_MAX} values")
        return self.value(value)

    def _text(self, text: str) -> JsonValue:
        return self._mark("$text", _escaped(text)) if not text.isascii() and _SURROGATE.search(text) else text

    def _mark(self, tag: str, text: str) -> JsonObject:
        self._note()
        return {tag: text}

    def _note(self) -> None:
        pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in self._path)
        if len(self.changed) < CHANGED_MAX and pointer not in self.changed:
            self.changed.append(pointer)


_NOT_NUMBERS = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _escaped(text: str) -> str:
    return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _key(key: object) -> str:
    if isinstance(key, Enum):
        return _key(key.value)
    if isinstance(key, str):
        return _escaped(str.__str__(key))
    if isinstance(key, _KEYS_BY_TEXT):
        try:
            return _escaped(str(key))
        except Exception:  # noqa: BLE001 (an integer of too many digits, or a subclass's own __str__)
            return f"$type:{_type_name(key)}"
    return f"$type:{_type_name(key)}"


class _Names:
    """Gives each member of one object a name of its own, in time that does not grow with the number of clashes."""

    def __init__(self, taken: JsonObject) -> None:
        self._taken = taken
        self._counts: dict[str, int] = {}

    def free(self, key: object) -> str:
        name = _key(key)
        if name not in self._taken:
            return name
        number = self._counts.get(name, 1) + 1
        while f"{name}#{number}" in self._taken:
            number += 1
        self._counts[name] = number
        return f"{name}#{number}"


def _type_name(value: object) -> str:
    kind = type(value)
    try:
        return _escaped(f"{kind.__module__}.{kind.__qualname__}")
    except Exception:  # noqa: BLE001 (both can be set to anything)
        return "unknown"
