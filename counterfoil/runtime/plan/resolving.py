"""Which tool a step means for this principal, and how far a plan may narrow it.

Unknown and invisible tools look the same, as on the call path. What the step's arguments are is not asked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from ...registry.catalogue import Catalogue, Entry, Sight, sight
from ...registry.contract import BASE_NAMES, Contract
from ...registry.policy import Policy
from ...registry.principal import Principal
from ...registry.vocabulary import JsonObject
from .drafts import Draft
from .fields import Spot
from .model import RetryLimit
from .problems import Code

SHOWN: Final = 64


@dataclass(slots=True)
class Tools:
    """The tools that one principal may name in one plan; each name is looked up once."""

    catalogue: Catalogue
    principal: Principal
    policy: Policy
    _found: dict[tuple[str, str | None], tuple[Entry | None, Sight]] = field(
        default_factory=dict[tuple[str, "str | None"], "tuple[Entry | None, Sight]"]
    )

    def of_step(self, draft: Draft) -> Entry | None:
        """The entry that a step is pinned to; None, and told, where it cannot be called."""
        if draft.tool is None:
            return None
        return self.named(draft.spot, "tool", draft.tool, draft.version)

    def named(self, spot: Spot, place: str, name: str, version: str | None = None) -> Entry | None:
        """The entry of a name that somebody wrote."""
        entry, known = self._look(name, version)
        if entry is None or known is Sight.UNKNOWN:
            self._tell_unknown(spot, place, name, version)
            return None
        return entry if self.allows(spot, place, entry.contract) else None

    def allows(self, spot: Spot, place: str, contract: Contract) -> bool:
        """Whether the principal has the scopes; told if not."""
        missing = self.principal.missing(contract.gate.scopes)
        if missing:
            told = f"{place}: {contract.name} needs scopes that you do not have: {', '.join(missing)}"
            spot.add(place, Code.INSUFFICIENT_SCOPE, told)
        return not missing

    def compensation(self, contract: Contract) -> Entry | None:
        """The registered compensation of a tool, if it has one."""
        name = contract.recovery.compensation
        return None if name is None else self.catalogue.get(name)

    def _look(self, name: str, version: str | None) -> tuple[Entry | None, Sight]:
        key = (name, version)
        if key not in self._found:
            entry = self.catalogue.get(name, version)
            known = Sight.UNKNOWN if entry is None else sight(entry.contract, self.principal, self.policy)
            self._found[key] = entry, known
        return self._found[key]

    def _tell_unknown(self, spot: Spot, place: str, name: str, version: str | None) -> None:
        shown = name[:SHOWN]
        if name in BASE_NAMES:
            told = f"{place}: {shown} is a base tool; a step names a registered tool"
        elif version is not None and self._look(name, None)[1] is not Sight.UNKNOWN:
            last = self._look(name, None)[0]
            at = last.contract.version if last else ""
            told = (
                f"{place}: {shown} has no version {version[:SHOWN]!r}; the last one is {at!r}, taken without 'version'"
            )
        else:
            near = None if spot.problems.full else self.catalogue.nearest(shown, self.principal, self.policy)
            hint = f" Did you mean {near}?" if near else " Use tool_search to find tools."
            told = f"{place}: there is no tool {shown!r}.{hint}"
        spot.add(place, Code.UNKNOWN_TOOL, told)


def check_narrowing(draft: Draft, contract: Contract) -> None:
    """A step's `timeout_s` and `retry` go no further than its contract."""
    limits, retry = contract.limits, contract.retry
    asked = draft.retry or RetryLimit()
    wider = [
        ("timeout_s", draft.timeout_s, limits.timeout_s, "at most"),
        ("retry.attempts", asked.attempts, retry.attempts, "at most"),
        ("retry.backoff_s", asked.backoff_s, retry.backoff_s, "at least"),
        ("retry.least_s", asked.least_s, retry.least_s, "at least"),
    ]
    for place, stated, figure, way in wider:
        if stated is not None and (stated > figure if way == "at most" else stated < figure):
            told = (
                f"{place}: {contract.name} has {figure:g}; a step can only narrow it, {way} {figure:g}, not {stated:g}"
            )
            draft.spot.add(place, Code.INVALID_ARGUMENTS, told)


def check_allowed(spot: Spot, place: str, contract: Contract, allow: JsonObject | None) -> None:
    """What the plan's own `allow` rules out is denied."""
    for told in _ruled_out(contract, allow or {}):
        spot.add(place, Code.DENIED, f"{place}: {told}")


def _ruled_out(contract: Contract, allow: JsonObject) -> Iterator[str]:
    tools, effects, cost = allow.get("tools"), allow.get("effects"), allow.get("max_cost")
    if isinstance(tools, list) and not any(fnmatchcase(contract.name, str(pattern)) for pattern in tools):
        yield f"the plan's allow.tools does not name {contract.name}"
    if isinstance(effects, list) and contract.gate.effect.value not in effects:
        yield f"{contract.name} has effect '{contract.gate.effect}', which the plan's allow.effects leaves out"
    if isinstance(cost, int | float) and contract.limits.cost > cost:
        yield f"a call of {contract.name} costs {contract.limits.cost:g}, more than the plan's allow.max_cost, {cost:g}"
