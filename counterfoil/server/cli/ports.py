"""What the commands ask of the application, by shape: its runtime, its catalogue, its policy, and who is local."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from ...canonical import JsonObject, JsonValue
from ...registry.contract import Contract
from ...registry.named_plans import NamedPlan, Offer
from ...registry.principal import Principal
from ...registry.request import CallRequest, RunRequest
from ...runtime.deciding import Decider

if TYPE_CHECKING:
    from ...registry.policy import Policy
    from ...registry.policy_check import Finding
    from ..config import Configuration
    from ..graph import Graph

DecisionWord = Literal["approve", "reject"]


class View(Protocol):
    """An answer of the runtime."""

    @property
    def is_error(self) -> bool:
        """True if the request was refused."""
        ...

    @property
    def delivers(self) -> tuple[str, ...]:
        """The calls whose settled state this shows."""
        ...

    def wire(self) -> JsonObject:
        """The form of design section 7."""
        ...


class Holding(Protocol):
    """Stopping dispatches, and letting them go on."""

    async def hold(self, kind: str, name: str, *, by: str, reason: str = "") -> View:
        """Hold from now on."""
        ...

    async def release(self, kind: str, name: str, *, by: str) -> View:
        """Let go."""
        ...

    async def all(self) -> View:
        """What is held."""
        ...


class Runtime(Protocol):
    """The doors of the runtime that commands use."""

    @property
    def holding(self) -> Holding:
        """The doors for holds."""
        ...

    async def call(self, request: CallRequest) -> View:
        """The one call path."""
        ...

    async def status(
        self,
        principal: Principal,
        *,
        call_id: str | None,
        run_id: str | None,
        after_seq: int | None = None,
        wait_s: float,
    ) -> View:
        """One call or run with its events after `after_seq`, or what is open."""
        ...

    async def plan(self, principal: Principal, document: JsonValue) -> View:
        """Check a plan and keep it; nothing runs."""
        ...

    async def run(self, request: RunRequest) -> View:
        """Begin a run, find the one that is there, or take up a parked one."""
        ...

    async def runs(self, *, limit: int) -> Sequence[View]:
        """Everybody's runs, newest first."""
        ...

    async def cancel(
        self, principal: Principal, *, call_id: str | None, run_id: str | None, reason: str | None
    ) -> View:
        """Let nothing further start."""
        ...

    async def reconcile(  # noqa: PLR0913 (the fields of the request)
        self,
        principal: Principal,
        *,
        call_id: str | None,
        run_id: str | None,
        resolution: str | None,
        evidence: str | None,
        output: JsonValue,
        external_reference: str | None,
        then: str | None,
        person: Decider | None,
    ) -> View:
        """Find out what happened, or record a person's word."""
        ...

    async def decide(
        self, approval_id: str, decision: DecisionWord, *, digest: str | None, note: str | None, decider: Decider
    ) -> View:
        """Record a decision."""
        ...

    async def revoke(self, approval_id: str, *, digest: str | None, note: str | None, decider: Decider) -> View:
        """Take back what was not sent."""
        ...

    async def approvals(self, *, pending_only: bool) -> Sequence[View]:
        """Everybody's proposals."""
        ...

    async def approval(self, approval_id: str) -> View:
        """One proposal."""
        ...

    async def delivered(self, call_ids: Sequence[str], principal: Principal) -> None:
        """The end of these calls was shown."""
        ...


class Entry(Protocol):
    """A registered tool."""

    @property
    def contract(self) -> Contract:
        """Its contract."""
        ...


class Catalogue(Protocol):
    """What is registered."""

    def names(self) -> Sequence[str]:
        """All names, sorted."""
        ...

    def get(self, name: str, version: str | None = None) -> Entry | None:
        """The version that unpinned calls take, or a pinned one."""
        ...

    def contracts(self) -> Sequence[Contract]:
        """What unpinned calls take, by name."""
        ...

    def entries(self) -> Sequence[Entry]:
        """Every version of every tool."""
        ...

    def plan(self, name: str) -> NamedPlan | None:
        """The stored plan of this name."""
        ...

    def plans(self) -> Sequence[NamedPlan]:
        """All stored plans, by name."""
        ...

    def offer(self, plan: NamedPlan, principal: Principal, policy: Policy) -> Offer:
        """What a principal is told of a stored plan."""
        ...


class Hit(Protocol):
    """One tool or stored plan that fits a search."""

    @property
    def contract(self) -> Contract | Offer: ...  # noqa: D102 (as the shelf has it, like the rest)
    @property
    def score(self) -> float: ...  # noqa: D102
    @property
    def missing_scopes(self) -> Sequence[str]: ...  # noqa: D102


class Found(Protocol):
    """The best hits, best first."""

    @property
    def hits(self) -> Sequence[Hit]: ...  # noqa: D102 (as the shelf has it, like the rest)
    @property
    def more(self) -> int: ...  # noqa: D102
    @property
    def unmatched(self) -> Sequence[str]: ...  # noqa: D102


class Shelf(Protocol):
    """The catalogue as a searcher sees it."""

    def search(
        self, principal: Principal, *, query: str | None, names: Sequence[str], category: str | None, limit: int
    ) -> Found:
        """Tools by words."""
        ...


class Tools(Protocol):
    """What a configuration offers, and to whom."""

    @property
    def config(self) -> Configuration: ...  # noqa: D102 (their types say it)
    @property
    def catalogue(self) -> Catalogue: ...  # noqa: D102
    @property
    def policy(self) -> Policy: ...  # noqa: D102
    @property
    def shelf(self) -> Shelf: ...  # noqa: D102
    @property
    def local(self) -> Principal: ...  # noqa: D102

    def plan_findings(self) -> Sequence[Finding]:
        """Stored plans that this principal could not run."""
        ...


class App(Tools, Protocol):
    """One open application."""

    @property
    def runtime(self) -> Runtime: ...  # noqa: D102 (its type says it)

    async def graph(self, run_id: str) -> tuple[View, Graph | None]:
        """A run of the local principal and its picture, which a refusal has not."""
        ...
