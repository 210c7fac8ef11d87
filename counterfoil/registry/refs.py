"""Where a JSON Schema's parts are: which keywords hold schemas, of what, and what a local reference names.

Schemas of the same value, of its children, and those that only ask a question are told apart, because closing,
filling in and naming fields depend on it. Nothing here judges a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final
from urllib.parse import unquote

from ..canonical import JsonObject, JsonValue

Location = tuple[str | int, ...]


class Group(Enum):
    """What a keyword's schemas are about."""

    SAME = "the same value"
    CHILD = "a child of the value"
    QUESTION = "asked, never asserted as such"
    DEFINITION = "whatever refers to it"


KEYWORDS: Final = {
    "allOf": Group.SAME, "anyOf": Group.SAME, "oneOf": Group.SAME, "then": Group.SAME, "else": Group.SAME,
    "dependentSchemas": Group.SAME,
    "properties": Group.CHILD, "patternProperties": Group.CHILD, "additionalProperties": Group.CHILD,
    "unevaluatedProperties": Group.CHILD, "prefixItems": Group.CHILD, "items": Group.CHILD,
    "additionalItems": Group.CHILD, "unevaluatedItems": Group.CHILD,
    "if": Group.QUESTION, "not": Group.QUESTION, "contains": Group.QUESTION, "propertyNames": Group.QUESTION,
    "$defs": Group.DEFINITION, "definitions": Group.DEFINITION,
}  # fmt: skip
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})


def parts(schema: JsonObject, *groups: Group) -> Iterator[tuple[Location, JsonValue]]:
    """The schemas directly inside one, with where they are in it; booleans are schemas too."""
    for keyword, held in schema.items():
        if KEYWORDS.get(keyword) not in groups:
            continue
        if isinstance(held, list):
            yield from (((keyword, index), part) for index, part in enumerate(held))
        elif isinstance(held, dict) and keyword in _MAPS:
            yield from (((keyword, name), part) for name, part in held.items())
        else:
            yield (keyword,), held


def rebuilt(schema: JsonObject, change: Callable[[Location, JsonValue], JsonValue]) -> JsonObject:
    """A copy in which each schema directly inside was replaced by what `change` makes of it."""
    new = dict(schema)
    for keyword, held in schema.items():
        if keyword not in KEYWORDS:
            continue
        if isinstance(held, list):
            new[keyword] = [change((keyword, index), part) for index, part in enumerate(held)]
        elif isinstance(held, dict) and keyword in _MAPS:
            new[keyword] = {name: change((keyword, name), part) for name, part in held.items()}
        else:
            new[keyword] = change((keyword,), held)
    return new


def is_modern(root: JsonObject) -> bool:
    """True from 2019-09 on, where `unevaluatedProperties` exists and a `$ref` has siblings; absent is 2020-12."""
    dialect = root.get("$schema", "2020-12")
    return isinstance(dialect, str) and ("2020-12" in dialect or "2019-09" in dialect)


def local_target(ref: JsonValue) -> Location | None:
    """The location inside the document that `#/...` names; None for anchors and other documents."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    return tuple(unquote(token).replace("~1", "/").replace("~0", "~") for token in ref.split("/")[1:])


def pointer_text(location: Location) -> str:
    """The whole JSON Pointer of a location in a schema, however long."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in location)


def at(root: JsonValue, location: Location) -> JsonValue:
    """What is at a location; None if nothing is."""
    for token in location:
        if isinstance(root, dict) and token in root:
            root = root[str(token)]
        elif isinstance(root, list) and str(token).isdecimal() and int(token) < len(root):
            root = root[int(token)]
        else:
            return None
    return root


def referred(root: JsonObject, schema: JsonObject) -> JsonObject | None:
    """The schema that this one's `$ref` names inside the document, if it names one."""
    target = local_target(schema.get("$ref"))
    found = None if target is None else at(root, target)
    return found if isinstance(found, dict) else None


def same_value(root: JsonObject, schema: JsonValue, limit: int = 200) -> Iterator[JsonObject]:
    """A schema and every schema that it applies to the same value, through references; at most `limit` of them."""
    waiting: list[JsonValue] = [schema]
    seen: set[int] = set()
    while waiting and len(seen) < limit:
        part = waiting.pop(0)
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting.append(referred(root, part))
        waiting.extend(inner for _, inner in parts(part, Group.SAME))


def known_fields(root: JsonObject, schema: JsonValue) -> list[str]:
    """The names of the fields that a schema states for its value, also through references and compositions."""
    names: dict[str, None] = {}
    for part in same_value(root, schema):
        properties = part.get("properties")
        names.update(dict.fromkeys(properties if isinstance(properties, dict) else ()))
    return list(names)
