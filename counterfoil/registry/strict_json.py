"""Bytes become bounded strict JSON here, and nowhere else: for both transports, the command line and embedding.

`parse` reads bytes, and `salvage_id` finds whom to answer when a message was refused. The C scanner of the standard
library does the reading; where something is wrong, a second and slower pass finds the place. Values that Python code
built are bounded beside this, in `bounded`. Whether a value fits a tool is not asked here.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from ..canonical import JsonValue, pointer
from .bounded import DEFAULT_BOUNDS, MAX_DIGITS, Bounds, StrictJsonError, bounded_copy, too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Bounds", "StrictJsonError", "bounded_copy", "parse", "salvage_id"]

_SHOWN: Final = 40
_CHUNK: Final = 64 * 1024
_MAX_CANDIDATES: Final = 20_000
_TOKEN = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)|[\[\]{},:]', re.DOTALL)
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MEMBER_ID = re.compile(
    rb'(?<!\\)"id"[ \t\r\n]*:[ \t\r\n]*(-?\d{1,19}|"(?:[^"\\]|\\.){0,256}+")[ \t\r\n]*[,}]', re.DOTALL
)
_Path = tuple[str | int, ...]


def parse(data: bytes, bounds: Bounds = DEFAULT_BOUNDS) -> JsonValue:
    """The value of strict JSON text (RFC 8259, I-JSON's rules on keys and strings): integers exact at any size.

    Raises:
        StrictJsonError: see its fields. No value is built before size, depth and number of values are known to be
            inside the bounds.
    """
    _check_outline(data, bounds)
    try:
        value = _decode(data.decode())
    except UnicodeDecodeError as error:
        got = f"the byte 0x{data[error.start]:02x} at {error.start}"
        raise StrictJsonError("", "UTF-8", got, syntax=True) from None
    except json.JSONDecodeError as error:
        raise StrictJsonError("", "JSON", f"{error.msg.lower()} at character {error.pos}", syntax=True) from None
    except RecursionError:
        raise too_deep((), bounds.depth) from None
    if len(data) > bounds.string or _SURROGATE_ESCAPE.search(data):
        return bounded_copy(value, bounds)
    return value


def salvage_id(data: bytes) -> str | int | None:
    """The `id` of a JSON-RPC message that was refused, so that the refusal can be sent to whoever waits for it.

    Best effort in one linear pass, whatever the text: the one string or integer that follows a member `id` of the
    outermost object; None if there is none, or if two differ.
    """
    if not data.lstrip(b" \t\r\n").startswith(b"{"):
        return None
    depth = at = 0
    found: set[str | int | None] = set()
    for match in islice(_MEMBER_ID.finditer(data), _MAX_CANDIDATES):
        between = _outline(data[at : match.start()])
        depth += between.count(b"{") + between.count(b"[") - between.count(b"}") - between.count(b"]")
        at = match.start()
        if depth == 1:
            found.add(_read_id(match[1]))
    return found.pop() if len(found) == 1 else None


def _read_id(token: bytes) -> str | int | None:
    try:
        read: str | int = json.loads(token.decode())
    except ValueError:
        return None
    return None if isinstance(read, str) and _LONE_SURROGATE.search(read) else read


def _check_outline(data: bytes, bounds: Bounds) -> None:
    """Size, depth and number of values, from counts that C code makes; exact for JSON, harmless for anything else."""
    if len(data) > bounds.bytes:
        raise StrictJsonError("", f"at most {bounds.bytes:,} bytes", f"{len(data):,} bytes")
    openings = data.count(b"[") + data.count(b"{")
    if openings <= bounds.depth and openings + data.count(b",") < bounds.nodes:
        return
    outline = _outline(data)
    nodes = outline.count(b"[") + outline.count(b"{") + outline.count(b",") + 1
    too_many = nodes > bounds.nodes
    if too_many or _may_nest_deeper(outline, bounds.depth):
        _refuse_depth(data, bounds.depth, tokens=10_000 if too_many else 6 * bounds.nodes)
    if too_many:
        raise StrictJsonError("", f"at most {bounds.nodes:,} values", f"about {nodes:,}")


def _outline(data: bytes) -> bytes:
    """What is outside strings, as far as the text is JSON: beyond the first error, which ends the parser, anything."""
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    outside: list[bytes] = []
    inside = 0
    for start in range(0, len(unescaped), _CHUNK):
        pieces = unescaped[start : start + _CHUNK].split(b'"')
        outside.append(b"".join(pieces[inside::2]))
        inside ^= (len(pieces) - 1) & 1
    return b"".join(outside)


def _may_nest_deeper(outline: bytes, limit: int) -> bool:
    """False if striking out the innermost pairs `limit` times leaves no bracket; true also if that never happens."""
    brackets = outline.translate(_ONE_KIND, _NOT_A_BRACKET)
    for _ in range(limit):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True


def _refuse_depth(data: bytes, limit: int, tokens: int) -> None:
    """Raise at the first opening bracket that is too deep, if one is among so many tokens."""
    path: list[str | int] = []
    for match in islice(_TOKEN.finditer(data), tokens):
        token = match[0]
        if token in (b"[", b"{"):
            if len(path) >= limit:
                raise too_deep(path, limit)
            path.append(0 if token == b"[" else "")
        elif not path:
            continue
        elif token in (b"]", b"}"):
            path.pop()
        elif token == b",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else ""
        elif match[1] and path[-1] == "":
            path[-1] = token[1:-1].decode(errors="replace")


class _BrokenRuleError(Exception):
    """Well-formed text breaks a rule; the second pass finds where."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """Stands in the second pass for a part that breaks a rule."""

    expected: str
    got: str
    key: str | None = None


def _duplicate(pairs: list[tuple[str, Any]]) -> _Fault | None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Fault("each key once", "it twice", key)
        seen.add(key)
    return None


def _number_fault(text: str) -> _Fault | None:
    if len(text) > MAX_DIGITS:
        return _Fault(f"a number of at most {MAX_DIGITS:,} digits", f"{len(text):,} characters")
    if not text.lstrip("-").isdigit() and math.isinf(float(text)):
        return _Fault("a number that a double can hold", text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    return None


def _strict_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _BrokenRuleError
    return members


def _strict_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _BrokenRuleError
    return int(text)


def _strict_float(text: str) -> float:
    if len(text) > MAX_DIGITS or math.isinf(number := float(text)):
        raise _BrokenRuleError
    return number


def _strict_constant(_text: str) -> NoReturn:
    raise _BrokenRuleError


_strict = json.JSONDecoder(
    object_pairs_hook=_strict_object,
    parse_int=_strict_int,
    parse_float=_strict_float,
    parse_constant=_strict_constant,
)
_marking = json.JSONDecoder(
    object_pairs_hook=lambda pairs: _duplicate(pairs) or dict(pairs),
    parse_int=lambda text: _number_fault(text) or 0,
    parse_float=lambda text: _number_fault(text) or 0.0,
    parse_constant=lambda text: _Fault("a JSON number", text),
)


def _decode(text: str) -> JsonValue:
    try:
        return cast("JsonValue", _strict.decode(text))
    except _BrokenRuleError:
        marked = _marking.decode(text)
    path, fault = next(_faults(marked, ()))
    place = path if fault.key is None else (*path, fault.key)
    raise StrictJsonError(pointer(place), fault.expected, fault.got)


def _faults(value: object, path: _Path) -> Iterator[tuple[_Path, _Fault]]:
    if isinstance(value, _Fault):
        yield path, value
    elif isinstance(value, dict):
        for key, member in cast("dict[str, object]", value).items():
            yield from _faults(member, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            yield from _faults(item, (*path, index))
