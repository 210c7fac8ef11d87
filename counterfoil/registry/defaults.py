"""From a valid value to the effective one: stated defaults are filled in, and `10.0` in an integer field becomes `10`.

Both follow the schema into objects, lists, local references and `allOf`. Of `anyOf` and `oneOf` they follow an
alternative only if the value fits that one alone; `if`, `then`, `else`, `dependentSchemas` and `patternProperties` are
not followed. A default is filled in only where the field is absent, the first stated one wins, and an absent object
is not made up for the sake of defaults inside it. No other value is ever changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..canonical import JsonObject, JsonValue, pointer
from .bounded import DEFAULT_BOUNDS, Copier, StrictJsonError
from .refs import Location, at, is_modern, local_target, pointer_text, referred

if TYPE_CHECKING:
    from jsonschema_rs import ValidatorMap

_EXACT: Final = 2**53
_MAX_STEPS: Final = 4 * DEFAULT_BOUNDS.nodes
_MAX_SAME_VALUE: Final = 50
_CHANGING: Final = (dict, list, float)


class Filler:
    """One walk over one value, which it changes in place.

    `filled` tells afterwards whether a default was put in.
    """

    def __init__(self, root: JsonObject, parts: ValidatorMap | None) -> None:
        self.root = root
        self.parts = parts
        self.modern = is_modern(root)
        self.defaults = Copier(DEFAULT_BOUNDS)
        self.steps = 0
        self.filled = False

    def fill(self, value: JsonValue) -> JsonValue:
        """The effective value of a valid one.

        Raises:
            StrictJsonError: an integer field holds a float beyond ±(2^53-1), where its digits are not certain, or the
                schema's defaults go on without end.
        """
        return self._apply(self.root, (), value, ())

    def _apply(self, schema: JsonValue, here: Location, value: JsonValue, path: Location, hops: int = 0) -> JsonValue:
        if not isinstance(schema, dict) or type(value) not in _CHANGING:
            return value
        self.steps += 1
        if self.steps > _MAX_STEPS or hops > _MAX_SAME_VALUE:
            raise StrictJsonError("", "a schema that ends", "references or defaults without end")
        target = local_target(schema.get("$ref"))
        if target is not None:
            value = self._apply(at(self.root, target), target, value, path, hops + 1)
            if not self.modern:
                return value
        for where in self._followed(schema, here, value):
            value = self._apply(at(self.root, where), where, value, path, hops + 1)
        if isinstance(value, float):
            return _whole(schema, value, path)
        if isinstance(value, dict):
            self._object(schema, here, value, path)
        elif isinstance(value, list):
            self._list(schema, here, value, path)
        return value

    def _followed(self, schema: JsonObject, here: Location, value: JsonValue) -> list[Location]:
        """All of `allOf`, and the one alternative that the value fits, if it is one."""
        every = schema.get("allOf")
        found = [(*here, "allOf", index) for index in range(len(every) if isinstance(every, list) else 0)]
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if self.parts is None or not isinstance(branches, list):
                continue
            places = [(*here, keyword, index) for index in range(len(branches))]
            fitting = [place for place in places if self._fits(self.parts, place, value)]
            found += fitting if len(fitting) == 1 else []
        return found

    def _fits(self, parts: ValidatorMap, place: Location, value: JsonValue) -> bool:
        validator = parts.get("#" + pointer_text(place))
        return validator is None or validator.is_valid(value)

    def _object(self, schema: JsonObject, here: Location, value: JsonObject, path: Location) -> None:
        properties = schema.get("properties")
        stated = properties if isinstance(properties, dict) else {}
        for name, part in stated.items():
            if name not in value and not self._put_default(part, name, value, path):
                continue
            if type(value[name]) in _CHANGING:
                value[name] = self._apply(part, (*here, "properties", name), value[name], (*path, name))
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and "patternProperties" not in schema:
            for name in value.keys() - stated.keys():
                value[name] = self._apply(others, (*here, "additionalProperties"), value[name], (*path, name))

    def _put_default(self, part: JsonValue, name: str, value: JsonObject, path: Location) -> bool:
        hops = 0
        while isinstance(part, dict) and hops < _MAX_SAME_VALUE:
            if "default" in part and (self.modern or "$ref" not in part):
                value[name] = self.defaults.copy(part["default"], (*path, name))
                self.filled = True
                return True
            part = referred(self.root, part)
            hops += 1
        return False

    def _list(self, schema: JsonObject, here: Location, value: list[JsonValue], path: Location) -> None:
        items, first = schema.get("items"), schema.get("prefixItems")
        head, head_at = (items, "items") if isinstance(items, list) else (first, "prefixItems")
        heads = head if isinstance(head, list) else []
        for index, item in enumerate(value):
            if index < len(heads):
                value[index] = self._apply(heads[index], (*here, head_at, index), item, (*path, index))
            elif isinstance(items, dict):
                value[index] = self._apply(items, (*here, "items"), item, (*path, index))


def _whole(schema: JsonObject, value: float, path: Location) -> float | int:
    """The one number rule: an integer field holds an integer."""
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "integer" not in kinds or "number" in kinds or not value.is_integer():
        return value
    if abs(value) >= _EXACT:
        raise StrictJsonError(pointer(path), "an integer written as digits alone", "a float beyond ±(2^53-1)")
    return int(value)
