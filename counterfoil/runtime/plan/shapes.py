"""What a JSON Schema says of values that are not known yet: their kinds, and where a path into them can lead.

It errs towards "possible": a schema that it does not understand rules nothing out. One reading is stricter than JSON
Schema's own, and the same as for arguments: an object schema that states properties and says nothing of others has no
others, so that a mistyped name is found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias

from ...registry.predicates import Kind, kind_of
from ...registry.refs import referred
from ...registry.vocabulary import JsonObject, JsonValue

DEPTH: Final = 12
"""Alternatives inside one another that are followed at one place; deeper ones rule nothing out."""
MOST_PARTS: Final = 200
"""Schemas that are followed through `$ref` and `allOf` at one place; further ones rule nothing out."""
MOST_ALTERNATIVES: Final = 2_000
"""Alternatives that are followed on one way into a schema; further ones rule nothing out."""
EVERY_KIND: Final[frozenset[Kind]] = frozenset({"null", "bool", "number", "string", "array", "object"})
_KINDS: Final[dict[str, Kind]] = {
    "null": "null", "boolean": "bool", "number": "number", "integer": "number", "string": "string", "array": "array",
    "object": "object",
}  # fmt: skip


class _Said(Enum):
    """What a schema says of a place that it does not state."""

    NOTHING = "nothing"
    NO = "no other than the stated ones"
    NEVER = "there can be none"


_Found: TypeAlias = "JsonObject | bool | _Said"


@dataclass(frozen=True, eq=False)
class Shape:
    """A schema inside a document: `root` is what its local references are looked up in.

    `key` is the same for the same shape, and None where that is not known.
    """

    node: JsonValue
    root: JsonObject
    key: Hashable = None

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of JSON value that the schema allows."""
        return _Reading(self.root).kinds(self.node, DEPTH)


class Lookup:
    """Ways into shapes, each found once: a plan of thousands of steps has few tools."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[Shape | None, int]] = {}

    def inside(self, shape: Shape, path: Sequence[str | int]) -> tuple[Shape | None, int]:
        """As the function `inside`."""
        if shape.key is None:
            return inside(shape, path)
        key = (shape.key, *path)
        if key not in self._found:
            self._found[key] = inside(shape, path)
        return self._found[key]


ANYTHING: Final = Shape(node=True, root={}, key="anything")
TEXT: Final = Shape({"type": "string"}, {}, "text")


def listed(item: Shape, count: int | None) -> Shape:
    """A list of such values, of so many if that is known."""
    size: JsonObject = {} if count is None else {"minItems": count, "maxItems": count}
    node: JsonObject = {"type": "array", "items": item.node, **size}
    return Shape(node, item.root, None if item.key is None else ("list", count, item.key))


def or_null(shape: Shape) -> Shape:
    """The same, or null."""
    node: JsonObject = {"anyOf": [shape.node, {"type": "null"}]}
    return Shape(node, shape.root, None if shape.key is None else ("null", shape.key))


def inside(shape: Shape, path: Sequence[str | int]) -> tuple[Shape | None, int]:
    """What a path leads to, None if it can lead nowhere, and how many of its parts can be there."""
    node: JsonValue = shape.node
    reading = _Reading(shape.root)
    for index, part in enumerate(path):
        found = reading.member(node, part, DEPTH)
        if found is _Said.NO or found is _Said.NEVER:
            return None, index
        node = True if isinstance(found, _Said) else found
    key = None if shape.key is None else (shape.key, *path)
    return (Shape(node, shape.root, key) if path else shape), len(path)


def conjuncts(node: JsonValue, root: JsonObject) -> Iterator[JsonObject]:
    """A schema and all that it asserts of the same value through `$ref` and `allOf`, each once."""
    waiting = [node]
    seen: set[int] = set()
    for part in waiting:  # grows while it is read
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if len(seen) == MOST_PARTS:
            return
        if "$ref" in part:
            waiting.append(referred(root, part))
        every = part.get("allOf")
        if isinstance(every, list):
            waiting += every


def alternatives(node: JsonObject) -> Iterator[list[JsonValue]]:
    """The branches of `anyOf` and of `oneOf`: of each list a value fits at least one."""
    for word in ("anyOf", "oneOf"):
        branches = node.get(word)
        if isinstance(branches, list) and branches:
            yield branches


def stated_values(node: JsonObject) -> list[JsonValue] | None:
    """The values of `const` or `enum`; None if it lists none."""
    if "const" in node:
        return [node["const"]]
    options = node.get("enum")
    return options if isinstance(options, list) else None


class _Reading:
    """Reads one document; what was found of a schema is kept, so that shared and recursive ones cost nothing more."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.left = MOST_ALTERNATIVES
        self._kinds: dict[int, tuple[JsonObject, frozenset[Kind]]] = {}

    def kinds(self, node: JsonValue, depth: int) -> frozenset[Kind]:
        """See `Shape.kinds`."""
        if node is False:
            return frozenset()
        if not isinstance(node, dict) or depth == 0:
            return EVERY_KIND
        if id(node) not in self._kinds:
            self._kinds[id(node)] = node, EVERY_KIND
            self._kinds[id(node)] = node, self._asserted_kinds(node, depth)
        return self._kinds[id(node)][1]

    def _asserted_kinds(self, node: JsonObject, depth: int) -> frozenset[Kind]:
        found = EVERY_KIND
        for part in conjuncts(node, self.root):
            values = stated_values(part)
            if values is not None:
                found &= {kind_of(value) for value in values}
            stated = part.get("type")
            names = stated if isinstance(stated, list) else [] if stated is None else [stated]
            if names:
                found &= {_KINDS[name] for name in names if isinstance(name, str) and name in _KINDS}
            for branches in alternatives(part):
                found &= frozenset[Kind]().union(*(self.kinds(branch, depth - 1) for branch in branches))
        return found

    def member(self, node: JsonValue, part: str | int, depth: int) -> _Found:
        """The schema one step down, as far as all conjuncts together state it."""
        if node is False:
            return _Said.NEVER
        if not isinstance(node, dict) or depth == 0:
            return _Said.NOTHING
        if ("object" if isinstance(part, str) else "array") not in self.kinds(node, depth):
            return _Said.NEVER
        said: list[_Found] = []
        for one in conjuncts(node, self.root):
            said.append(_own_member(one, part) if isinstance(part, str) else _own_item(one, part))
            for group in alternatives(one):
                self.left -= len(group)
                branches = [self.member(branch, part, depth - 1) for branch in group if self.left > 0]
                said.append(_any_of(branches) if len(branches) == len(group) else _Said.NOTHING)
        if _Said.NEVER in said or len(said) >= MOST_PARTS:
            return _Said.NEVER if _Said.NEVER in said else _Said.NOTHING
        found = [one for one in said if isinstance(one, dict | bool)]
        if found:
            return found[0] if len(found) == 1 else {"allOf": list(found)}
        return _Said.NO if _Said.NO in said and not _is_open(node, self.root) else _Said.NOTHING


def _any_of(branches: list[_Found]) -> _Found:
    found = [one for one in branches if isinstance(one, dict | bool)]
    if _Said.NOTHING in branches:
        return True if found else _Said.NOTHING
    if found:
        return found[0] if len(found) == 1 else {"anyOf": list(found)}
    return _Said.NO if _Said.NO in branches else _Said.NEVER


def _own_member(node: JsonObject, name: str) -> _Found:
    properties = node.get("properties")
    if isinstance(properties, dict) and name in properties:
        return _schema(properties[name])
    if "patternProperties" in node:
        return _Said.NOTHING
    for word in ("additionalProperties", "unevaluatedProperties"):
        others = node.get(word)
        if others is False:
            return _Said.NEVER if word == "additionalProperties" else _Said.NO
        if isinstance(others, dict) or others is True:
            return others
    return _Said.NO if isinstance(properties, dict) else _Said.NOTHING


def _own_item(node: JsonObject, index: int) -> _Found:
    most = node.get("maxItems")
    if isinstance(most, int) and index >= most:
        return _Said.NEVER
    items = node.get("items")
    heads = items if isinstance(items, list) else node.get("prefixItems")
    if isinstance(heads, list) and index < len(heads):
        return _schema(heads[index])
    rest = node.get("additionalItems") if isinstance(items, list) else items
    if rest is False:
        return _Said.NEVER
    return rest if isinstance(rest, dict | bool) else _Said.NOTHING


def _is_open(node: JsonObject, root: JsonObject) -> bool:
    """Whether some part of it speaks of further members and lets them in."""
    parts = list(conjuncts(node, root))
    return any(
        "patternProperties" in one or isinstance(one.get(word), dict) or one.get(word) is True
        for one in parts
        for word in ("additionalProperties", "unevaluatedProperties")
    )


def _schema(value: JsonValue) -> _Found:
    return value if isinstance(value, dict | bool) else _Said.NOTHING
