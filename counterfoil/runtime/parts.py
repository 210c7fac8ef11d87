"""What the runtime is made of, handed in once by the composition root. No behaviour lives here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ..ledger.bookkeeping import Delivery
from ..ledger.holding import HoldRow
from ..ledger.redact import hide_values
from ..ledger.sealing import Kind, Sealed
from ..ledger.store import Ledger
from ..registry.budgets import Budgets
from ..registry.catalogue import Catalogue
from ..registry.limits import Breaker
from ..registry.policy import Policy
from ..registry.principal import Principal
from ..registry.vocabulary import JsonValue
from .capacity import Capacity
from .case import Case
from .clock import Clock, Ids
from .passing import Passing
from .settings import Settings
from .waiting import WaitingRoom

ScopesNow: TypeAlias = Callable[[Principal], frozenset[str] | None]
CLAIMS: Final = 256
"""How many clients' words are kept as they are written down."""


@dataclass
class Parts:
    """One process's parts. `cases` are the calls that a task of this process follows, by call id.

    `crossed` are those of them whose adapter was called and whose outcome is not recorded yet. `handlers` run, also
    those that were given up. `chance` gives random numbers from 0 to 1. `deliveries` wait for the next fact that
    carries them along. Policy, settings, budgets, pools and `scopes_now` are replaced whole when a configuration is
    read again; the last tells which scopes a principal has now, None if it is not known any more. `holds` are those
    that were last seen. `passing` are the decided calls that something keeps back.
    """

    catalogue: Catalogue
    policy: Policy
    ledger: Ledger
    clock: Clock
    ids: Ids
    settings: Settings
    capacity: Capacity
    breaker: Breaker
    chance: Callable[[], float]
    scopes_now: ScopesNow
    budgets: Budgets = field(default_factory=Budgets)
    waiting: WaitingRoom = field(default_factory=WaitingRoom)
    cases: dict[str, Case] = field(default_factory=dict[str, Case])
    crossed: set[str] = field(default_factory=set[str])
    handlers: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])
    holds: tuple[HoldRow, ...] = ()
    passing: Passing = field(default_factory=Passing)
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    _claims: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict[tuple[tuple[str, str], ...], str])

    @property
    def limits_calls(self) -> bool:
        """True if any budget or any limit of a rule is stated."""
        return self.budgets.stated or bool(self.policy.limited)

    def keeper(self, call_id: str, tenant: str, secrets: tuple[str, ...] = ()) -> CallKeeper:
        """Seals and redacts for one call, whose arguments hold `secrets`."""
        return CallKeeper(self, call_id, tenant, secrets)

    def claims(self, principal: Principal) -> str:
        """What its client says of itself, redacted, as JSON: the same with every call of a session."""
        claimed = tuple(principal.claimed.items())
        if claimed not in self._claims:
            if len(self._claims) >= CLAIMS:
                self._claims.clear()
            self._claims[claimed] = json.dumps(self.ledger.project(dict(claimed)))
        return self._claims[claimed]

    def take(self, policy: Policy, settings: Settings, budgets: Budgets, scopes_now: ScopesNow | None) -> None:
        """Everything that a configuration says of rules and numbers, in one step; `scopes_now` stays without one."""
        self.policy, self.settings, self.budgets = policy, settings, budgets
        self.scopes_now = scopes_now or self.scopes_now
        self.capacity.replace(settings.pools)
        self.passing.stir()

    def take_deliveries(self) -> tuple[Delivery, ...]:
        """The deliveries that the next fact carries along."""
        taken, self.deliveries = tuple(self.deliveries), []
        return taken


@dataclass(frozen=True, slots=True)
class CallKeeper:
    """Seals and redacts for one call; see `settlement.Keeper`."""

    parts: Parts
    call_id: str
    tenant: str
    secrets: tuple[str, ...] = ()

    def seal(self, kind: Kind, content: bytes) -> Sealed:
        """Sealed content under a new payload id."""
        payload_id = self.parts.ids.new("pay_")
        return self.parts.ledger.seal(
            payload_id=payload_id, call_id=self.call_id, tenant=self.tenant, kind=kind, content=content
        )

    def clear(self, value: JsonValue) -> JsonValue:
        """What is told about the call, without the secrets of its arguments."""
        return hide_values(value, self.secrets)

    def project(self, value: JsonValue, sensitive: Sequence[str] = ()) -> JsonValue:
        """The redacted form of a value."""
        return self.parts.ledger.project(value, sensitive)
