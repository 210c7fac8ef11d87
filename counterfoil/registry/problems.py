"""What is wrong with a value, in words that a person or a model can act on.

The validator's own texts are never passed on: they quote whole values. Here a value is shown in at most 40 characters,
and not at all where it is concealed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, cast

from jsonschema_rs import ValidationError
from jsonschema_rs import ValidationErrorKind as Kind

from ..canonical import JsonObject, JsonValue, pointer
from .problem import Problem
from .refs import Location, at, known_fields, same_value
from .secret_places import Place, is_secret_place, may_quote_a_secret, places

SHOWN: Final = 40
_SHOWN_NAMES: Final = 8
_ARTICLES: Final = {
    "integer": "an integer", "number": "a number", "string": "a string", "boolean": "true or false",
    "object": "an object", "array": "a list", "null": "null",
}  # fmt: skip
_WANTED: Final = {
    "const": "{}", "pattern": "text that matches {}", "multipleOf": "a multiple of {}",
    "minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}", "minLength": "at least {} characters", "maxLength": "at most {} characters",
    "minItems": "at least {} items", "maxItems": "at most {} items", "minProperties": "at least {} fields",
    "maxProperties": "at most {} fields",
}  # fmt: skip
_OTHERWISE: Final = dict.fromkeys(("falseSchema", "additionalItems", "unevaluatedItems"), "nothing here") | {
    "uniqueItems": "a list without repetitions",
}
FORMATS: Final = {
    "date-time": "2026-01-31T12:00:00Z", "date": "2026-01-31", "time": "12:00:00Z", "duration": "P1D",
    "email": "name@example.org", "uri": "https://example.org/", "uuid": "3f2b8c1e-5d4a-4b6f-9a70-1c2d3e4f5a6b",
    "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "hostname": "example.org",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells of one schema's errors; values at the places in `conceal` or of secret names, and below, stay unseen."""

    root: JsonObject
    conceal: tuple[Place, ...] = ()

    def problems(self, error: ValidationError) -> list[Problem]:
        """One error of the validator, as one problem for each thing to change."""
        match error.kind:
            case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
                return self._unknown(error, names)
            case Kind.Required(property=name):
                return [self._missing(error, name)]
            case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
                return self._no_branch(error, context)
            case Kind.PropertyNames(error=inner):
                return [self.problem((*error.instance_path, str(inner.instance)), "another name", "this name")]
            case _:
                return [self._mismatch(error, expected(error))]

    def problem(self, path: Location, wanted: str, got: str) -> Problem:
        """A problem that was found beside the validator."""
        return Problem(pointer(path), wanted, got, f"{spoken(path)}: expected {wanted}, got {got}")

    def got(self, value: object, path: Location) -> str:
        """The value, or what kind of value it is where it is concealed."""
        hidden = is_secret_place(path, self.conceal)
        if not hidden and isinstance(value, str):
            hidden = may_quote_a_secret(value, path, self.conceal)
        return described(value, hidden=hidden)

    def _mismatch(self, error: ValidationError, wanted: str) -> Problem:
        path = tuple(error.instance_path)
        hint = ""
        if isinstance(error.instance, str) and wanted in ("an object", "a list"):
            hint = f"; send {wanted} itself, not its text"
        found = self.problem(path, wanted, self.got(error.instance, path))
        return Problem(found.path, found.expected, found.got, found.message + hint)

    def _unknown(self, error: ValidationError, names: list[str]) -> list[Problem]:
        known = known_fields(self.root, at(self.root, tuple(error.schema_path[:-1])))
        return [
            self._unknown_field((*error.instance_path, name), name, known)
            for name in names[: 2 * _SHOWN_NAMES]
            if name not in known  # such a field was left unevaluated by an error of its own
        ]

    def _unknown_field(self, path: Location, name: str, known: list[str]) -> Problem:
        nearest = _nearest(name, known)
        listed = ", ".join(known[:_SHOWN_NAMES]) + (", …" if len(known) > _SHOWN_NAMES else "")
        wanted = f"one of the fields {_cut(listed, 4 * SHOWN)}" if known else "no fields at all"
        advice = f"did you mean {_cut(nearest, 4 * SHOWN)}?" if nearest else f"expected {wanted}"
        message = f"{spoken(path)}: no such field; {advice}"
        return Problem(pointer(path), wanted, f"the field {_quoted(name)}", message, nearest)

    def _missing(self, error: ValidationError, name: str) -> Problem:
        path = (*error.instance_path, name)
        kind = _field_kind(self.root, at(self.root, tuple(error.schema_path[:-1])), name)
        wanted = f"this field, {kind}" if kind else "this field"
        return Problem(pointer(path), wanted, "nothing", f"{spoken(path)}: missing; expected {wanted}")

    def _no_branch(self, error: ValidationError, context: list[list[ValidationError]]) -> list[Problem]:
        """The problems of the one alternative that the value comes closest to, else all alternatives in one."""
        here = error.instance_path
        close = [branch for branch in context if not any(_is_other_kind(e, here) for e in branch)]
        if not close:
            return [self._mismatch(error, _either(e for branch in context for e in branch[:1]))]
        tags = [next((e for e in branch if _is_tag(e, here)), None) for branch in close]
        first = tags[0]
        if len(close) > 1 and first and all(tag and tag.instance_path == first.instance_path for tag in tags):
            return [self._mismatch(first, _either(tag for tag in tags if tag))]
        chosen = min(zip(close, tags, strict=True), key=lambda each: (each[1] is not None, len(each[0])))[0]
        return [problem for inner in chosen for problem in self.problems(inner)]


def teller(root: JsonObject, conceal: Sequence[str]) -> Teller:
    """A `Teller` for pointers as contracts state them."""
    return Teller(root, places(conceal))


def described(value: object, *, hidden: bool = False) -> str:
    """A value in a few words, ASCII alone: at most 40 characters of it, or its kind."""
    if value is None or isinstance(value, bool):
        return "a hidden value" if hidden else json.dumps(value)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(cast('list[object]', value))}"
    kind = "string" if isinstance(value, str) else "number"
    return f"a {kind} (not shown)" if hidden else f"the {kind} {_quoted(value)}"


def spoken(path: Iterable[str | int]) -> str:
    """A path as people write it: `filter.tags[0]`."""
    text = "".join(f"[{token}]" if isinstance(token, int) else f".{token}" for token in path).removeprefix(".")
    return _cut(json.dumps(text)[1:-1], 4 * SHOWN) or "the arguments"


def expected(error: ValidationError) -> str:
    """What the schema asks for at this place."""
    kind = error.kind
    match kind:
        case Kind.Type(types=types):
            return " or ".join(_ARTICLES.get(name, name) for name in sorted(types, key="null".__eq__))
        case Kind.Enum(options=options):
            more = " or …" if len(options) > _SHOWN_NAMES else ""
            return " or ".join(_quoted(option) for option in options[:_SHOWN_NAMES]) + more
        case Kind.Format(format=name):
            return f"a {name}" + (f" such as {FORMATS[name]}" if name in FORMATS else "")
        case Kind.OneOfMultipleValid():
            return "a value that fits exactly one of the alternatives"
        case _ if kind.name in _WANTED:
            return _WANTED[kind.name].format(
                _cut(kind.value, 2 * SHOWN) if kind.name == "pattern" else _quoted(kind.value)
            )
        case _:
            return _OTHERWISE.get(kind.name, f"a value that fits the schema's '{kind.name}'")


def _is_other_kind(error: ValidationError, here: list[str | int]) -> bool:
    return error.instance_path == here and isinstance(error.kind, Kind.Type | Kind.Enum | Kind.Constant)


def _is_tag(error: ValidationError, here: list[str | int]) -> bool:
    """True for a discriminating member that names another alternative."""
    return len(error.instance_path) == len(here) + 1 and isinstance(error.kind, Kind.Constant | Kind.Enum)


def _either(errors: Iterable[ValidationError]) -> str:
    return _cut(" or ".join(dict.fromkeys(expected(error) for error in errors)), 4 * SHOWN)


def _field_kind(root: JsonObject, schema: JsonValue, name: str) -> str:
    """What a field is, as far as its type says it."""
    for part in same_value(root, schema):
        properties = part.get("properties")
        stated = properties.get(name) if isinstance(properties, dict) else None
        kind = next((inner["type"] for inner in same_value(root, stated) if "type" in inner), None)
        if isinstance(kind, str):
            return _ARTICLES.get(kind, "")
    return ""


def _nearest(name: str, known: list[str]) -> str | None:
    by_form = {field.casefold(): field for field in reversed(known)}
    close = get_close_matches(name[: 2 * SHOWN].casefold(), by_form, n=1)
    return by_form[close[0]] if close else None


def _quoted(value: object) -> str:
    """JSON in ASCII, so that no control or direction character is passed on."""
    text = value[: SHOWN + 1] if isinstance(value, str) else value
    return _cut(json.dumps(text, default=str), SHOWN)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
