"""What `tool_search` asks of the catalogue. The catalogue implements `Shelf` by shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...registry.contract import Contract
from ...registry.named_plans import Offer
from ...registry.principal import Principal


class Hit(Protocol):
    """One tool that fits, or one stored plan."""

    @property
    def contract(self) -> Contract | Offer:
        """The version that an unpinned call takes; of a stored plan, what it is and needs at the strictest."""
        ...

    @property
    def score(self) -> float:
        """Higher fits better; only comparable within one answer."""
        ...

    @property
    def missing_scopes(self) -> Sequence[str]:
        """The scopes that the principal lacks for it; empty for a tool that may be called."""
        ...


class Found(Protocol):
    """The best hits, best first, over what the principal may see."""

    @property
    def hits(self) -> Sequence[Hit]:
        """At most as many as asked for."""
        ...

    @property
    def more(self) -> int:
        """Further ones that fit."""
        ...

    @property
    def unmatched(self) -> Sequence[str]:
        """Words, or names, that no visible tool has."""
        ...


class Shelf(Protocol):
    """The catalogue, seen by one principal at a time. Pure: no call here waits for anything."""

    def search(
        self, principal: Principal, *, query: str | None, names: Sequence[str], category: str | None, limit: int
    ) -> Found:
        """Tools and stored plans by words, by exact names, or all of one category.

        What policy denies, or what is hidden, never comes; what fails only by scope comes, if at all, with
        `missing_scopes`, and is counted nowhere else.
        """
        ...

    def categories(self, principal: Principal) -> Mapping[str, int]:
        """Each tag of a visible tool, and how many have it."""
        ...

    def standing(self, principal: Principal, contract: Contract) -> str:
        """What a call would need: `none | client | operator | second_person | depends | denied`."""
        ...
