"""What references are known to be before anything runs: a value, or the shape of one, or nothing at all.

Literals and the run's input are values; outputs of steps have the shape that their tool's output schema gives them.
A template becomes a value with holes in it. Nothing here judges whether a value fits where it goes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ...registry.nearest import hint, some
from ...registry.predicates import Kind
from ...registry.refs import known_fields
from ...registry.vocabulary import JsonObject, JsonValue
from ...secret_names import is_secret_name
from .references import UNSET, Reference, ReferenceSyntaxError, Unset, parse, spelled, whole
from .shapes import ANYTHING, TEXT, Lookup, Shape
from .values import as_text, look_up, references

MOST_KNOWN: Final = 4_000_000
"""Characters of input that are put where they are referred to in one check; beyond them a value counts as unknown."""
_SAMPLES: Final[Mapping[Kind, JsonValue]] = {"string": "", "number": 1, "bool": True, "null": None}
Path: TypeAlias = tuple[str | int, ...]


class Known(NamedTuple):
    """A value that is certain before the run."""

    value: JsonValue


class Fault(NamedTuple):
    """A reference that can lead to nothing; `why` says it, once somebody reads it."""

    why: Callable[[], str]


Found: TypeAlias = Known | Shape | Fault


class Item(NamedTuple):
    """What `${item}` is: one item of a literal list, which is a template, or a known value, or the shape of any item.

    `secret` is true of a value whose list has the name of a secret.
    """

    template: JsonValue | Unset = UNSET
    known: Known | None = None
    secret: bool = False
    shape: Shape = ANYTHING


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a template whose value is not known yet; `default` is the reference's, `text` how it is written."""

    path: Path
    shape: Shape
    default: JsonValue | Unset
    text: str


@dataclass(slots=True)
class Partial:
    """A template as far as it is known: something of a fitting kind stands at each hole.

    `hidden` are the places where a value of a secret's name was put.
    """

    value: JsonValue = None
    holes: list[Hole] = field(default_factory=list[Hole])
    hidden: list[Path] = field(default_factory=list[Path])


@dataclass(slots=True)
class Sources:
    """What references can lead to in one plan: the effective input, and each step's output by its names.

    `listed` are the names of steps with a `for_each`, which have no evidence of their own. `own` are the names of a
    step whose items are undone one by one: there it means the item's own call. Where only the schema of an input is
    known yet, `takes` is its shape, and stands for the value.
    """

    input: JsonObject
    outputs: Mapping[str, Shape]
    listed: frozenset[str] = frozenset()
    own: frozenset[str | None] = frozenset()
    takes: Shape | None = None
    lookup: Lookup = field(default_factory=Lookup)
    _spent: int = 0

    def look(self, reference: Reference, item: Item | None) -> Found:
        """What a reference leads to; its default is taken where the input has nothing, or null."""
        match reference.root:
            case "input" if self.takes is not None:
                return self._inside(self.takes, reference, "the input")
            case "input":
                return _known(self.input, reference, "input")
            case "run":
                return (
                    TEXT
                    if reference.path == ("id",)
                    else Fault(lambda: f"{reference.text}: a run has only ${{run.id}}")
                )
            case "item":
                return (
                    Fault(lambda: "${item} stands inside a for_each only")
                    if item is None
                    else self._item(reference, item)
                )
            case _:
                return self._output(reference)

    def filled(self, template: JsonValue, item: Item | None) -> Partial:
        """A template with what is known of it."""
        found = Partial()
        found.value = self._fill(template, (), item, found)
        return found

    def affords(self, template: JsonValue) -> bool:
        """Whether the values that are known in a template are few enough to be looked at in this check."""
        self.filled(template, None)
        return self._spent <= MOST_KNOWN

    def _fill(self, template: JsonValue, path: Path, item: Item | None, into: Partial) -> JsonValue:
        if isinstance(template, dict):
            return {name: self._fill(part, (*path, name), item, into) for name, part in template.items()}
        if isinstance(template, list):
            return [self._fill(part, (*path, index), item, into) for index, part in enumerate(template)]
        if not isinstance(template, str) or "${" not in template:
            return template
        try:
            pieces = parse(template)
        except ReferenceSyntaxError:
            return _hole(into, Hole(path, ANYTHING, UNSET, "it"))
        only = whole(pieces)
        if only is not None:
            return self._whole(only, path, item, into)
        return self._text(pieces, path, item, into)

    def _whole(self, reference: Reference, path: Path, item: Item | None, into: Partial) -> JsonValue:
        found = self._affordable(self.look(reference, item))
        if isinstance(found, Known):
            if names_secret(reference, item):
                into.hidden.append(path)
            return found.value
        shape = found if isinstance(found, Shape) else ANYTHING
        return _hole(into, Hole(path, shape, reference.default, reference.text))

    def _text(self, pieces: Sequence[str | Reference], path: Path, item: Item | None, into: Partial) -> JsonValue:
        words: list[str] = []
        for piece in pieces:
            if isinstance(piece, str):
                words.append(piece)
                continue
            found = self._affordable(self.look(piece, item))
            if not isinstance(found, Known) or found.value is None:
                return _hole(into, Hole(path, TEXT, UNSET, "a text"))
            if names_secret(piece, item):
                into.hidden.append(path)
            words.append(as_text(found.value))
        return "".join(words)

    def _affordable(self, found: Found) -> Found:
        if isinstance(found, Known) and isinstance(found.value, str | list | dict):
            if self._spent > MOST_KNOWN:
                return ANYTHING
            self._spent += len(found.value) if isinstance(found.value, str) else len(json.dumps(found.value))
        return found

    def _item(self, reference: Reference, item: Item) -> Found:
        if item.known is not None:
            return _known(item.known.value, reference, "the item")
        if isinstance(item.template, Unset):
            return self._inside(item.shape, reference, "an item")
        template: JsonValue = item.template
        for index, part in enumerate(reference.path):
            if isinstance(template, str) and "${" in template:
                return self._behind(template, reference, reference.path[index:])
            below, _ = look_up(template, (part,))
            if below is UNSET:
                if reference.default is not UNSET:
                    return Known(reference.default)
                return Fault(partial(_nothing, reference, "the item", index, template))
            template = below
        return self._behind(template, reference, ())

    def _behind(self, template: JsonValue, reference: Reference, rest: Path) -> Found:
        """An item of a literal list may be made of references itself."""
        known = self.filled(template, None)
        if not known.holes:
            value, _ = look_up(known.value, rest)
            if reference.default is not UNSET and (value is UNSET or value is None):
                return Known(reference.default)
            return Fault(lambda: f"{reference.text} leads to nothing in that item") if value is UNSET else Known(value)
        hole = known.holes[0]
        if hole.path:
            return Shape({"type": "object" if isinstance(template, dict) else "array"}, {})
        return ANYTHING if rest and hole.default is not UNSET else self._inside(hole.shape, reference, hole.text, rest)

    def _output(self, reference: Reference) -> Found:
        if reference.root in self.own:
            return ANYTHING
        shape = self.outputs.get(reference.root, ANYTHING)
        if reference.evidence is None:
            return self._inside(shape, reference, f"the output of {reference.root}")
        if reference.root in self.listed:
            return Fault(lambda: f"{reference.text}: it makes a call for each item, and has no evidence of its own")
        return ANYTHING

    def _inside(self, shape: Shape, reference: Reference, what: str, path: Path | None = None) -> Found:
        path = reference.path if path is None else path
        found, reached = self.lookup.inside(shape, path)
        if found is not None:
            return found
        holder, _ = self.lookup.inside(shape, path[:reached])
        return Fault(partial(_nothing, reference, what, len(reference.path) - len(path) + reached, holder))


def _known(start: JsonValue, reference: Reference, what: str) -> Found:
    value, reached = look_up(start, reference.path)
    if reference.default is not UNSET and (value is UNSET or value is None):
        return Known(reference.default)
    if value is not UNSET:
        return Known(value)
    holder, _ = look_up(start, reference.path[:reached])
    return Fault(partial(_nothing, reference, what, reached, None if holder is UNSET else holder))


def spoken_kinds(shape: Shape) -> str:
    """The kinds of value that a shape allows, in words."""
    words = {"null": "null", "bool": "true or false", "number": "a number", "string": "a string", "array": "a list",
             "object": "an object"}  # fmt: skip
    found = shape.kinds
    return " or ".join(text for kind, text in words.items() if kind in found) or "nothing"


def _nothing(reference: Reference, what: str, reached: int, holder: Shape | JsonValue) -> str:
    """Says what there is in place of the first part that cannot be there."""
    part = reference.path[reached]
    where = spelled(reference.root, reference.path[:reached])
    if isinstance(holder, Shape):
        names, kind = known_fields(holder.root, holder.node), f"; it is {spoken_kinds(holder)}"
    else:
        names, kind = list(holder) if isinstance(holder, dict) else [], ""
    if isinstance(part, int):
        return f"{reference.text} leads to nothing: {what} has no place [{part}] in {where}{kind}"
    shown = part[:80]
    advice = hint(shown, some(shown, names)) or (f"; it has {', '.join(names[:8])}" if names else kind)
    return f"{reference.text} leads to nothing: {what} has no {shown!r} in {where}{advice}"


def _hole(into: Partial, hole: Hole) -> JsonValue:
    into.holes.append(hole)
    found = hole.shape.kinds
    for kind, sample in _SAMPLES.items():
        if kind in found:
            return sample
    return {} if "object" in found else []


def names_secret(reference: Reference, item: Item | None = None) -> bool:
    """Whether what a reference leads to has the name of a secret."""
    if item is not None and reference.root == "item" and (item.secret or _holds_secret(item.template)):
        return True
    return any(isinstance(part, str) and is_secret_name(part) for part in reference.path)


def _holds_secret(template: JsonValue | Unset) -> bool:
    try:
        return not isinstance(template, Unset) and any(names_secret(one) for _, one in references(template))
    except ReferenceSyntaxError:  # told of already
        return False
