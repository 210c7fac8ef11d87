"""The check of one step after another: where its references lead, whether its calls can be made, and what policy says.

Names and edges are known by now. What is found of a step is the same wherever it stands in the plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ...registry.catalogue import Entry
from ...registry.policy import Decision, Policy
from ...registry.predicates import kind_of
from ...registry.principal import Principal
from ...registry.vocabulary import Verdict
from .arguing import Arguing, Fitting
from .conditions import decided
from .drafts import Draft, DraftPlan
from .facts import Facts, strictest_of
from .fields import Spot
from .flow import Item, Sources, spoken_kinds
from .problems import Code
from .repeating import Repeats, repeats
from .resolving import check_allowed, check_narrowing
from .undoing import Undoing
from .uses import follow

MOST_ITEMS: Final = 2_000
"""Known items of all `for_each` together that are looked at one by one; beyond them any item stands for each."""
MOST_CHARACTERS: Final = 2_000_000
"""Characters of the arguments of all of those items together; beyond them too."""
_ANY_VERSION: Final = "1"
"""Stands for an `if_version` that is not known yet."""


@dataclass(slots=True)
class Stepwise:
    """Checks the steps of one plan for one principal."""

    plan: DraftPlan
    principal: Principal
    policy: Policy
    most_items: int
    sources: Sources
    arguing: Arguing
    undoing: Undoing
    items_left: int = MOST_ITEMS
    characters_left: int = MOST_CHARACTERS

    def check(self, draft: Draft, entry: Entry | None) -> Facts | None:
        """Tell what is wrong with a step; None where its tool is not known."""
        follow(draft.spot, [use for use in draft.uses if use.reference.root != "item"], self.sources, None)
        self._place_items(draft)
        found = repeats(draft, self.sources, self.most_items)
        happens = decided(draft, self.sources)
        if entry is None:
            return None
        check_narrowing(draft, entry.contract)
        check_allowed(draft.spot, "tool", entry.contract, self.plan.allow)
        undoable = self.undoing.check(draft, entry, found)
        mildest, strictest = self._judged(draft, entry, found)
        return Facts(entry.contract, found, happens, mildest, strictest, undoable)

    def _place_items(self, draft: Draft) -> None:
        """`${item}` is known in what is done for each item, and nowhere else."""
        for use in [*draft.uses, *draft.undo_uses]:
            if use.reference.root != "item":
                continue
            if draft.for_each is None:
                told = f"{use.field}: {use.reference.text} stands inside a for_each only, and this step has none"
                draft.spot.add(use.field, Code.BAD_REFERENCE, told)
            elif use.field.startswith(("when", "for_each")):
                told = (
                    f"{use.field}: {use.reference.text} is not known here; 'when' and 'for_each' are read once, before"
                )
                draft.spot.add(use.field, Code.BAD_REFERENCE, told)

    def _judged(self, draft: Draft, entry: Entry, found: Repeats) -> tuple[Decision, Decision]:
        """The mildest and the strictest that the step's calls can get together."""
        bounds = [self._bounds(draft, entry, item, spot) for item, spot in self._items(draft, found)]
        mildest, strictest = (strictest_of(side) for side in zip(*bounds, strict=True))
        return mildest, strictest

    def _items(self, draft: Draft, found: Repeats) -> Iterator[tuple[Item | None, Spot]]:
        count = len(found.values)
        work = _characters(draft, found)
        if not count or count > self.items_left or work > self.characters_left:
            yield found.any_item, draft.spot
            return
        self.items_left -= count
        self.characters_left -= work
        for index, item in enumerate(found.items()):
            yield item, replace(draft.spot, note=f" (item {index})")

    def _bounds(self, draft: Draft, entry: Entry, item: Item | None, spot: Spot) -> tuple[Decision, Decision]:
        if item is not None:
            own = [use for use in draft.uses if use.reference.root == "item" and use.field.startswith(("args", "if_"))]
            follow(spot, own, self.sources, item)
        version = self._if_version(draft, item, spot)
        partial = self.sources.filled(draft.args, item)
        fitting = self.arguing.check(spot, entry, partial, if_version=version)
        if fitting is None:
            fitting = Fitting({}, ((),))
            return self._decisions(entry, fitting)
        mildest, strictest = self._decisions(entry, fitting)
        if mildest.verdict is Verdict.DENY:
            told = (
                f"tool: {entry.contract.name} is denied with these arguments: {mildest.reason} (rule {mildest.rule_id})"
            )
            spot.add("tool", Code.DENIED, told)
        return mildest, strictest

    def _decisions(self, entry: Entry, fitting: Fitting) -> tuple[Decision, Decision]:
        return self.policy.bounds(entry.contract, fitting.arguments, self.principal, fitting.unknown)

    def _if_version(self, draft: Draft, item: Item | None, spot: Spot) -> str | None:
        if draft.if_version is None:
            return None
        partial = self.sources.filled(draft.if_version, item)
        if not partial.holes and isinstance(partial.value, str):
            return partial.value
        if not partial.holes:
            told = f"if_version: expected a string, and it is a known {kind_of(partial.value)}"
            spot.add("if_version", Code.BAD_REFERENCE, told)
        elif "string" not in partial.holes[0].shape.kinds and not isinstance(partial.holes[0].default, str):
            hole = partial.holes[0]
            told = f"if_version: expected a string, and {hole.text} is {spoken_kinds(hole.shape)}"
            spot.add("if_version", Code.BAD_REFERENCE, told)
        return _ANY_VERSION


def _characters(draft: Draft, found: Repeats) -> int:
    """How much there is to read if each known item is put into the step's arguments."""
    if not found.values:
        return 0
    uses = sum(use.reference.root == "item" for use in draft.uses)
    return len(found.values) * len(json.dumps(draft.args)) + uses * len(json.dumps(found.values))
