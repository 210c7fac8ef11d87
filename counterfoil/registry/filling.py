"""The one template dialect: what stands in braces is replaced by a value of the call, the rest is literal.

    {order_id} {arguments.order_id} {arguments.address.city}    an argument, or a member of one
    {output} {output.refund_id}                                 in a compensation: what the first call brought
    {call.action_id} {call.id}                                  the action's key, the same on every attempt; the call
    {call.callback}                                             where the far side may say that it is done
    {{ }}                                                       a literal brace

A template that is one placeholder keeps its value's JSON type; in a longer text strings are as they are and other
values canonical, and null counts as absent. It is expanded once: a value is never read as a template again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast

from ..canonical import canonical, pointer
from .nearest import nearest
from .problem import Problem
from .schema_paths import has_path
from .vocabulary import JsonObject, JsonValue

MEMBERS: Final = r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*"
"""A name, and the members that follow it after dots."""
CALL_MEMBERS: Final = ("action_id", "id", "callback")

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_TOKEN = re.compile(r"\{\{|\}\}|\{(" + MEMBERS + r")\}|[{}]")

Root = Literal["arguments", "output", "call"]
KeyPath: TypeAlias = tuple[str | int, ...]


class Absent(Enum):
    """The value of a place that is not there; apart from null, which is a value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class TemplateError(ValueError):
    """Text that is no template; the message says what may stand there."""


class FillError(ValueError):
    """A value that cannot stand where its template puts it; `problem` points at the argument and never shows it."""

    def __init__(self, path: str, expected: str, got: str) -> None:
        self.problem = Problem.of(path, expected, got)
        super().__init__(self.problem.message)


@dataclass(frozen=True, slots=True)
class Hole:
    """One placeholder: where its value comes from, and the members that lead to it."""

    root: Root
    path: tuple[str, ...]

    @property
    def pointer(self) -> str:
        """The place as a JSON Pointer, into the arguments where it is an argument."""
        return pointer(self.path if self.root == "arguments" else (self.root, *self.path))


Piece: TypeAlias = str | Hole


@dataclass(frozen=True, slots=True)
class Values:
    """What placeholders may name in one call."""

    arguments: JsonObject
    call_id: str
    action_id: str
    output: JsonValue | Absent = ABSENT
    callback: str | None = None

    def at(self, hole: Hole) -> JsonValue | Absent:
        """The value that a placeholder names."""
        match hole.root:
            case "arguments":
                return member(self.arguments, hole.path)
            case "output":
                return self.output if self.output is ABSENT else member(self.output, hole.path)
            case "call":
                known = {"action_id": self.action_id, "callback": self.callback or ABSENT}
                return known.get(hole.path[0], self.call_id) if hole.path else self.call_id


@dataclass(frozen=True, slots=True)
class Scope:
    """What placeholders may name in one tool: arguments by their schema, and an output only in a compensation."""

    input_schema: JsonObject
    compensation: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake: where, as keys and indexes beneath the table that was checked, and what to do."""

    path: KeyPath
    message: str


@lru_cache(maxsize=4096)
def parse(template: str) -> tuple[Piece, ...]:
    """The literal texts and placeholders of a template, in order.

    Raises:
        TemplateError: a brace that begins or ends no placeholder.
    """
    pieces: list[Piece] = []
    literal, end = "", 0
    for token in _TOKEN.finditer(template):
        literal, end = literal + template[end : token.start()], token.end()
        if token[0] in {"{{", "}}"}:
            literal += token[0][0]
        elif token[1] is None:
            raise TemplateError(
                f"the {token[0]!r} at character {token.start()} belongs to no placeholder; write {{name}}, "
                "{name.member} or {call.action_id}, and {{ or }} for a brace itself"
            )
        else:
            pieces += [literal, _hole(token[1])] if literal else [_hole(token[1])]
            literal = ""
    literal += template[end:]
    return (*pieces, literal) if literal or not pieces else tuple(pieces)


def fill(template: JsonValue, values: Values) -> JsonValue | Absent:
    """A template of any JSON shape with its values; a member or item whose value is absent is dropped.

    Names of members are literal.
    """
    if isinstance(template, str):
        pieces = parse(template)
        if len(pieces) == 1 and isinstance(pieces[0], Hole):
            return values.at(pieces[0])
        text = fill_text(template, values)
        return ABSENT if text is None else text
    if isinstance(template, list):
        items = [fill(item, values) for item in template]
        return [item for item in items if item is not ABSENT]
    if isinstance(template, dict):
        members = {name: fill(item, values) for name, item in template.items()}
        return {name: item for name, item in members.items() if item is not ABSENT}
    return template


def fill_text(template: str, values: Values) -> str | None:
    """A template as text; None if a value in it is absent or null."""
    texts = [piece if isinstance(piece, str) else text_at(piece, values) for piece in parse(template)]
    return None if None in texts else "".join(cast("list[str]", texts))


def text_at(hole: Hole, values: Values) -> str | None:
    """The text of a placeholder's value; None if it is absent or null."""
    value = values.at(hole)
    return None if value is ABSENT or value is None else as_text(value)


def as_text(value: JsonValue) -> str:
    """A string as it is, another value canonical."""
    return value if isinstance(value, str) else canonical(value).decode()


def member(value: JsonValue, path: Sequence[str]) -> JsonValue | Absent:
    """What members lead to; a number counts the items of a list."""
    for name in path:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return ABSENT
    return value


def holes(template: JsonValue) -> Iterator[Hole]:
    """Every placeholder in a template of any JSON shape.

    Raises:
        TemplateError: text that is no template.
    """
    if isinstance(template, str):
        yield from (piece for piece in parse(template) if isinstance(piece, Hole))
    elif isinstance(template, list):
        for item in template:
            yield from holes(item)
    elif isinstance(template, dict):
        for item in template.values():
            yield from holes(item)


def faults_in(template: object, scope: Scope, path: KeyPath = ()) -> Iterator[Fault]:
    """Every mistake of a template of any JSON shape."""
    if isinstance(template, str):
        try:
            found = list(holes(template))
        except TemplateError as error:
            yield Fault(path, str(error))
            return
        yield from (Fault(path, said) for hole in found if (said := fault_of(hole, scope)))
    elif isinstance(template, list):
        for index, item in enumerate(cast("list[object]", template)):
            yield from faults_in(item, scope, (*path, index))
    elif isinstance(template, Mapping):
        for name, item in cast("Mapping[str, object]", template).items():
            yield from faults_in(item, scope, (*path, name))


def fault_of(hole: Hole, scope: Scope) -> str | None:
    """What is wrong with one placeholder; None if a call can have its value."""
    written = ".".join(hole.path)
    if hole.root == "call":
        allowed = hole.path in {(name,) for name in CALL_MEMBERS}
        return None if allowed else f"{{call.{written}}} is unknown; a call has {', '.join(CALL_MEMBERS)}"
    if hole.root == "output":
        hint = f"{{output{'.' + written if written else ''}}} is what an earlier call brought, which only a "
        argument = " (an argument of this name is {arguments.output})"
        return None if scope.compensation else f"{hint}compensation has{argument}"
    if has_path(scope.input_schema, hole.path):
        return None
    known = _names(scope.input_schema)
    near = nearest(hole.path[0], known) if hole.path[0] not in known else None
    hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(known) or 'none'}"
    return f"{{{written}}} names no argument of this tool{hint}"


def _names(schema: JsonObject) -> list[str]:
    properties = schema.get("properties")
    return sorted(properties) if isinstance(properties, dict) else []


def _hole(name: str) -> Hole:
    first, *rest = name.split(".")
    match first:
        case "arguments" if rest:
            return Hole("arguments", tuple(rest))
        case "output":
            return Hole("output", tuple(rest))
        case "call":
            return Hole("call", tuple(rest))
        case _:
            return Hole("arguments", (first, *rest))
