"""Whether arguments that satisfy a JSON Schema can have a value at a given place.

It errs towards yes, but a schema that lists properties has only those unless it says otherwise: a mistyped name should
be found. Used for findings only, never to decide about a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .vocabulary import JsonObject, JsonValue

DEPTH = 16
"""References and alternatives followed below one place; deeper ones count as open."""


def has_path(schema: JsonObject, parts: Sequence[str]) -> bool:
    """True if the place that the parsed pointer `parts` names can exist."""
    return _has(schema, schema, parts, DEPTH)


def _has(node: JsonValue, root: JsonObject, parts: Sequence[str], depth: int) -> bool:
    if not parts or depth == 0 or node is True:
        return node is not False
    if not isinstance(node, dict):
        return False
    branches = list(_branches(node, root))
    if branches and any(_has(branch, root, parts, depth - 1) for branch in branches):
        return True
    step = _member(node, parts[0])
    if step is None:
        return not branches and not {"properties", "items", "prefixItems", "type", "enum", "const"} & node.keys()
    return _has(step, root, parts[1:], depth - 1)


def _member(node: JsonObject, part: str) -> JsonValue:
    """The schema one step down; None if this schema has no such member."""
    properties, prefix = node.get("properties"), node.get("prefixItems")
    if isinstance(properties, dict) and part in properties:
        return properties[part]
    if part.isdecimal():
        if isinstance(prefix, list) and int(part) < len(prefix):
            return prefix[int(part)]
        if "items" in node or node.get("type") == "array":
            return node.get("items", True)
    if "patternProperties" in node:
        return True
    if node.get("type") == "object" or isinstance(properties, dict):
        extra = node.get("additionalProperties", not isinstance(properties, dict))
        return None if extra is False else extra
    return None


def _branches(node: JsonObject, root: JsonObject) -> Iterator[JsonValue]:
    reference = node.get("$ref")
    if isinstance(reference, str):
        yield _follow(root, reference)
    for word in ("anyOf", "oneOf", "allOf"):
        alternatives = node.get(word)
        if isinstance(alternatives, list):
            yield from alternatives


def _follow(root: JsonObject, reference: str) -> JsonValue:
    node: JsonValue = root
    for part in reference.removeprefix("#").split("/")[1:]:
        node = node.get(part.replace("~1", "/").replace("~0", "~"), True) if isinstance(node, dict) else True
    return node
