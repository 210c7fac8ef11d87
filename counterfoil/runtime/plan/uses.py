"""The references of a step: where each stands, which texts cannot be read as one, and which can lead to nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...registry.vocabulary import JsonValue
from .drafts import Draft, Use
from .fields import Spot
from .flow import Fault, Item, Known, Sources
from .model import Undo
from .problems import Code
from .references import Reference, ReferenceSyntaxError, parse
from .values import joined, texts


def find_uses(draft: Draft) -> None:
    """Fill in the references of a draft; what cannot be read is told."""
    own = [("args", draft.args), ("for_each", draft.for_each), ("when", draft.when), ("if_version", draft.if_version)]
    draft.uses = [use for name, template in own for use in _uses(draft.spot, template, name)]
    if isinstance(draft.compensate, Undo):
        draft.undo_uses = list(_uses(draft.spot, draft.compensate.args, "compensate.args"))


def follow(spot: Spot, uses: Iterable[Use], sources: Sources, item: Item | None) -> None:
    """Tell of each reference that can lead to nothing, or to null inside a text."""
    for use in uses:
        found = sources.look(use.reference, item)
        if isinstance(found, Fault):
            spot.add(use.field, Code.BAD_REFERENCE, "" if spot.problems.full else f"{use.field}: {found.why()}")
        elif use.in_text and isinstance(found, Known) and found.value is None:
            told = f'{use.field}: {use.reference.text} is null, which has no text; give it a default: ?? "none"'
            spot.add(use.field, Code.BAD_REFERENCE, told)


def _uses(spot: Spot, template: JsonValue, field_name: str) -> Iterator[Use]:
    _check_keys(spot, template, field_name)
    for place, text in texts(template, field_name):
        if "${" not in text:
            continue
        try:
            pieces = parse(text)
        except ReferenceSyntaxError as error:
            spot.add(place, Code.BAD_REFERENCE, f"{place}: {error}")
            continue
        references = [piece for piece in pieces if isinstance(piece, Reference)]
        yield from (Use(place, reference, len(pieces) > 1) for reference in references)
        for one in references if len(pieces) > 1 else ():
            if one.default is None:
                told = f"{place}: null has no text; give {one.text} another default inside a text"
                spot.add(place, Code.BAD_REFERENCE, told)


def _check_keys(spot: Spot, template: JsonValue, place: str) -> None:
    if isinstance(template, dict):
        for name, member in template.items():
            if "${" in name:
                told = f"{place}: a member's name is literal; a reference can only stand in a value"
                spot.add(place, Code.BAD_REFERENCE, told)
            _check_keys(spot, member, joined(place, name))
    elif isinstance(template, list):
        for index, member in enumerate(template):
            _check_keys(spot, member, joined(place, index))
