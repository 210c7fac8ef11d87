"""JSON values and their one canonical form, beneath all rooms: approvals, idempotency and the ledger share its bytes.

RFC 8785 with one stated extension: an integer beyond ±(2^53-1) is written as its exact digits.
Nothing here reads JSON, bounds what came from outside, or changes a value; foreign values are bounded before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Final, TypeAlias, cast

import rfc8785

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH: Final = 200
"""Containers inside one another; far above what the transports let in (64), far below the interpreter's own limit."""

MAX_POINTER: Final = 256

_EXACT: Final = 2.0**53
_LEAST_PLAIN: Final = 1e-4
_FIRST_EXPONENT: Final = 1e16
_FIRST_SURROGATE: Final = "\ud800"
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_encode_text = json.JSONEncoder(ensure_ascii=False).encode


class NotCanonicalError(ValueError):
    """A value that has no canonical form; `path` is the JSON Pointer of the first such place."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the whole value'}: {reason}")
        self.path = path
        self.reason = reason


def canonical(value: JsonValue) -> bytes:
    """The one byte form of a JSON value: RFC 8785, integers exact at any size, members of enums as their values.

    Time and memory follow the written length, so a value that shares parts with itself is to be bounded first.

    Raises:
        NotCanonicalError: NaN or an infinity, a lone surrogate, a key that is no string, a type that JSON does not
            have, more than `MAX_DEPTH` containers inside one another, or more digits than the interpreter writes.
    """
    if _is_plain(value):
        try:
            return _encode(value).encode()
        except ValueError:  # a lone surrogate or too many digits: the other way knows where
            pass
    return "".join(_written(value, ())).encode()


def sha256_hex(data: bytes) -> str:
    """Hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def pointer(tokens: Iterable[str | int]) -> str:
    """The JSON Pointer (RFC 6901) of a path, or of its last ancestor that takes at most `MAX_POINTER` characters.

    Keys come from outside, so they neither make an error text long nor break its encoding: a lone surrogate is shown
    as a question mark.
    """
    whole = ""
    for token in tokens:
        step = "/" + str(token).replace("~", "~0").replace("/", "~1")
        if len(whole) + len(step) > MAX_POINTER:
            break
        whole += step
    return whole if whole.isascii() else whole.encode("utf-8", "replace").decode()


def _is_plain(value: object) -> bool:
    """True where the C encoder writes exactly the canonical form.

    That leaves out floats which Python spells in its own way, keys that UTF-16 may order differently than code points
    do (all above U+D7FF, to be simple), and every type but JSON's own.
    """
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                members = cast("dict[object, object]", item)
                if not _has_plain_keys(members):
                    return False
                below += [member for member in members.values() if type(member) not in _SCALARS]
            elif kind is list:
                below += [member for member in cast("list[object]", item) if type(member) not in _SCALARS]
            elif kind not in _SCALARS and (kind is not float or not _is_plain_float(cast("float", item))):
                return False
        if not below:
            return True
        level = below
    return False


def _has_plain_keys(members: dict[object, object]) -> bool:
    try:
        names = "".join(cast("dict[str, object]", members))
    except TypeError:
        return False
    return names.isascii() or max(names) < _FIRST_SURROGATE


def _is_plain_float(number: float) -> bool:
    """In this range Python and ECMAScript both write the shortest digits that round-trip, without an exponent."""
    return _LEAST_PLAIN <= abs(number) < _FIRST_EXPONENT and not number.is_integer()


def _written(value: object, path: tuple[str | int, ...]) -> list[str]:
    match value:
        case None | bool():
            return ["null" if value is None else "true" if value else "false"]
        case str():
            return [_text(value, path)]
        case int():
            return [_integer(value, path)]
        case float():
            return [_float(value, path)]
        case list():
            return _list(cast("list[object]", value), path)
        case dict():
            return _object(cast("dict[object, object]", value), path)
        case _:
            raise NotCanonicalError(pointer(path), f"JSON has no {type(value).__name__}")


def _text(text: str, path: tuple[str | int, ...]) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotCanonicalError(pointer(path), f"a lone surrogate at character {error.start}") from None
    return _encode_text(text)


def _integer(number: int, path: tuple[str | int, ...]) -> str:
    try:
        return int.__repr__(number)
    except ValueError:
        raise NotCanonicalError(pointer(path), "an integer with more digits than can be written") from None


def _float(number: float, path: tuple[str | int, ...]) -> str:
    if number.is_integer() and abs(number) < _EXACT:
        return str(int(number))
    try:
        return rfc8785.dumps(number).decode()
    except rfc8785.FloatDomainError:
        raise NotCanonicalError(pointer(path), f"JSON has no {float.__repr__(number)}") from None


def _list(items: list[object], path: tuple[str | int, ...]) -> list[str]:
    _check_depth(path)
    parts = ["["]
    for index, item in enumerate(items):
        if index:
            parts.append(",")
        parts += _written(item, (*path, index))
    parts.append("]")
    return parts


def _object(members: dict[object, object], path: tuple[str | int, ...]) -> list[str]:
    _check_depth(path)
    parts: list[str] = []
    for _, written, key in sorted(_ordered_key(key, path) for key in members):
        parts += ["," if parts else "{", written, ":"]
        parts += _written(members[key], (*path, key))
    return [*parts, "}"] if parts else ["{}"]


def _ordered_key(key: object, path: tuple[str | int, ...]) -> tuple[bytes, str, str]:
    """RFC 8785 section 3.2.3: keys are ordered by their UTF-16 code units."""
    if not isinstance(key, str):
        raise NotCanonicalError(pointer(path), f"the key {key!r:.40} is no string")
    return key.encode("utf-16-be", "surrogatepass"), _text(key, path), key


def _check_depth(path: tuple[str | int, ...]) -> None:
    if len(path) >= MAX_DEPTH:
        raise NotCanonicalError(pointer(path), f"more than {MAX_DEPTH} lists and objects inside one another")
