"""The composition root: from a configuration to an open ledger, a catalogue, a policy and a running runtime.

Everything is put together here and nowhere else. `open_app` is also what embedding programs use.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..canonical import JsonObject, JsonValue
from ..ledger.errors import LedgerLockedError
from ..ledger.store import Ledger, LedgerSettings
from ..registry.catalogue import Catalogue
from ..registry.limits import Breaker
from ..registry.policy import Policy
from ..registry.policy_check import Finding
from ..registry.policy_rules import PolicyError, Rule
from ..registry.principal import Principal
from ..registry.request import CallRequest, RunRequest
from ..registry.vocabulary import Effect
from ..runtime.capacity import Capacity
from ..runtime.chain.plans import Plans
from ..runtime.chain.views import PlanView, RunView
from ..runtime.clock import MICROSECOND, Clock, RandomIds, SystemClock
from ..runtime.parts import Parts
from ..runtime.plan.stored import to_document
from ..runtime.runtime import Runtime
from ..runtime.settings import Pool, Settings
from ..runtime.views import CallView, PlainView
from ..tools.http.outbound import Outbound
from .authority import scopes_of
from .config import ConfigError, Configuration, load
from .config.errors import KeyPath
from .config.kinds import read_rate
from .http_tools import register_http_tools, unfitting, usable_hosts
from .limits import budgets_of, limit_of
from .modules import register_modules
from .quiet import keep_quiet
from .secrets import SecretError, resolve
from .shelf import Shelf
from .stored_plans import findings, read_plans

if TYPE_CHECKING:
    from .graph import Graph

OPEN_WAIT_S: Final = 30.0
"""How long a start waits for another process to let go of the ledger."""
OPEN_PAUSE_S: Final = 0.5


@dataclass(slots=True)
class Tools:
    """What a configuration offers, and to whom: nothing here runs or is recorded.

    `config` and `local` are replaced whole when the configuration is read again.
    """

    config: Configuration
    catalogue: Catalogue
    shelf: Shelf
    local: Principal
    outbound: Outbound

    @property
    def policy(self) -> Policy:
        """The rules of now."""
        return self.shelf.policy

    def plan_findings(self) -> list[Finding]:
        """Stored plans that are right and that the local principal could not run."""
        return findings(self.config, self.catalogue, self.policy, self.local)


@dataclass(slots=True)
class App(Tools):
    """One open application."""

    ledger: Ledger
    runtime: Runtime

    async def call(
        self,
        name: str,
        arguments: JsonValue = None,
        *,
        principal: Principal | None = None,
        idempotency_key: str | None = None,
        if_version: str | None = None,
        version: str | None = None,
        wait_s: float | None = None,
    ) -> CallView:
        """Call a tool from Python, as `principal` or as the configuration's own; its view counts as delivered."""
        request = CallRequest(
            principal=principal or self.local,
            tool=name,
            arguments={} if arguments is None else arguments,
            version=version,
            idempotency_key=idempotency_key,
            if_version=if_version,
            wait_s=wait_s,
            wait_given=wait_s is not None,
        )
        view = await self.runtime.call(request)
        await self.runtime.delivered(view.delivers, request.principal)
        return view

    async def plan(self, document: JsonValue, *, principal: Principal | None = None) -> PlanView:
        """Check a plan from Python and keep it; nothing runs. What is wrong with it is in `errors` of its wire form."""
        return await self.runtime.plan(principal or self.local, document)

    async def run(
        self,
        plan: str | JsonObject | None = None,
        *,
        name: str | None = None,
        run_id: str | None = None,
        input: JsonObject | None = None,  # noqa: A002 (as the wire has it)
        request_key: str | None = None,
        principal: Principal | None = None,
        wait_s: float | None = None,
    ) -> RunView:
        """Run a plan from Python: by its `plan_id`, as it is, or a stored one by its `name`; or take up `run_id`.

        Without `wait_s` the answer comes when it is finished, or nothing about it moves by itself.
        """
        return await self.runtime.run(
            RunRequest(
                principal=principal or self.local,
                plan_id=plan if isinstance(plan, str) else None,
                plan=None if isinstance(plan, str) else plan,
                name=name,
                run_id=run_id,
                input=input,
                request_key=request_key,
                wait_s=wait_s,
                wait_given=wait_s is not None,
            )
        )

    async def graph(
        self, run_id: str, *, principal: Principal | None = None
    ) -> tuple[CallView | RunView | PlainView, Graph | None]:
        """A run as `status` shows it, and its picture as it stands now; a refused request has none."""
        from .graph import Facts, graph_of  # noqa: PLC0415 (a server starts without)

        who = principal or self.local
        view = await self.runtime.status(who, run_id=run_id)
        stored = None if view.is_error else await Plans(self.ledger).find(str(view.wire()["plan_id"]))
        if stored is None:
            return view, None
        facts: dict[str, Facts] = {}
        for step in stored.plan.steps:
            entry = self.catalogue.get(step.tool, step.version)
            known = None if entry is None else entry.contract
            approval = None if known is None else self.policy.standing(known, who).value
            facts[step.id] = Facts(None if known is None else known.gate.effect.value, approval, step.version)
        return view, graph_of(to_document(stored.plan), facts, view.wire())


def read_tools(config_path: Path | str, clock: Clock | None = None) -> Tools:
    """What a configuration offers, without opening its ledger; `clock` is time, where a test owns it.

    Raises:
        ConfigError: the configuration, or a tool module that it names, cannot be used.
    """
    config = load(Path(config_path))
    catalogue = Catalogue()
    outbound = _register(config, catalogue, clock or SystemClock())
    policy = policy_of(config)
    shelf = Shelf(catalogue, policy, config.server.visibility == "all", config.server.show_locked)
    return Tools(config, catalogue, shelf, local_principal(config), outbound)


def _register(config: Configuration, catalogue: Catalogue, clock: Clock) -> Outbound:
    """Register every tool, and make the one client that described ones send with; it opens nothing yet.

    The client has the runtime's time, or it would judge that one's deadlines by another clock.

    Raises:
        ConfigError: with everything that is wrong, in modules, described tools, between them, and in stored plans.
    """
    hosts, problems = usable_hosts(config)
    outbound = Outbound(
        hosts, now=lambda: datetime.fromtimestamp(clock.now() / MICROSECOND, UTC), body_bytes=config.limits.output_bytes
    )
    problems += register_modules(config, catalogue)
    problems += register_http_tools(config, catalogue, outbound)
    problems += unfitting(config, catalogue)
    problems += [config.problem(("python", "modules"), text) for text in catalogue.check(config.tools)]
    plans, wrong = read_plans(config, catalogue) if not problems else ([], [])
    if problems or wrong:
        raise ConfigError(config.path, sorted([*problems, *wrong], key=lambda problem: problem.line or 0))
    catalogue.take_plans(plans)
    return outbound


@asynccontextmanager
async def open_app(
    config_path: Path | str, *, role: str = "embedded", clock: Clock | None = None
) -> AsyncGenerator[App, None]:
    """Open everything that a configuration names, and close it in order.

    Args:
        config_path: the configuration's file.
        role: `serve`, `cli` or `embedded`. A command line takes no queued work of others up, since it ends at once.
        clock: time, where a test owns it.

    Raises:
        ConfigError: the configuration, or a tool module that it names, cannot be used.
        LedgerError: the ledger cannot be opened.
    """
    keep_quiet()
    time = clock or SystemClock()
    tools = read_tools(config_path, time)
    config = tools.config
    ledger = await _open_ledger(config, time)
    done = False
    try:
        runtime = Runtime(_parts(tools, ledger, time, role))
        await runtime.start(sweeps=role != "cli")
        try:
            yield App(config, tools.catalogue, tools.shelf, tools.local, tools.outbound, ledger, runtime)
        finally:
            done = await runtime.stop(config.server.grace_s)
    finally:
        await tools.outbound.aclose()
        await ledger.close(ended=done)


def local_principal(config: Configuration) -> Principal:
    """Who speaks over stdio, at the command line and by embedding."""
    local = config.principals.local
    return Principal(local.tenant, local.subject, "local", frozenset(local.scopes))


def policy_of(config: Configuration) -> Policy:
    """The rules as values.

    Raises:
        ConfigError: a rule that cannot be right.
    """
    rules = [
        Rule(
            id=rule.id,
            verdict=rule.verdict,
            tool=rule.tool,
            effect=rule.effect,
            tags=rule.tags or (),
            scope=rule.scope,
            tenant=rule.tenant,
            subject=rule.subject,
            upstream=rule.upstream,
            when=rule.when,
            assurance=rule.assurance,
            over_mcp=rule.over_mcp,
            approvers=rule.approvers,
            reason=rule.reason,
            limit=limit_of(rule.limit),
        )
        for rule in config.policy
    ]
    defaults = config.policy_defaults
    try:
        return Policy(rules, {effect: getattr(defaults, effect.value) for effect in Effect})
    except PolicyError as error:
        index = next(n for n, rule in enumerate(config.policy) if rule.id == error.rule_id)
        problem = config.problem(("policy", index, *error.field.split(".", 1)), str(error))
        raise ConfigError(config.path, [problem]) from None


async def _open_ledger(config: Configuration, clock: Clock) -> Ledger:
    """Open the ledger; one that another process holds is waited for, a while."""
    settings = LedgerSettings(
        path=config.ledger_path,
        durability=config.ledger.durability,
        lease_s=config.ledger.lease_s,
        payload_keys=keys_of(config, config.ledger.payload_keys, ("ledger", "payload_keys")),
        approval_keys=keys_of(config, config.approvals.keys, ("approvals", "keys")),
        clock=clock.now,
    )
    ends = clock.monotonic() + OPEN_WAIT_S
    while True:
        try:
            return await Ledger.open(settings)
        except LedgerLockedError:
            if clock.monotonic() > ends:
                raise
            await asyncio.sleep(OPEN_PAUSE_S)


def keys_of(config: Configuration, references: tuple[str, ...], key: KeyPath) -> list[str]:
    """The secrets that these references name.

    Raises:
        ConfigError: one of them cannot be read.
    """
    try:
        return [resolve(reference, config.path.parent).reveal() for reference in references]
    except SecretError as error:
        raise ConfigError(config.path, [config.problem(key, str(error))]) from None


def settings_of(config: Configuration, *, serves: bool) -> Settings:
    """The numbers of the runtime; `serves` where it takes up queued work of others."""
    pools = {
        name: Pool(pool.concurrency, read_rate(pool.rate) if pool.rate else None) for name, pool in config.pools.items()
    }
    return Settings(
        duplicate_window_s=config.server.duplicate_window_s,
        lease_s=config.ledger.lease_s,
        reads_before=config.ledger.reads == "before",
        everything_listed=config.server.visibility == "all",
        proposal_valid_s=config.approvals.valid_s,
        execute_within_s=config.approvals.execute_within_s,
        pending_max=config.approvals.pending_max,
        plan_steps=config.limits.plan_steps,
        authority_s=config.runs.authority_s,
        argument_bytes=config.limits.argument_bytes,
        argument_depth=config.limits.argument_depth,
        output_model_bytes=config.limits.output_model_bytes,
        output_bytes=config.limits.output_bytes,
        for_each=config.limits.for_each,
        max_parallel=config.limits.max_parallel,
        carries_on=serves,
        pools=pools,
    )


def _parts(tools: Tools, ledger: Ledger, clock: Clock, role: str) -> Parts:
    config = tools.config
    settings = settings_of(config, serves=role != "cli")
    return Parts(
        catalogue=tools.catalogue,
        policy=tools.policy,
        ledger=ledger,
        clock=clock,
        ids=RandomIds(),
        settings=settings,
        capacity=Capacity(settings.pools, config.limits.blocking_threads),
        breaker=Breaker(),
        chance=random.random,
        scopes_now=scopes_of(config, embeds=role == "embedded"),
        budgets=budgets_of(config.budgets),
    )
