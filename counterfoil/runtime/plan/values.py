"""The values that references stand for once a run has them: expanded once, types kept, nothing ever made up.

A string that is one whole reference becomes the value itself. In a longer text strings are as they are, other values
canonical JSON, and null has no text. What a value holds is never read as a reference again. A path that leads nowhere
is an error, unless the reference has a default; a default also stands for null. Names of members are literal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from ...canonical import canonical
from ...registry.predicates import kind_of, same
from ...registry.vocabulary import JsonObject, JsonValue
from .references import UNSET, Reference, Unset, parse, spelled, whole

__all__ = [
    "ORDERS",
    "UNSET",
    "MissingPathError",
    "NotBooleanError",
    "Scope",
    "Unset",
    "ask_when",
    "kind_word",
    "needed",
    "resolve",
]

LONGEST_TEXT: Final = 16 * 1024 * 1024
"""Characters of all texts of one scope with their values in them."""
ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
}


class MissingPathError(Exception):
    """A reference that leads to nothing, to null inside a text, or to too much text: its step is not dispatched."""

    def __init__(self, field: str, reference: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reference = reference
        self.message = message


class NotBooleanError(Exception):
    """A `when` that gives no boolean, or compares what cannot be compared."""


@dataclass(slots=True)
class Scope:
    """What references can reach: `output` and `evidence` are asked by a step's id or its `save_as`.

    `output` answers `UNSET` for a step that ended without one, `evidence` None. `text_left` is how many characters of
    text may still be made of values: a value is shared wherever it goes, a text is a copy.
    """

    input: JsonObject
    run_id: str
    output: Callable[[str], JsonValue | Unset]
    evidence: Callable[[str], JsonObject | None]
    item: JsonValue | Unset = UNSET
    text_left: int = LONGEST_TEXT


def needed(template: JsonValue) -> frozenset[str]:
    """The steps, by id or `save_as` as written, whose output or evidence a template refers to."""
    return frozenset(reference.root for _, reference in references(template) if reference.step is not None)


def references(template: JsonValue, field: str = "") -> Iterator[tuple[str, Reference]]:
    """Every reference of a template, with the place where it stands.

    Raises:
        ReferenceSyntaxError: a text that cannot be read.
    """
    for place, text in texts(template, field):
        if "${" in text:
            yield from ((place, piece) for piece in parse(text) if isinstance(piece, Reference))


def texts(template: JsonValue, field: str = "") -> Iterator[tuple[str, str]]:
    """Every string value of a template, with the place where it stands."""
    if isinstance(template, str):
        yield field, template
    elif isinstance(template, dict):
        for name, member in template.items():
            yield from texts(member, joined(field, name))
    elif isinstance(template, list):
        for index, member in enumerate(template):
            yield from texts(member, joined(field, index))


def joined(field: str, step: str | int) -> str:
    """The place of a member or an item, as people write it: `args.lines[0]`."""
    if isinstance(step, int):
        return f"{field}[{step}]"
    return f"{field}.{step}" if field else step


def resolve(template: JsonValue, scope: Scope, field: str) -> JsonValue:
    """The template with its values in it; the values are the scope's own, not copies.

    Raises:
        MissingPathError: the place in the template, the reference, and what is missing.
    """
    if isinstance(template, str):
        return _text(template, scope, field) if "${" in template else template
    if isinstance(template, dict):
        return {name: resolve(member, scope, joined(field, name)) for name, member in template.items()}
    if isinstance(template, list):
        return [resolve(member, scope, joined(field, index)) for index, member in enumerate(template)]
    return template


def ask_when(when: JsonValue, scope: Scope) -> bool:
    """What a step's `when` says: a reference, or `{ref, operator: operand}`, of which every one must hold.

    Raises:
        NotBooleanError: it gives no boolean.
        MissingPathError: see `resolve`.
    """
    if not isinstance(when, dict):
        answer = resolve(when, scope, "when")
        if not isinstance(answer, bool):
            raise NotBooleanError(f"when: expected true or false, got {kind_word(answer)}")
        return answer
    return all(_holds(when, op, scope) for op in when if op != "ref")


def look_up(value: JsonValue, path: tuple[str | int, ...]) -> tuple[JsonValue | Unset, int]:
    """The value at a path, and how many of its parts were found."""
    for found, part in enumerate(path):
        held = part in value if isinstance(part, str) and isinstance(value, dict) else False
        if held or (isinstance(part, int) and isinstance(value, list) and part < len(value)):
            value = cast("dict[str | int, JsonValue]", value)[part]
        else:
            return UNSET, found
    return value, len(path)


def as_text(value: JsonValue) -> str:
    """A value inside a longer text."""
    return value if isinstance(value, str) else canonical(value).decode()


def _text(template: str, scope: Scope, field: str) -> JsonValue:
    pieces = parse(template)
    only = whole(pieces)
    if only is not None:
        return _value(only, scope, field)
    found: list[str] = []
    for piece in pieces:
        found.append(piece if isinstance(piece, str) else _inside(piece, scope, field))
        scope.text_left -= len(found[-1])
        if scope.text_left < 0:
            told = f"with its text there are more than {LONGEST_TEXT:,} characters"
            raise MissingPathError(field, template[:80], told)
    return "".join(found)


def _inside(reference: Reference, scope: Scope, field: str) -> str:
    value = _value(reference, scope, field)
    if value is None:
        raise MissingPathError(
            field, reference.text, f'{reference.text} is null, which has no text; give it a default: ?? "none"'
        )
    return as_text(value)


def _value(reference: Reference, scope: Scope, field: str) -> JsonValue:
    found = _found(reference, scope)
    if reference.default is not UNSET and (found is UNSET or found is None):
        return reference.default
    if found is UNSET:
        raise MissingPathError(field, reference.text, f"{reference.text} leads to nothing; {_why(reference, scope)}")
    return found


def _found(reference: Reference, scope: Scope) -> JsonValue | Unset:
    if reference.evidence is not None:
        facts = scope.evidence(reference.root)
        known = facts.get(reference.evidence) if facts else None
        return UNSET if known is None else known
    start = _start(reference, scope)
    return UNSET if start is UNSET else look_up(start, reference.path)[0]


def _start(reference: Reference, scope: Scope) -> JsonValue | Unset:
    match reference.root:
        case "input":
            return scope.input
        case "run":
            return {"id": scope.run_id}
        case "item":
            return scope.item
        case step:
            return scope.output(step)


def _why(reference: Reference, scope: Scope) -> str:
    if reference.evidence is not None:
        return f"there is no {reference.evidence} of it"
    start = _start(reference, scope)
    if start is UNSET:
        return "it has no output"
    found = look_up(start, reference.path)[1]
    holder = look_up(start, reference.path[:found])[0]
    part = reference.path[found]
    where = spelled(reference.root, reference.path[:found])
    shown = f"place {part}" if isinstance(part, int) else f"member {part!r}"
    return f"{where} is {kind_word(UNSET if holder is UNSET else holder)} without {shown}"


def _holds(when: JsonObject, op: str, scope: Scope) -> bool:
    operand = resolve(when[op], scope, f"when.{op}")
    ref = when["ref"]
    if op == "exists":
        return _exists(ref, scope) is operand
    value = resolve(ref, scope, "when.ref")
    if op in ORDERS:
        return ORDERS[op](_number(value, "ref"), _number(operand, op))
    if op == "in":
        if not isinstance(operand, list):
            raise NotBooleanError(f"when.in: expected a list, got {kind_word(operand)}")
        return any(same(value, member) for member in operand)
    return same(value, operand) is (op == "eq")


def _exists(ref: JsonValue, scope: Scope) -> bool:
    only = whole(parse(ref)) if isinstance(ref, str) else None
    return only is not None and (only.default is not UNSET or _found(only, scope) is not UNSET)


def _number(value: JsonValue, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotBooleanError(f"when.{place}: only numbers have an order, got {kind_word(value)}")
    return value


def kind_word(value: JsonValue | Unset) -> str:
    """What kind of value it is, in words."""
    names = {"null": "null", "bool": "a boolean", "number": "a number", "string": "a string", "array": "a list"}
    return "nothing" if isinstance(value, Unset) else names.get(kind_of(value), "an object")
