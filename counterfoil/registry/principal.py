"""Who asks. A principal comes from the transport or the configuration, never from arguments or client-sent `_meta`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

NEVER_IN_WILDCARD = frozenset({"approve", "reconcile"})


@dataclass(frozen=True, slots=True)
class Principal:
    """One identity: `tenant` and `subject` say whose it is, `client` through what it speaks.

    `proof` is how the identity was proven (`token`), None where nothing but the local account vouches for it.
    `claimed` is what the client says of itself (name, version, model): recorded, never trusted, never compared.
    """

    tenant: str
    subject: str
    client: str = ""
    scopes: frozenset[str] = frozenset()
    proof: str | None = None
    claimed: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, hash=False)

    def missing(self, needed: Collection[str]) -> list[str]:
        """The needed scopes that are not held, sorted. `*` is every scope except `approve` and `reconcile`."""
        if not needed:
            return []
        wild = "*" in self.scopes
        return sorted(
            {scope for scope in needed if scope not in self.scopes and not (wild and scope not in NEVER_IN_WILDCARD)}
        )

    def common(self, scopes: frozenset[str]) -> frozenset[str]:
        """What both it and whoever has these scopes may; `*` on one side leaves what the other one names."""
        other = Principal(self.tenant, self.subject, scopes=scopes)
        both = self.scopes | scopes
        return frozenset(scope for scope in both if self.holds(scope) and other.holds(scope))

    def holds(self, scope: str) -> bool:
        """True if this one scope is held."""
        return not self.missing([scope])
