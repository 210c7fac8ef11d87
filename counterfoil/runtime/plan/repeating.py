"""How often a step is called: once, or once for each item of its `for_each`, as far as that is known before the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...registry.problems import described
from ...registry.vocabulary import JsonValue
from .drafts import Draft
from .flow import Fault, Item, Known, Sources, names_secret, spoken_kinds
from .problems import Code
from .references import UNSET, Reference, ReferenceSyntaxError, parse, whole
from .shapes import ANYTHING, Shape, conjuncts, inside


@dataclass(frozen=True, slots=True)
class Repeats:
    """The items of a step: at least `least`; `count` is their number if it is known.

    `any_item` stands for each of them, None where the step has no `for_each`. `values` are those of a list that is
    known: templates where the plan states it, else values, `secret` ones if the list has the name of a secret.
    """

    any_item: Item | None
    least: int
    count: int | None
    values: Sequence[JsonValue] = ()
    stated: bool = False
    secret: bool = False

    def items(self) -> Iterator[Item]:
        """Each known item."""
        for value in self.values:
            yield Item(template=value) if self.stated else Item(known=Known(value), secret=self.secret)

    @property
    def shown(self) -> int:
        """The calls that are counted: a number that is not known counts as the least, and as one."""
        return max(1, self.least) if self.count is None else self.count


ONCE = Repeats(None, 1, 1)
UNKNOWN = Repeats(Item(), 0, None)


def repeats(draft: Draft, sources: Sources, most: int) -> Repeats:
    """Read a draft's `for_each`; what cannot be repeated over is told, and so is a list of more than `most` items."""
    if draft.for_each is None:
        return ONCE
    if isinstance(draft.for_each, list):
        return _counted(draft, Repeats(Item(), 0, None, draft.for_each, stated=True), most)
    reference = whole_of(draft.for_each)
    found = UNSET if reference is None else sources.look(reference, None)
    if reference is None or isinstance(found, Fault) or found is UNSET:
        return UNKNOWN
    if isinstance(found, Known):
        if isinstance(found.value, list):
            return _counted(draft, Repeats(Item(), 0, None, found.value, secret=names_secret(reference)), most)
        told = f"for_each: expected a list, and {reference.text} is {described(found.value, hidden=True)}"
        draft.spot.add("for_each", Code.BAD_REFERENCE, told)
        return UNKNOWN
    return _shaped(draft, reference, found, most)


def whole_of(template: JsonValue) -> Reference | None:
    """The one reference that a template is, if it is one and can be read."""
    try:
        return whole(parse(template)) if isinstance(template, str) else None
    except ReferenceSyntaxError:
        return None


def _counted(draft: Draft, found: Repeats, most: int) -> Repeats:
    count = len(found.values)
    if count > most:
        _tell_too_many(draft, f"{count:,}", most)
        return UNKNOWN
    return replace(found, least=count, count=count)


def _shaped(draft: Draft, reference: Reference, shape: Shape, most: int) -> Repeats:
    otherwise = reference.default
    if "array" not in shape.kinds and not isinstance(otherwise, list):
        told = f"for_each: expected a list, and {reference.text} is {spoken_kinds(shape)}"
        draft.spot.add("for_each", Code.BAD_REFERENCE, told)
        return UNKNOWN
    if otherwise is not UNSET:
        return UNKNOWN
    parts = list(conjuncts(shape.node, shape.root))
    least = max((size for part in parts if isinstance(size := part.get("minItems"), int)), default=0)
    highest = min((size for part in parts if isinstance(size := part.get("maxItems"), int)), default=None)
    if least > most:
        _tell_too_many(draft, f"at least {least:,}", most)
    return Repeats(Item(shape=_item(shape)), least, least if least == highest else None)


def _item(shape: Shape) -> Shape:
    """Any item; places that have schemas of their own say nothing of the others."""
    if any("prefixItems" in part or isinstance(part.get("items"), list) for part in conjuncts(shape.node, shape.root)):
        return ANYTHING
    return inside(shape, (0,))[0] or ANYTHING


def _tell_too_many(draft: Draft, count: str, most: int) -> None:
    told = f"for_each: at most {most:,} items, and these are {count}; make it several steps or plans"
    draft.spot.add("for_each", Code.TOO_LARGE, told)
