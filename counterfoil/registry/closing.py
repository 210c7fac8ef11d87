"""`forbid_extra`: a schema that refuses every field it does not state, unless it says so itself.

An object schema that states `properties` alone gets `additionalProperties: false`. Where several schemas state fields
of one value, a closed one would refuse the others' fields, so they stay open and `unevaluatedProperties: false` goes
beside them (before 2019-09: all their names and `additionalProperties: false`). A definition that is used in both ways
stays open, and is closed where it is used alone.
"""

from __future__ import annotations

from typing import Final

from ..canonical import JsonObject, JsonValue
from .refs import KEYWORDS, Group, Location, is_modern, known_fields, local_target, parts, rebuilt, referred, same_value
from .schema import SchemaError, schema_bytes

_STATED: Final = frozenset({"additionalProperties", "unevaluatedProperties", "patternProperties"})
_ALTERNATIVES: Final = frozenset({"allOf", "anyOf", "oneOf", "$ref"})
_MAX_ROUNDS: Final = 100


def forbid_extra(schema: JsonObject) -> JsonObject:
    """The schema, closed; what it says explicitly of further fields stands. Pure, and a second time changes nothing.

    Schemas under `if`, `not`, `contains` and `propertyNames` ask a question and keep their meaning. An alternative of
    `anyOf` or `oneOf` is closed by itself, so a value may not mix the fields of two.

    Raises:
        SchemaError: no JSON, too large or too deep, or definitions that refer to one another beyond measure.
    """
    schema_bytes(schema)
    composed: frozenset[Location] = frozenset()
    for _ in range(_MAX_ROUNDS):
        closer = _Closer(schema, composed)
        closed = closer.close(schema, (), final=True)
        if isinstance(closed, dict) and closer.composed <= composed:
            return closed
        composed = composed | closer.composed
    raise SchemaError(f"definitions refer to one another through more than {_MAX_ROUNDS} compositions")


class _Closer:
    """One pass. `open_definitions` were found composed in earlier passes, `composed` are found in this one."""

    def __init__(self, root: JsonObject, open_definitions: frozenset[Location]) -> None:
        self.root = root
        self.modern = is_modern(root)
        self.open_definitions = open_definitions
        self.composed: set[Location] = set()

    def close(self, schema: JsonValue, here: Location, *, final: bool) -> JsonValue:
        """A copy; `final` if no other schema states fields of the same value."""
        if not isinstance(schema, dict):
            return schema
        stating = self._stating(schema)
        passed_on = final and len(stating) == 1 and stating[0] in _ALTERNATIVES
        target = local_target(schema.get("$ref"))
        if target is not None and not passed_on:
            self.composed.add(target)

        def inner(where: Location, part: JsonValue) -> JsonValue:
            group = KEYWORDS[str(where[0])]
            if group is Group.QUESTION:
                self._keep_open(part)
                return part
            if group is Group.SAME:
                return self.close(part, (*here, *where), final=passed_on)
            place = (*here, *where)
            return self.close(part, place, final=group is Group.CHILD or place not in self.open_definitions)

        closed = rebuilt(schema, inner)
        left_open = passed_on and target in self.open_definitions
        if final and stating and (not passed_on or left_open) and not self._says_itself(schema):
            self._shut(closed, schema, alone=stating == ["properties"])
        return closed

    def _stating(self, schema: JsonObject) -> list[str]:
        """The keywords through which a schema states fields of its value, once for each part that does."""
        found = ["properties"] if "properties" in schema else []
        if "$ref" in schema or "$dynamicRef" in schema:
            target = referred(self.root, schema)
            if target is None or self._states_fields(target):
                found = [*found, "$ref"] if self.modern else ["$ref"]
        branches = [(str(where[0]), part) for where, part in parts(schema, Group.SAME) if self._states_fields(part)]
        conjoined = [keyword for keyword, _ in branches if keyword not in ("anyOf", "oneOf")]
        return found + conjoined + sorted({keyword for keyword, _ in branches} & {"anyOf", "oneOf"})

    def _states_fields(self, schema: JsonValue) -> bool:
        return any("properties" in part for part in same_value(self.root, schema))

    def _says_itself(self, schema: JsonObject) -> bool:
        return any(_STATED & part.keys() for part in same_value(self.root, schema))

    def _keep_open(self, question: JsonValue) -> None:
        waiting: list[JsonValue] = [question]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                target = local_target(part.get("$ref"))
                self.composed.update(() if target is None else (target,))
                waiting.extend(part.values())
            elif isinstance(part, list):
                waiting.extend(part)

    def _shut(self, closed: JsonObject, schema: JsonObject, *, alone: bool) -> None:
        if alone:
            closed["additionalProperties"] = False
        elif self.modern:
            closed["unevaluatedProperties"] = False
        else:
            names: JsonObject = dict.fromkeys(known_fields(self.root, schema), True)
            own = closed.get("properties")
            closed["properties"] = names | (own if isinstance(own, dict) else {})
            closed["additionalProperties"] = False
            if "$ref" in closed:
                closed["allOf"] = [{"$ref": closed.pop("$ref")}]
