"""From names to edges: which step a name means, what each step waits for, and which of that cannot be.

A step may be called by its id or its `save_as`, in one name space; a reference adds an edge as `depends_on` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...registry.nearest import hint, some
from .drafts import Draft
from .graph import cycles
from .problems import Code

MOST_NAMED: Final = 12
"""Steps of a cycle that a message names."""


@dataclass(frozen=True, slots=True)
class Links:
    """The steps' names, and for each step the indexes of all that it waits for, ascending."""

    names: dict[str, int]
    edges: list[tuple[int, ...]]


def link(drafts: Sequence[Draft]) -> Links:
    """Resolve every name; what cannot be is told."""
    names = _names(drafts)
    edges = [tuple(sorted(set(_waits_for(draft, names)))) for draft in drafts]
    for way in cycles(edges):
        _tell_cycle(drafts, way)
    return Links(names, edges)


def _names(drafts: Sequence[Draft]) -> dict[str, int]:
    names: dict[str, int] = {}
    for draft in drafts:
        if draft.id is not None:
            _name(draft, "id", draft.id, names, drafts)
    for draft in drafts:
        if draft.save_as is not None and draft.save_as != draft.id:
            _name(draft, "save_as", draft.save_as, names, drafts)
    return names


def _name(draft: Draft, field: str, name: str, names: dict[str, int], drafts: Sequence[Draft]) -> None:
    if name not in names:
        names[name] = draft.index
        return
    first = drafts[names[name]]
    told = (
        f"{field}: {name!r}, at place {draft.index}, is a name of the step at place {first.index} already; "
        "each step has its own"
    )
    draft.spot.add(field, Code.DUPLICATE_ID, told)


def _waits_for(draft: Draft, names: dict[str, int]) -> Iterator[int]:
    own = {draft.id, draft.save_as} - {None}
    for name in draft.depends_on:
        if name in own:
            told = f"depends_on: the step {name!r} cannot wait for itself"
            draft.spot.add("depends_on", Code.SELF_REFERENCE, told)
        elif name in names:
            yield names[name]
        else:
            _tell_unknown(draft, "depends_on", name, names)
    for use in draft.uses:
        if use.reference.step in own:
            told = f"{use.field}: {use.reference.text} is the step's own output, which is not there before it ran"
            draft.spot.add(use.field, Code.SELF_REFERENCE, told)
    for use in [*draft.uses, *draft.undo_uses]:
        step = use.reference.step
        if step is None or step in own:
            continue
        if step in names:
            yield names[step]
        else:
            _tell_unknown(draft, use.field, step, names)


def _tell_unknown(draft: Draft, field: str, name: str, names: Iterable[str]) -> None:
    near = "" if draft.spot.problems.full else hint(name[:80], some(name[:80], names))
    draft.spot.add(field, Code.UNKNOWN_STEP, f"{field}: there is no step {name[:80]!r}{near}")


def _tell_cycle(drafts: Sequence[Draft], way: Sequence[int]) -> None:
    """Each waits for the one after it."""
    ids = [drafts[step].named for step in way]
    shown = " -> ".join([*ids[:MOST_NAMED], *(["…"] if len(ids) > MOST_NAMED else []), ids[0]])
    size = f" ({len(ids):,} steps)" if len(ids) > MOST_NAMED else ""
    first = drafts[way[0]]
    field = next((use.field for use in [*first.uses, *first.undo_uses] if use.reference.step == ids[1]), "depends_on")
    first.spot.add(
        field, Code.CYCLE, f"{field}: each of these steps waits for the next, so none could start: {shown}{size}"
    )
