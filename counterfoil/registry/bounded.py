"""Bounds of JSON values, and values that Python code built, bounded: embedding has no bytes to read.

A value is copied into plain JSON types while everything in it is counted, so an endless or exploding one ends early.
Nothing is converted: what JSON does not have is refused with its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from ..canonical import MAX_DEPTH, JsonValue, pointer

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DIGITS: Final = 4_000
"""Digits of one number; under the 4,300 at which Python itself refuses to convert."""

_MAX_BITS: Final = int(MAX_DIGITS * math.log2(10))
_Path = tuple[str | int, ...]


class StrictJsonError(ValueError):
    """Bytes that are no JSON (`syntax`), or JSON that breaks a rule or a bound at `path` (a JSON Pointer)."""

    def __init__(self, path: str, expected: str, got: str, *, syntax: bool = False) -> None:
        super().__init__(f"{path or 'the whole value'}: expected {expected}, got {got}")
        self.path = path
        self.expected = expected
        self.got = got
        self.syntax = syntax


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is read: bytes in all, lists and objects inside one another, values, characters of one string or key.

    Text is counted before it is read: `nodes` are then its commas and opening brackets (an empty list counts twice).
    """

    bytes: int = 4 * 1024 * 1024
    depth: int = 64
    nodes: int = 100_000
    string: int = 1024 * 1024

    def __post_init__(self) -> None:
        if not (0 < self.depth <= MAX_DEPTH and self.bytes > 0 and self.nodes > 0 and self.string > 0):
            raise ValueError(f"bounds are positive, and depth is at most {MAX_DEPTH}: {self}")


DEFAULT_BOUNDS: Final = Bounds()


def bounded_copy(value: object, bounds: Bounds = DEFAULT_BOUNDS) -> JsonValue:
    """The same value in plain JSON types, sharing nothing with the original; parts that occur twice are copied twice.

    Members of string and number enums become plain. `bounds.bytes` is compared with the characters of all strings.

    Raises:
        StrictJsonError: a type that JSON does not have (tuples too), a key that is no string, NaN or an infinity, a
            lone surrogate, a number of too many digits, or one bound passed; also for a value that contains itself.
    """
    return Copier(bounds).copy(value, ())


def too_deep(path: Iterable[str | int], limit: int) -> StrictJsonError:
    """The refusal of the container at `path`."""
    return StrictJsonError(pointer(path), f"at most {limit} lists and objects inside one another", "more")


class Copier:
    """Copies values; what it has counted so far holds for all of them together."""

    __slots__ = ("bounds", "characters", "nodes")

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.nodes = 0
        self.characters = 0

    def copy(self, value: object, path: _Path) -> JsonValue:
        """As `bounded_copy`, of the part at `path`."""
        self.nodes += 1
        if self.nodes > self.bounds.nodes:
            raise StrictJsonError(pointer(path), f"at most {self.bounds.nodes:,} values", "more")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int):
            return _integer(value, path)
        if isinstance(value, float):
            return _number(value, path)
        if isinstance(value, dict | list):
            return self._container(cast("dict[object, object] | list[object]", value), path)
        raise StrictJsonError(pointer(path), "a JSON value", f"a Python {type(value).__name__}")

    def _container(self, value: dict[object, object] | list[object], path: _Path) -> JsonValue:
        if len(path) >= self.bounds.depth:
            raise too_deep(path, self.bounds.depth)
        if isinstance(value, list):
            return [self.copy(item, (*path, index)) for index, item in enumerate(value)]
        members: dict[str, JsonValue] = {}
        for key, member in value.items():
            if not isinstance(key, str):
                raise StrictJsonError(pointer(path), "keys that are strings", f"a Python {type(key).__name__}")
            here = (*path, key)
            members[self._text(key, here)] = self.copy(member, here)
        return members

    def _text(self, text: str, path: _Path) -> str:
        if len(text) > self.bounds.string:
            raise StrictJsonError(pointer(path), f"at most {self.bounds.string:,} characters", f"{len(text):,}")
        self.characters += len(text)
        if self.characters > self.bounds.bytes:
            raise StrictJsonError(pointer(path), f"at most {self.bounds.bytes:,} characters in all", "more")
        if not text.isascii():
            _check_unicode(text, path)
        return str.__str__(text)


def _check_unicode(text: str, path: _Path) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        got = f"a lone surrogate at character {error.start}"
        raise StrictJsonError(pointer(path), "Unicode text", got) from None


def _integer(number: int, path: _Path) -> int:
    if number.bit_length() > _MAX_BITS:
        raise StrictJsonError(pointer(path), f"a number of at most {MAX_DIGITS:,} digits", "more")
    return number if type(number) is int else int(number)


def _number(number: float, path: _Path) -> float:
    if not math.isfinite(number):
        got = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        raise StrictJsonError(pointer(path), "a JSON number", got)
    return number if type(number) is float else float(number)
