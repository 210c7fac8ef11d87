"""The tables of `counterfoil.toml` that this version knows, with their defaults and the text of their reference.

Plain values, checked one by one; whatever needs two tables, a registry or a machine is checked by whoever has them.
The text below a key is its documentation: `reference()` reads it from here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ...registry.vocabulary import Assurance, Verdict
from .auth_tables import AuthTable
from .budget_tables import BudgetsTable, LimitTable
from .kinds import (
    Approvers,
    Count,
    Glob,
    Globs,
    LedgerUrl,
    Modules,
    Name,
    Names,
    Pointer,
    Predicate,
    PublicUrl,
    RateText,
    Seconds,
    Secrets,
    Wait,
    WordOfEffect,
    asks_somebody,
)
from .plan_tables import PlanTable
from .table import Table
from .tool_tables import HttpTable, ToolTable

WordOfVerdict = Annotated[Verdict, Field(strict=False)]
WordOfAssurance = Annotated[Assurance, Field(strict=False), AfterValidator(asks_somebody)]


class ServerTable(Table):
    """Who we are and how we answer."""

    name: Name = "counterfoil"
    """The server's name, as clients see it."""
    transport: Literal["stdio", "http"] = "stdio"
    """How clients reach the server."""
    host: Name = "127.0.0.1"
    """The address to listen on, over HTTP: `127.0.0.1`, `::1` or `localhost` in this version."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    """The port to listen on, over HTTP; 0 takes a free one."""
    allowed_hosts: Names = ()
    """Names beside the loopback ones that Host and Origin may have, over HTTP, with a port where they have one."""
    public_url: PublicUrl = ""
    """Under which address others reach `serve --transport http`, such as `https://tools.example`: `{call.callback}`
    leads there. Its host stands in `allowed_hosts` too. Empty: there are no callbacks."""
    visibility: Literal["deferred", "all"] = "deferred"
    """What tools/list shows: the base tools only, or everything that the principal may call."""
    wait_s: Wait = 20.0
    """How long calls wait where the client shows progress, in seconds; else at most 4."""
    grace_s: Annotated[float, Field(ge=0, le=300, allow_inf_nan=False)] = 3.0
    """An orderly stop: new calls are refused, those in flight have this long, in seconds; recovery has the rest."""
    duplicate_window_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 900.0
    """An identical call whose answer was lost returns the first outcome within this many seconds."""
    show_locked: bool = False
    """Whether tools that fail only by scope are listed, by name and missing scope."""


class LedgerTable(Table):
    """Where and how calls are recorded."""

    url: LedgerUrl | None = None
    """The database, relative to this file; without it one SQLite file for each configuration in the data folder."""
    durability: Literal["full", "normal"] = "full"
    """`normal` survives a killed process but may lose the last facts when the power fails."""
    reads: Literal["with", "before"] = "with"
    """Whether a closed-world read's dispatch is recorded with its settlement or before the call."""
    retention_days: Annotated[int, Field(ge=0)] = 0
    """How long finished calls are kept, in days; 0 keeps everything."""
    payload_keys: Secrets = ()
    """Keys that seal payloads; the first one seals, all open. Empty: a key is made in the data folder."""
    lease_s: Seconds = 30.0
    """How long a silent process keeps its calls, in seconds."""


class PrincipalTable(Table):
    """An identity of the configuration."""

    subject: Name = "me"
    """Who speaks."""
    tenant: Name = "local"
    """Whose tools and calls these are."""
    scopes: Names = ("*",)
    """What may be used; `*` is every scope except `approve` and `reconcile`."""


class PrincipalsTable(Table):
    """Identities that come from the configuration and not from a transport."""

    local: PrincipalTable = PrincipalTable()
    """Who speaks over stdio, and over HTTP where no other identity is proven."""


class PolicyTestTable(Table):
    """One expectation, checked by `counterfoil check`."""

    tool: Name
    """The tool that is called."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Its arguments."""
    expect: WordOfVerdict
    """The verdict that must come of it."""


class PolicyTable(Table):
    """One rule. All matching rules count; the strictest verdict wins."""

    id: Name
    """The rule's name, as refusals give it."""
    tool: Glob = "*"
    """Which tools, by full name or glob."""
    effect: WordOfEffect | None = None
    """Which effect."""
    tags: Globs | None = None
    """Which tags, one or a list; a tool with one of them matches."""
    scope: Glob | None = None
    """Which scope of the tool."""
    tenant: Glob | None = None
    """Whose calls."""
    subject: Glob | None = None
    """Whose calls."""
    upstream: Glob | None = None
    """Tools of which upstream."""
    when: dict[Pointer, Predicate] = Field(default_factory=dict)
    """Tests of the validated arguments, by JSON Pointer."""
    verdict: WordOfVerdict
    """What the rule says."""
    assurance: WordOfAssurance | None = None
    """With `approve`: who must decide; absent, the effect's default."""
    over_mcp: bool = False
    """With `approve`: whether a person may decide through an MCP client that asks them."""
    approvers: Approvers = ()
    """With `approve`: subjects that may decide; empty: scope `approve`, or the OS account."""
    reason: str = ""
    """Why, as refusals give it."""
    limit: LimitTable | None = None
    """With `approve` or `deny`: the rule matches only what goes beyond this."""
    test: Annotated[tuple[PolicyTestTable, ...], Field(strict=False)] = ()
    """Expectations, checked by `counterfoil check`."""

    @model_validator(mode="after")
    def _only_approve_has_approvers(self) -> PolicyTable:
        if self.verdict is not Verdict.APPROVE and (self.assurance or self.over_mcp or self.approvers):
            raise ValueError("assurance, over_mcp and approvers belong to verdict 'approve'")
        if self.verdict is Verdict.ALLOW and self.limit is not None:
            raise ValueError("beyond its limit a rule matches, so limit goes with verdict 'deny' or 'approve'")
        return self


class PolicyDefaultsTable(Table):
    """The verdict of each effect where no rule lowers it."""

    read: WordOfVerdict = Verdict.ALLOW
    """For reads."""
    write: WordOfVerdict = Verdict.APPROVE
    """For writes."""
    destructive: WordOfVerdict = Verdict.APPROVE
    """For destructive calls."""


class ApprovalsTable(Table):
    """How decisions are made and how long they hold."""

    valid_s: Seconds = 86_400.0
    """How long a proposal can be decided, in seconds."""
    execute_within_s: Seconds = 900.0
    """How long after a decision the call may be sent, in seconds."""
    client_wait_s: Wait = 8.0
    """How long a request waits for the client's own dialog before it answers, in seconds."""
    pending_max: Count = 20
    """How many proposals a subject may have open."""
    automation: bool = False
    """Whether `approvals approve ID --digest D` works without a terminal; recorded as such."""
    keys: Secrets = ()
    """Keys that seal digests and request state; the first one seals. Empty: made in the data folder."""
    webhook: str = ""
    """Where a pending proposal is announced; not available in this version, and refused at start."""


class RunsTable(Table):
    """Runs of plans."""

    authority_s: Seconds = 86_400.0
    """How long a run, or a call that waits, may act on the authority of its submission, in seconds."""


class PoolTable(Table):
    """Capacity that several tools share."""

    concurrency: Count | None = None
    """How many calls at once."""
    rate: RateText | None = None
    """How many starts in a time, such as `20/s`."""

    @model_validator(mode="after")
    def _limits_something(self) -> PoolTable:
        if self.concurrency is None and self.rate is None:
            raise ValueError("expected concurrency, rate or both")
        return self


class LimitsTable(Table):
    """What is bounded, and by how much."""

    argument_bytes: Count = 1_000_000
    """Of one call's canonical arguments, in bytes."""
    argument_depth: Annotated[int, Field(ge=1, le=512)] = 64
    """How deep arguments may nest."""
    output_model_bytes: Count = 60_000
    """What the caller is shown of an output, in bytes; the rest is an artifact."""
    output_bytes: Count = 64_000_000
    """Of one output, in bytes."""
    plan_steps: Count = 5_000
    """Of one plan."""
    for_each: Count = 200
    """Items of one step."""
    max_parallel: Count = 8
    """Steps of one run at once."""
    blocking_threads: Annotated[int, Field(ge=1, le=1_000)] = 16
    """Blocking handlers at once."""


class PythonTable(Table):
    """Tools written in Python."""

    modules: Modules = ()
    """Imported at start; their `@tool` functions are registered."""
    path: Names = (".",)
    """Folders that modules are looked up in, relative to this file."""


class Document(Table):
    """The whole file."""

    server: ServerTable = ServerTable()
    """Who we are and how we answer."""
    ledger: LedgerTable = LedgerTable()
    """Where and how calls are recorded."""
    auth: AuthTable = AuthTable()
    """Who may speak over HTTP."""
    principals: PrincipalsTable = PrincipalsTable()
    """Identities that come from the configuration."""
    policy: Annotated[tuple[PolicyTable, ...], Field(strict=False)] = ()
    """Rules; the strictest of all that match wins."""
    policy_defaults: PolicyDefaultsTable = PolicyDefaultsTable()
    """The verdict of each effect where no rule lowers it."""
    approvals: ApprovalsTable = ApprovalsTable()
    """How decisions are made and how long they hold."""
    runs: RunsTable = RunsTable()
    """Runs of plans."""
    budgets: BudgetsTable = BudgetsTable()
    """How much may be done."""
    pools: dict[Name, PoolTable] = Field(default_factory=dict)
    """Capacity that several tools share, by name."""
    limits: LimitsTable = LimitsTable()
    """What is bounded, and by how much."""
    python: PythonTable = PythonTable()
    """Tools written in Python."""
    http: HttpTable = HttpTable()
    """The guarded outbound client."""
    tools: dict[Name, ToolTable] = Field(default_factory=dict)
    """Tools that need no Python, by name."""
    plans: dict[Name, PlanTable] = Field(default_factory=dict)
    """Stored plans, by name."""
