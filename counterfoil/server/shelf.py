"""The catalogue as one principal sees it: for `tool_search`, for the MCP lists, and for the command line.

Policy and catalogue decide; this only brings their answers into the shapes that the tools room and the surface ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..canonical import JsonObject
from ..registry.catalogue import Catalogue, Sight, sight
from ..registry.contract import Contract
from ..registry.named_plans import Offer
from ..registry.policy import Policy
from ..registry.principal import Principal


@dataclass(frozen=True, slots=True)
class Hit:
    """One tool or stored plan that fits; `missing_scopes` only where it fails by scope alone."""

    contract: Contract | Offer
    score: float
    missing_scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The best hits, best first."""

    hits: tuple[Hit, ...]
    more: int = 0
    unmatched: tuple[str, ...] = ()


@dataclass(slots=True)
class Shelf:
    """One process's catalogue under its policy, which is replaced whole when a configuration is read again.

    `everything` lists all that a principal may call.
    """

    catalogue: Catalogue
    policy: Policy
    everything: bool = False
    show_locked: bool = False

    def search(
        self, principal: Principal, *, query: str | None, names: Sequence[str], category: str | None, limit: int
    ) -> Found:
        """Tools and stored plans by exact names, by words, or all of one category."""
        if names:
            return self._named(principal, names)
        found = self.catalogue.search(query or "", principal, self.policy, category, limit)
        known = [(self._known(principal, name), score) for name, score in found.hits]
        hits = [Hit(one, score) for one, score in known if one is not None]
        return Found((*hits, *self._locked(principal, query, limit - len(hits))), found.more, tuple(found.unmatched))

    def categories(self, principal: Principal) -> Mapping[str, int]:
        """Each tag of a visible tool, and how many have it."""
        return self.catalogue.categories(principal, self.policy)

    def listed(self, principal: Principal) -> Sequence[Contract]:
        """What its tools/list shows beside the base tools."""
        return self.catalogue.listed(principal, self.policy, everything=self.everything)

    def shows(self, principal: Principal, contract: Contract) -> bool:
        """Whether it may know of such a tool, registered now or not."""
        seen = sight(contract, principal, self.policy)
        return seen is Sight.SEEN or (seen is Sight.LOCKED and self.show_locked)

    def standing(self, principal: Principal, contract: Contract) -> str:
        """What a call of this tool would need."""
        return self.policy.standing(contract, principal)

    def card(self, principal: Principal, name: str) -> JsonObject | None:
        """Everything that it may read about one tool; None if it may not see it."""
        entry = self.catalogue.get(name)
        if entry is None or self.catalogue.sight(name, principal, self.policy) is not Sight.SEEN:
            return None
        contract = entry.contract
        return {
            "name": contract.name,
            "version": contract.version,
            "title": contract.text.title,
            "description": contract.text.description,
            "tags": list(contract.text.tags),
            "effect": contract.gate.effect.value,
            "open_world": contract.gate.open_world,
            "scopes": list(contract.gate.scopes),
            "approval": self.policy.standing(contract, principal),
            "recovery": contract.recovery_class.value,
            "idempotency": contract.recovery.idempotency.value,
            "timeout_s": contract.limits.timeout_s,
            "schema_digest": contract.short_digest,
            "input_schema": contract.schemas.input,
            "output_schema": contract.schemas.output,
        }

    def _named(self, principal: Principal, names: Sequence[str]) -> Found:
        hits: list[Hit] = []
        unmatched: list[str] = []
        for name in dict.fromkeys(names):
            known, seen = self._known(principal, name), self._sight(principal, name)
            if known is None or seen is Sight.UNKNOWN or (seen is Sight.LOCKED and not self.show_locked):
                unmatched.append(name)
                continue
            hits.append(Hit(known, 1.0, _missing(principal, known)))
        return Found(tuple(hits), 0, tuple(unmatched))

    def _known(self, principal: Principal, name: str) -> Contract | Offer | None:
        """What has this name: no tool and plan share one."""
        entry, plan = self.catalogue.get(name), self.catalogue.plan(name)
        if entry is not None:
            return entry.contract
        return None if plan is None else self.catalogue.offer(plan, principal, self.policy)

    def _sight(self, principal: Principal, name: str) -> Sight:
        asked = self.catalogue.sight if self.catalogue.plan(name) is None else self.catalogue.plan_sight
        return asked(name, principal, self.policy)

    def _locked(self, principal: Principal, query: str | None, room: int) -> list[Hit]:
        """What fails only by scope, by words of its name alone: where the configuration shows it."""
        if not self.show_locked or not query or room <= 0:
            return []
        locked = [self._known(principal, name) for name in self.catalogue.locked(query, principal, self.policy, room)]
        return [Hit(one, 0.0, _missing(principal, one)) for one in locked if one is not None]


def _missing(principal: Principal, one: Contract | Offer) -> tuple[str, ...]:
    return tuple(principal.missing(one.scopes if isinstance(one, Offer) else one.gate.scopes))
