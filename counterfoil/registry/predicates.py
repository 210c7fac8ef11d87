"""The conditions of a policy rule: one operator, one operand and one place in the arguments.

A condition is checked once, when its rule is built, and then only asked. What cannot be compared (the place is absent,
or holds another type) is `None`, and the rule decides what that means; nothing here knows verdicts.
Patterns run on an engine whose time is linear in the text, because the text is the model's to choose.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias, cast

import jsonschema_rs

from .nearest import hint
from .vocabulary import JsonValue

PATTERN_MAX = 200
"""Characters in the pattern of `matches`."""

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_DOT = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]*")

Test: TypeAlias = Callable[[JsonValue], "bool | None"]
Kind = Literal["null", "bool", "number", "string", "array", "object"]


class Op(StrEnum):
    """What may stand in a `when`."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GE = "ge"
    LT = "lt"
    LE = "le"
    IN = "in"
    NOT_IN = "not_in"
    MATCHES = "matches"
    EXISTS = "exists"


class PredicateError(ValueError):
    """A pointer, operator or operand that cannot be right; the message says what may stand there."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """One condition; `holds` answers True, False, or None where nothing can be compared."""

    pointer: str
    parts: tuple[str, ...]
    op: Op
    operand: JsonValue
    test: Test

    def holds(self, arguments: JsonValue) -> bool | None:
        """Ask it of validated arguments."""
        found, value = look_up(arguments, self.parts)
        if self.op is Op.EXISTS:
            return found is self.operand
        return self.test(value) if found else None

    def hangs_on(self, unknown: Iterable[Sequence[str]]) -> bool:
        """Whether values at these places can make a difference; that something is at each of them is known."""
        least = 1 if self.op is Op.EXISTS else 0
        return any(
            len(self.parts) >= least + len(place) and tuple(place) == self.parts[: len(place)]
            if len(place) <= len(self.parts)
            else self.op is not Op.EXISTS and tuple(place[: len(self.parts)]) == self.parts
            for place in unknown
        )


def predicate(pointer: str, op: str, operand: object) -> Predicate:
    """Check and build one condition.

    Raises:
        PredicateError: what came, and what may stand there.
    """
    parts = parse_pointer(pointer)
    if op not in list(Op):
        raise PredicateError(f"{op!r} is no operator; it may be {', '.join(Op)}{hint(op, map(str, Op))}")
    value = cast("JsonValue", operand)
    return Predicate(pointer, parts, Op(op), value, _BUILDERS[Op(op)](Op(op), value))


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """The members that a JSON Pointer (RFC 6901) names, unescaped.

    Raises:
        PredicateError: it is no JSON Pointer.
    """
    if not _POINTER.fullmatch(pointer):
        raise PredicateError(f"{pointer!r} is no JSON Pointer; write '/amount' or '/items/0/price' ('~1' is a '/')")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def look_up(value: JsonValue, parts: Sequence[str]) -> tuple[bool, JsonValue]:
    """Whether a parsed pointer leads somewhere, and to what."""
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and _INDEX.fullmatch(part) and len(part) <= len(str(len(value))):
            if int(part) >= len(value):
                return False, None
            value = value[int(part)]
        else:
            return False, None
    return True, value


def kind_of(value: JsonValue) -> Kind:
    """The JSON type; a bool is never a number."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def same(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values: numbers by exact value, whatever their notation."""
    if kind_of(left) != kind_of(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def _equality(op: Op, operand: JsonValue) -> Test:
    _require_json(operand)
    kind, wanted = kind_of(operand), op is Op.EQ

    def test(value: JsonValue) -> bool | None:
        return same(value, operand) is wanted if kind_of(value) == kind else None

    return test


def _order(op: Op, operand: JsonValue) -> Test:
    if isinstance(operand, bool) or not isinstance(operand, int | float) or not math.isfinite(operand):
        raise PredicateError(f"{op} takes a finite number, not {operand!r}")
    bound = operand
    compare: dict[Op, Callable[[int | float], bool]] = {
        Op.GT: lambda value: value > bound,
        Op.GE: lambda value: value >= bound,
        Op.LT: lambda value: value < bound,
        Op.LE: lambda value: value <= bound,
    }
    chosen = compare[op]

    def test(value: JsonValue) -> bool | None:
        return chosen(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    return test


def _membership(op: Op, operand: JsonValue) -> Test:
    if not isinstance(operand, list) or not operand:
        raise PredicateError(f"{op} takes a list with at least one value, not {operand!r}")
    _require_json(operand)
    members: Sequence[JsonValue] = tuple(operand)
    kinds = {kind_of(member) for member in members}
    wanted = op is Op.IN

    def test(value: JsonValue) -> bool | None:
        return any(same(value, member) for member in members) is wanted if kind_of(value) in kinds else None

    return test


def _pattern(op: Op, operand: JsonValue) -> Test:
    if not isinstance(operand, str):
        raise PredicateError(f"{op} takes a regular expression, not {operand!r}")
    if len(operand) > PATTERN_MAX:
        raise PredicateError(f"{op} takes at most {PATTERN_MAX} characters, not {len(operand)}; split the rule")
    _compile(operand)
    whole = _compile(f"^(?:{_any_character(operand)})$")

    def test(value: JsonValue) -> bool | None:
        if not isinstance(value, str):
            return None
        try:
            return whole.is_valid(value)
        except UnicodeEncodeError:
            return None

    return test


def _compile(pattern: str) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except ValueError as error:
        raise PredicateError(
            f"{pattern!r} is no regular expression that runs in linear time; look-around and back-references are not "
            "available, and repetitions must stay small"
        ) from error


def _any_character(pattern: str) -> str:
    """The pattern with each `.` standing for line breaks too, so that none of them carries a value past a rule."""
    return _DOT.sub(lambda found: r"[\s\S]" if found.group() == "." else found.group(), pattern)


def _existence(op: Op, operand: JsonValue) -> Test:
    if not isinstance(operand, bool):
        raise PredicateError(f"{op} takes true or false, not {operand!r}")
    return lambda _: operand


def _require_json(value: object) -> None:
    match value:
        case None | bool() | int() | str():
            return
        case float() if math.isfinite(value):
            return
        case list():
            for member in cast("list[object]", value):
                _require_json(member)
        case dict():
            for member in cast("dict[object, object]", value).values():
                _require_json(member)
        case _:
            raise PredicateError(f"{value!r} is no JSON value; write it as it stands in the arguments, dates as text")


_BUILDERS: dict[Op, Callable[[Op, JsonValue], Test]] = {
    Op.EQ: _equality,
    Op.NE: _equality,
    Op.GT: _order,
    Op.GE: _order,
    Op.LT: _order,
    Op.LE: _order,
    Op.IN: _membership,
    Op.NOT_IN: _membership,
    Op.MATCHES: _pattern,
    Op.EXISTS: _existence,
}
