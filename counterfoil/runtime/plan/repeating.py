"""How often a step is called: once, or once for each item of its `for_each`, as far as that is known before the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...registry.problems import described
from ...registry.vocabulary import JsonValue
from .drafts import Draft
from .flow import Fault, Item, Known, Sources, names_secret, spoken_kinds
from .problems import Code
from .references import UNSET, Reference, parse, whole
from .shapes import ANYTHING, Shape, conjuncts, inside, kinds


@dataclass(frozen=True, slots=True)
class Repeats:
    """The items of a step; `items` is None where they are not known one by one, and `any_item` then stands for each.

    At least `least` of them; `count` is their number if it is known.
    """

    items: tuple[Item, ...] | None
    any_item: Item | None
    least: int
    count: int | None

    @property
    def shown(self) -> int:
        """The calls that are counted: a number that is not known counts as the least, and as one."""
        return max(1, self.least) if self.count is None else self.count


ONCE = Repeats(None, None, 1, 1)
UNKNOWN = Repeats(None, Item(), 0, None)


def repeats(draft: Draft, sources: Sources, most: int) -> Repeats:
    """Read a draft's `for_each`; what cannot be repeated over is told, and so is a list of more than `most` items."""
    if draft.for_each is None:
        return ONCE
    if isinstance(draft.for_each, list):
        return _counted(draft, [Item(template=one) for one in draft.for_each], most)
    reference = whole_of(draft.for_each)
    found = UNSET if reference is None else sources.look(reference, None)
    if reference is None or isinstance(found, Fault) or found is UNSET:
        return UNKNOWN
    if isinstance(found, Known):
        if isinstance(found.value, list):
            secret = names_secret(reference)
            return _counted(draft, [Item(known=Known(one), secret=secret) for one in found.value], most)
        told = f"for_each: expected a list, and {reference.text} is {described(found.value, hidden=True)}"
        draft.spot.add("for_each", Code.BAD_REFERENCE, told)
        return UNKNOWN
    return _shaped(draft, reference, found, most)


def whole_of(template: JsonValue) -> Reference | None:
    """The one reference that a template is, if it is one; for templates that were read without a problem."""
    return whole(parse(template)) if isinstance(template, str) else None


def _counted(draft: Draft, items: Sequence[Item], most: int) -> Repeats:
    count = len(items)
    if count > most:
        _tell_too_many(draft, f"{count:,}", most)
        return UNKNOWN
    return Repeats(tuple(items), None if items else Item(), count, count)


def _shaped(draft: Draft, reference: Reference, shape: Shape, most: int) -> Repeats:
    otherwise = reference.default
    if "array" not in kinds(shape) and not isinstance(otherwise, list):
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
    return Repeats(None, Item(shape=_item(shape)), least, least if least == highest else None)


def _item(shape: Shape) -> Shape:
    """Any item; places that have schemas of their own say nothing of the others."""
    if any("prefixItems" in part or isinstance(part.get("items"), list) for part in conjuncts(shape.node, shape.root)):
        return ANYTHING
    return inside(shape, (0,))[0] or ANYTHING


def _tell_too_many(draft: Draft, count: str, most: int) -> None:
    told = f"for_each: at most {most:,} items, and these are {count}; make it several steps or plans"
    draft.spot.add("for_each", Code.TOO_LARGE, told)
