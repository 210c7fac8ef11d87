"""Whether two schemas certainly have no value in common: then what one step gives can never be what another takes.

It answers yes only where that follows from kinds, stated values, required members, lengths or ranges. Everything else
is possible, patterns and formats included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import prod
from typing import Final

from ...registry.predicates import Kind, same
from ...registry.vocabulary import JsonObject, JsonValue
from .shapes import Shape, alternatives, conjuncts, inside, stated_values

MOST_QUESTIONS: Final = 400
"""Pairs of schemas looked at for one answer; beyond them everything is possible."""
MOST_MEMBERS: Final = 100
"""Required members that are compared; and stated values, that many times that many."""
_DEPTH: Final = 5


def disjoint(left: Shape, right: Shape) -> bool:
    """True if no value fits both."""
    return _Comparison().disjoint(left, right, _DEPTH)


def fits(value: JsonValue, shape: Shape) -> bool:
    """False if a known value certainly does not fit."""
    return not disjoint(Shape({"const": value}, {}), shape)


class _Comparison:
    def __init__(self) -> None:
        self.left = MOST_QUESTIONS

    def disjoint(self, one: Shape, other: Shape, depth: int) -> bool:
        self.left -= 1
        if depth == 0 or self.left < 0:
            return False
        shared = one.kinds & other.kinds
        if not shared:
            return True
        for here, there in ((one, other), (other, one)):
            if any(
                all(self.disjoint(Shape(branch, here.root), there, depth - 1) for branch in branches)
                for branches in _choices(here)
            ):
                return True
        return _no_common_value(one, other) or all(self._apart(kind, one, other, depth) for kind in shared)

    def _apart(self, kind: Kind, one: Shape, other: Shape, depth: int) -> bool:
        match kind:
            case "object":
                return self._objects(one, other, depth)
            case "array":
                return self._lists(one, other, depth)
            case "number":
                return _ranges(one, other, _low, _high)
            case "string":
                return _ranges(one, other, _bound("minLength", max), _bound("maxLength", min))
            case _:
                return False

    def _objects(self, one: Shape, other: Shape, depth: int) -> bool:
        """A member that must be there and cannot be, or that fits only one of both."""
        needed = {**dict.fromkeys(_required(one)), **dict.fromkeys(_required(other))}
        for name in islice(needed, MOST_MEMBERS):
            if _excludes(one, name) or _excludes(other, name):
                return True
            mine, theirs = inside(one, (name,))[0], inside(other, (name,))[0]
            if mine and theirs and self.disjoint(mine, theirs, depth - 1):
                return True
        return False

    def _lists(self, one: Shape, other: Shape, depth: int) -> bool:
        least, most = _bound("minItems", max), _bound("maxItems", min)
        if _ranges(one, other, least, most):
            return True
        if max(least(one) or 0, least(other) or 0) < 1:
            return False
        mine, theirs = inside(one, (0,))[0], inside(other, (0,))[0]
        return mine is not None and theirs is not None and self.disjoint(mine, theirs, depth - 1)


def _parts(shape: Shape) -> Iterator[JsonObject]:
    return conjuncts(shape.node, shape.root)


def _choices(shape: Shape) -> Iterator[list[JsonValue]]:
    for part in _parts(shape):
        yield from alternatives(part)


def _no_common_value(one: Shape, other: Shape) -> bool:
    lists = [values for shape in (one, other) for part in _parts(shape) if (values := stated_values(part)) is not None]
    if len(lists) < 2 or prod(map(len, lists)) > MOST_MEMBERS**2:  # noqa: PLR2004 (two lists can differ)
        return False
    return not any(all(any(same(value, option) for option in rest) for rest in lists[1:]) for value in lists[0])


def _required(shape: Shape) -> Iterator[str]:
    for part in _parts(shape):
        names = part.get("required")
        yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _excludes(shape: Shape, name: str) -> bool:
    """True if the schema itself says that there is no such member; listing others alone does not say it."""
    return any(
        part.get("additionalProperties") is False and "patternProperties" not in part and name not in _properties(part)
        for part in _parts(shape)
    )


def _properties(part: JsonObject) -> Sequence[str]:
    properties = part.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def _bound(word: str, choose: Callable[[list[float]], float]) -> Callable[[Shape], float | None]:
    def bound(shape: Shape) -> float | None:
        found = [value for part in _parts(shape) if (value := _number(part.get(word))) is not None]
        return choose(found) if found else None

    return bound


_low = _bound("minimum", max)
_high = _bound("maximum", min)


def _ranges(
    one: Shape, other: Shape, low: Callable[[Shape], float | None], high: Callable[[Shape], float | None]
) -> bool:
    def beyond(least: float | None, most: float | None) -> bool:
        return least is not None and most is not None and least > most

    return beyond(low(one), high(other)) or beyond(low(other), high(one))


def _number(value: JsonValue) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value
