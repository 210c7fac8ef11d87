"""JSON Schemas of Python types as tools show them: no generated field titles, bytes as the encoder writes them.

Also finds which arguments a schema marks as sensitive. It never looks at a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from ..canonical import JsonObject, JsonValue

_NESTING_MAX = 16


class DefaultError(TypeError):
    """A default value that JSON cannot hold; the message is pydantic's own."""


class _Schemas(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 (pydantic's signature)
        return False

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        if self.mode != "serialization":
            return super().bytes_schema(schema)
        text = {"type": "string", "contentEncoding": "base64"}
        return {"type": "object", "properties": {"$bytes": text}, "required": ["$bytes"]}

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        if kind == "non-serializable-default" and self.mode == "validation":
            raise DefaultError(detail)


def input_schema(adapter: TypeAdapter[Any]) -> JsonObject:
    """What is accepted.

    Raises:
        DefaultError: a default that cannot be shown.
        pydantic.errors.PydanticUserError: a type without a schema.
    """
    return _without_title(adapter.json_schema(by_alias=True, schema_generator=_Schemas, mode="validation"))


def output_schema(adapter: TypeAdapter[Any]) -> JsonObject:
    """What is given back, in the encoder's form.

    Raises:
        pydantic.errors.PydanticUserError: a type without a schema.
    """
    return _without_title(adapter.json_schema(by_alias=True, schema_generator=_Schemas, mode="serialization"))


def _without_title(schema: JsonObject) -> JsonObject:
    return {key: value for key, value in schema.items() if key != "title"}


def sensitive_pointers(schema: JsonObject) -> list[str]:
    """JSON Pointers into the arguments to what is secret by type or by `x-sensitive`; `*` is every element."""
    return sorted(set(_sensitive(schema, schema, "", _NESTING_MAX)))


def _sensitive(node: JsonValue, root: JsonObject, pointer: str, depth: int) -> Iterator[str]:
    if not isinstance(node, dict) or depth == 0:
        return
    if node.get("x-sensitive") is True or (node.get("writeOnly") is True and node.get("format") == "password"):
        yield pointer
        return
    reference = node.get("$ref")
    if isinstance(reference, str):
        yield from _sensitive(_definition(root, reference), root, pointer, depth - 1)
    for step, child in _children(node):
        yield from _sensitive(child, root, pointer + step, depth - 1)


def _children(node: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    properties = node.get("properties")
    if isinstance(properties, dict):
        for name, child in properties.items():
            yield "/" + name.replace("~", "~0").replace("/", "~1"), child
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            yield "/*", node[keyword]
    for index, child in enumerate(cast("list[JsonValue]", node.get("prefixItems", []))):
        yield f"/{index}", child
    for keyword in ("anyOf", "oneOf", "allOf"):
        for child in cast("list[JsonValue]", node.get(keyword, [])):
            yield "", child


def _definition(root: JsonObject, reference: str) -> JsonValue:
    definitions = root.get("$defs")
    name = reference.removeprefix("#/$defs/")
    return definitions.get(name) if isinstance(definitions, dict) else None
