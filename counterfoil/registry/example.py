"""A small value that shows what a schema asks for, for texts about errors. Only what is required is in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ..canonical import JsonObject, JsonValue
from .problems import FORMATS
from .refs import Group, parts, referred, same_value

_MAX_DEPTH: Final = 6
_MAX_PARTS: Final = 60
_MAX_LENGTH: Final = 40


def example(schema: JsonObject, also: Sequence[str] = ()) -> JsonValue:
    """Such a value: from `examples`, `const`, `enum` and `default` where they are stated, else by type and limits.

    `also` holds JSON Pointers of optional fields to show. It fits most schemas, not all (a `pattern` is not read);
    whoever calls it correct validates it first.
    """
    return _Example(schema).of(schema, 0, [tuple(place.split("/")[1:]) for place in also])


class _Example:
    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.left = _MAX_PARTS

    def of(self, schema: JsonValue, depth: int, also: list[tuple[str, ...]] | None = None) -> JsonValue:
        """`also` is None away from the fields to show, where a default says more than a made-up value."""
        self.left -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self.left < 0:
            return None
        every = [part for part in same_value(self.root, schema) if _asserted(self.root, schema, part)]
        for part in every:
            stated = _stated(part, with_default=also is None)
            if stated:
                return stated[0]
        alternative = next((branch for part in every for branch in _alternatives(part)), None)
        if alternative is not None and not any("properties" in part for part in every):
            return self.of(alternative, depth + 1, also)
        return self._by_type(every, depth, also or [])

    def _by_type(self, every: list[JsonObject], depth: int, also: list[tuple[str, ...]]) -> JsonValue:
        limits: JsonObject = {}
        for part in reversed(every):
            limits |= part
        match _kind(limits):
            case "object":
                return self._object(every, depth, also)
            case "array":
                below = [place[1:] for place in also if len(place) > 1]
                item = self.of(limits.get("items"), depth + 1, below or None)
                least = limits.get("minItems", 0)
                return [item] * min(max(1, least if isinstance(least, int) else 0), 3)
            case "string":
                return _text(limits)
            case "integer" | "number" as kind:
                return _number(limits, whole=kind == "integer")
            case "boolean":
                return True
            case _:
                return None

    def _object(self, every: list[JsonObject], depth: int, also: list[tuple[str, ...]]) -> JsonValue:
        needed = [name for part in every for name in _names(part.get("required"))]
        shown = [place[0] for place in also if place and _property(every, place[0]) is not None]
        made: JsonObject = {}
        for name in dict.fromkeys([*needed, *shown]):
            below = [place[1:] for place in also if place[:1] == (name,)] if name in shown else None
            made[name] = self.of(_property(every, name) or {"type": "string"}, depth + 1, below)
        return made


def _names(required: JsonValue) -> list[str]:
    return [str(name) for name in required] if isinstance(required, list) else []


def _asserted(root: JsonObject, schema: JsonObject, part: JsonObject) -> bool:
    """True if the schema asserts this part through `$ref` and `allOf` alone."""
    waiting: list[JsonValue] = [schema]
    seen: list[int] = []
    while waiting and len(seen) < _MAX_PARTS:
        one = waiting.pop()
        if one is part:
            return True
        if not isinstance(one, dict) or id(one) in seen:
            continue
        seen.append(id(one))
        waiting.append(referred(root, one))
        waiting.extend(inner for where, inner in parts(one, Group.SAME) if where[0] == "allOf")
    return False


def _stated(part: JsonObject, *, with_default: bool) -> list[JsonValue]:
    examples, options = part.get("examples"), part.get("enum")
    found = list(examples[:1]) if isinstance(examples, list) else []
    found += [part["const"]] if "const" in part else []
    found += list(options[:1]) if isinstance(options, list) else []
    return found + ([part["default"]] if with_default and "default" in part else [])


def _alternatives(part: JsonObject) -> list[JsonValue]:
    branches = [inner for where, inner in parts(part, Group.SAME) if where[0] in ("anyOf", "oneOf")]
    return [branch for branch in branches if isinstance(branch, dict) and branch.get("type") != "null"]


def _kind(limits: JsonObject) -> JsonValue:
    kinds = limits.get("type")
    if isinstance(kinds, list):
        return next((kind for kind in kinds if kind != "null"), None)
    return kinds or ("object" if "properties" in limits or "required" in limits else None)


def _property(every: list[JsonObject], name: str) -> JsonObject | None:
    for part in every:
        properties = part.get("properties")
        stated = properties.get(name) if isinstance(properties, dict) else None
        if isinstance(stated, dict):
            return stated
    return None


def _text(limits: JsonObject) -> str:
    least, most = limits.get("minLength", 0), limits.get("maxLength", _MAX_LENGTH)
    text = FORMATS.get(str(limits.get("format")), "text")
    wanted = min(least, _MAX_LENGTH) if isinstance(least, int) else 0
    text = text.ljust(wanted, "x")
    return text[:most] if isinstance(most, int) else text


def _number(limits: JsonObject, *, whole: bool) -> int | float:
    """The least that the limits allow, else the greatest, else 1."""
    low, above = limits.get("minimum"), limits.get("exclusiveMinimum")
    high, below = limits.get("maximum"), limits.get("exclusiveMaximum")
    step = limits.get("multipleOf", 1)
    if isinstance(low, int | float):
        return math.ceil(low) if whole else low
    if isinstance(above, int | float):
        return math.floor(above) + 1
    if isinstance(high, int | float):
        return math.floor(high) if whole else high
    if isinstance(below, int | float):
        return math.ceil(below) - 1
    return step if isinstance(step, int | float) else 1
