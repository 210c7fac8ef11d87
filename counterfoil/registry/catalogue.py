"""All registered tools with their adapters, and the one answer to who may know of which.

List, search, call and error messages all ask `sight`, so that no two of them can disagree. Tools may come and go at
any time; whoever needs to know subscribes. What a call may do is policy's and the runtime's to say.
"""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from .adapter import Adapter
from .contract import Contract, ContractError
from .index import Index
from .named_plans import Asker, NamedPlan, Offer, offer, scopes_of
from .policy import Policy
from .principal import Principal
from .search import Found, View
from .vocabulary import Effect, Visibility

VIEWS: Final = 32
"""Kinds of callers whose view of the index is kept; one more costs a pass over the catalogue."""
NEAREST_AMONG: Final = 200
"""Names that a mistaken one is compared with, letter by letter."""
NEAREST_LIKENESS: Final = 0.75


class Sight(StrEnum):
    """What a principal may know of a tool."""

    SEEN = "seen"
    LOCKED = "locked"
    """It would be seen but for a missing scope: such a call answers `insufficient_scope`."""
    UNKNOWN = "unknown"
    """To this principal it does not exist: such a call answers as for a name that nobody registered."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one tool and its hands."""

    contract: Contract
    adapter: Adapter


Subscriber: TypeAlias = Callable[[str], None]
Unsubscribe: TypeAlias = Callable[[], None]


def sight(contract: Contract, principal: Principal, policy: Policy) -> Sight:
    """What this principal may know of this tool; being denied counts before being locked."""
    if not _can_be_seen(contract) or policy.hides(contract, principal):
        return Sight.UNKNOWN
    return Sight.LOCKED if principal.missing(contract.gate.scopes) else Sight.SEEN


def _can_be_seen(contract: Contract) -> bool:
    return contract.asked_about is None and contract.gate.visibility is not Visibility.HIDDEN


@dataclass(slots=True)
class _Audience:
    """One kind of caller: a principal that stands for it, the policy it was seen under, and what it sees.

    `lists` has what it is shown as a list, base tools only or everything, until something changes.
    """

    principal: Principal
    policy: Policy
    seen: View = field(repr=False)
    locked: View = field(repr=False)
    lists: dict[bool, list[Contract]] = field(default_factory=dict[bool, list[Contract]], repr=False)

    def changed(self, name: str, known: Sight) -> None:
        """What it may know of one tool has perhaps become something else."""
        (self.seen.show if known is Sight.SEEN else self.seen.hide)(name)
        (self.locked.show if known is Sight.LOCKED else self.locked.hide)(name)
        self.lists.clear()


class Catalogue:
    """The tools of one process. Not for use from several threads."""

    def __init__(self) -> None:
        self.revision = 0
        self._versions: dict[str, dict[str, Entry]] = {}
        self._plans: dict[str, NamedPlan] = {}
        self._index = Index()
        self._audiences: OrderedDict[Hashable, _Audience] = OrderedDict()
        self._subscribers: dict[object, Subscriber] = {}

    def register(self, contract: Contract, adapter: Adapter) -> None:
        """Add a version of a tool; unpinned calls take it from now on.

        Raises:
            ContractError: this version of this tool is registered already.
        """
        versions = self._versions.get(contract.name, {})
        if contract.version in versions:
            raise ContractError(
                f"{contract.name}: version {contract.version!r} is registered already; "
                "give the new one another version, or remove the old one first"
            )
        if contract.name in self._plans:
            raise ContractError(f"{contract.name}: a stored plan has this name; tools and plans share one name space")
        self._versions.setdefault(contract.name, {})[contract.version] = Entry(contract, adapter)
        self._changed(contract.name)

    def remove(self, name: str, version: str | None = None) -> None:
        """Take away one version, or all; nothing happens if there is none."""
        versions = self._versions.get(name, {})
        if not versions or (version is not None and version not in versions):
            return
        if version is not None:
            del versions[version]
        if version is None or not versions:
            del self._versions[name]
        self._changed(name)

    def take_plans(self, plans: Iterable[NamedPlan]) -> None:
        """Have these stored plans, in place of all that were there.

        Raises:
            ContractError: a tool has the name of one.
        """
        new = {plan.name: plan for plan in plans}
        if clash := sorted(new.keys() & self._versions.keys()):
            raise ContractError(f"{clash[0]}: a tool has this name; tools and plans share one name space")
        self.revision += 1
        for name in self._plans:
            self._index.remove(name)
        gone, self._plans = self._plans.keys() - new.keys(), new
        for plan in new.values():
            self._index.put(plan)
        for one in self._audiences.values():
            for name in (*gone, *new):
                one.changed(name, self.plan_sight(name, one.principal, one.policy))

    def plan(self, name: str) -> NamedPlan | None:
        """The stored plan of this name."""
        return self._plans.get(name)

    def plans(self) -> list[NamedPlan]:
        """All stored plans, by name."""
        return [self._plans[name] for name in sorted(self._plans)]

    def plan_sight(self, name: str, principal: Principal, policy: Policy) -> Sight:
        """What this principal may know of a stored plan: it is seen by whoever may call everything that it names."""
        plan = self._plans.get(name)
        entries = [] if plan is None else [self.get(use.tool, use.version) for use in plan.uses]
        called = [entry.contract for entry in entries if entry is not None]
        if plan is None or len(called) < len(plan.uses):
            return Sight.UNKNOWN
        if any(sight(contract, principal, policy) is Sight.UNKNOWN for contract in called):
            return Sight.UNKNOWN
        return Sight.LOCKED if principal.missing(scopes_of((*called, *self._undos(plan)))) else Sight.SEEN

    def offer(self, plan: NamedPlan, principal: Principal, policy: Policy) -> Offer:
        """What is told of a stored plan to a principal who may see it, or lacks scopes for it alone."""
        called = [entry.contract for use in plan.uses if (entry := self.get(use.tool, use.version))]
        return offer(plan, called, self._undos(plan), Asker(principal, policy))

    def nearest_plan(self, name: str, principal: Principal, policy: Policy) -> str | None:
        """The seen stored plan that somebody who wrote `name` may have meant."""
        seen = self._audience(principal, policy).seen
        among = [one for one in seen.by_name(name, NEAREST_AMONG) if one in self._plans]
        among += [one for one in sorted(self._plans)[:NEAREST_AMONG] if one in seen.names and one not in among]
        return next(iter(difflib.get_close_matches(name, among, n=1, cutoff=NEAREST_LIKENESS)), None)

    def _named_in(self, plan: NamedPlan) -> set[str]:
        """The tools that decide who sees a plan."""
        return {use.tool for use in plan.uses} | {contract.name for contract in self._undos(plan)}

    def _undos(self, plan: NamedPlan) -> list[Contract]:
        """The tools' own compensations that a run of this plan may need."""
        called = [self.get(use.tool, use.version) for use in plan.uses if use.undone]
        return self._contracts(
            name for entry in called if entry and (name := entry.contract.recovery.compensation) is not None
        )

    def get(self, name: str, version: str | None = None) -> Entry | None:
        """The entry of a pinned version, or of the one registered last; None if there is none."""
        versions = self._versions.get(name)
        if not versions:
            return None
        return versions[next(reversed(versions))] if version is None else versions.get(version)

    def entries(self) -> list[Entry]:
        """Every version of every tool, those of one tool in the order in which they came."""
        return [entry for versions in self._versions.values() for entry in versions.values()]

    def names(self) -> list[str]:
        """All names, sorted, those of probes and compensations included."""
        return sorted(self._versions)

    def contracts(self) -> list[Contract]:
        """What unpinned calls take, by name."""
        return self._contracts(self.names())

    def subscribe(self, callback: Subscriber) -> Unsubscribe:
        """Have `callback(name)` called after each change of a tool; the answer ends it."""
        token = object()
        self._subscribers[token] = callback
        return lambda: self._subscribers.pop(token, None) and None

    def sight(self, name: str, principal: Principal, policy: Policy, version: str | None = None) -> Sight:
        """What this principal may know of a tool; `unknown` also where there is none."""
        entry = self.get(name, version)
        return Sight.UNKNOWN if entry is None else sight(entry.contract, principal, policy)

    def listed(self, principal: Principal, policy: Policy, *, everything: bool) -> list[Contract]:
        """The tools to list, by name: seen ones of visibility `base`, with `everything` all seen ones."""
        audience = self._audience(principal, policy)
        if everything not in audience.lists:
            contracts = self._contracts(sorted(audience.seen.names))
            audience.lists[everything] = [
                one for one in contracts if everything or one.gate.visibility is Visibility.BASE
            ]
        return audience.lists[everything]

    def locked(self, query: str, principal: Principal, policy: Policy, limit: int) -> list[str]:
        """Tools and plans that this principal lacks only a scope for and whose names share a word with the query."""
        return self._audience(principal, policy).locked.by_name(query, limit)

    def nearest(self, name: str, principal: Principal, policy: Policy) -> str | None:
        """The seen tool that somebody who wrote `name` may have meant; None if there is none like it."""
        seen = self._audience(principal, policy).seen
        among = sorted(seen.names) if len(seen.names) <= NEAREST_AMONG else seen.by_name(name, NEAREST_AMONG)
        among = [one for one in among if one in self._versions]
        return next(iter(difflib.get_close_matches(name, among, n=1, cutoff=NEAREST_LIKENESS)), None)

    def search(
        self, query: str, principal: Principal, policy: Policy, category: str | None = None, limit: int = 5
    ) -> Found:
        """Search what this principal sees."""
        return self._audience(principal, policy).seen.search(query, category, limit)

    def categories(self, principal: Principal, policy: Policy) -> dict[str, int]:
        """The tags of the tools that this principal sees, with their numbers."""
        return self._audience(principal, policy).seen.categories()

    def check(self, besides: Container[str] = ()) -> list[str]:
        """What is missing, a sentence each: probes, compensations and previews that are named but not there.

        The tools in `besides` are left to whoever knows where they are written down.
        """
        return [
            problem
            for name, versions in self._versions.items()
            for entry in versions.values()
            if name not in besides
            for problem in self._missing(entry.contract)
        ]

    def _missing(self, contract: Contract) -> Iterator[str]:
        recovery = contract.recovery
        named = {"probe": recovery.probe, "compensation": recovery.compensation, "preview": contract.gate.preview}
        for role, name in named.items():
            entry = self.get(name) if name else None
            if name and entry is None:
                yield f"{contract.name}: its {role} {name!r} is not registered"
            elif entry and role != "compensation" and entry.contract.gate.effect is not Effect.READ:
                effect = entry.contract.gate.effect.value
                yield f"{contract.name}: its {role} {name!r} has effect {effect!r}; it must be a 'read'"
            elif entry and role == "compensation" and entry.contract.is_read and not contract.is_read:
                yield f"{contract.name}: its compensation {name!r} is a 'read', which undoes nothing"
            elif entry and role == "preview" and (lacking := _lacking(contract, entry.contract)):
                yield f"{contract.name}: its preview {name!r} needs {', '.join(lacking)}, which the tool does not take"

    def _changed(self, name: str) -> None:
        self.revision += 1
        entry = self.get(name)
        if entry and _can_be_seen(entry.contract):
            self._index.put(entry.contract)
        else:
            self._index.remove(name)
        concerned = [plan.name for plan in self._plans.values() if name in self._named_in(plan)]
        for one in self._audiences.values():
            one.changed(name, self.sight(name, one.principal, one.policy))
            for plan in concerned:
                one.changed(plan, self.plan_sight(plan, one.principal, one.policy))
        for callback in tuple(self._subscribers.values()):
            callback(name)

    def _sight(self, name: str, principal: Principal, policy: Policy) -> Sight:
        """Of a tool or of a stored plan: no name is both."""
        asked = self.plan_sight if name in self._plans else self.sight
        return asked(name, principal, policy)

    def _contracts(self, names: Iterable[str]) -> list[Contract]:
        return [entry.contract for name in names if (entry := self.get(name))]

    def _audience(self, principal: Principal, policy: Policy) -> _Audience:
        key = (policy, policy.audience(principal), principal.scopes)
        audience = self._audiences.get(key)
        if audience is None:
            known = {name: self._sight(name, principal, policy) for name in self._index.ids}
            seen = View(self._index, lambda name: known[name] is Sight.SEEN)
            locked = View(self._index, lambda name: known[name] is Sight.LOCKED)
            audience = self._audiences[key] = _Audience(principal, policy, seen, locked)
            if len(self._audiences) > VIEWS:
                self._audiences.popitem(last=False)
        self._audiences.move_to_end(key)
        return audience


def _lacking(contract: Contract, preview: Contract) -> list[str]:
    """What a preview needs and no call has, where it gets those of the call's own arguments that it takes."""
    ours, needed = contract.schemas.input.get("properties"), preview.schemas.input.get("required")
    if contract.gate.preview_arguments is not None or not isinstance(needed, list):
        return []
    return [str(name) for name in needed if not (isinstance(ours, dict) and name in ours)]
