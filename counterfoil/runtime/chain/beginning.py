"""From a plan, or a request to run one, to what is stored: the plan under its principal, and one run for one key.

A request key has one run, whatever its state. What is asked for again is found before anything is checked anew; what
is new is checked under the tools, scopes and rules of now.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...canonical import canonical, sha256_hex
from ...ledger.plans import save_plan
from ...ledger.redact import redact_text
from ...ledger.run_rows import Overtaken, PlanRow, RunRow
from ...ledger.runs import KeyTaken, create_run, find_by_id, find_by_key
from ...registry.bounded import StrictJsonError, bounded_copy
from ...registry.request import KEY_MAX
from ...registry.vocabulary import ErrorCode, JsonObject, JsonValue
from ..answers import not_found
from ..clock import micros
from ..plan.checking import CheckedPlan, PlanLimits, PlanRules, check_plan
from ..plan.problems import ForkRefusedError, PlanInvalidError
from ..plan.stored import from_stored, to_document
from ..refusal import refuse, refuse_arguments
from ..views import WAIT_S, Next
from .loading import Planned
from .named import named_document
from .plans import StoredPlan

if TYPE_CHECKING:
    from ...ledger.runs import TakeOver
    from ...ledger.sealing import Kind, Sealed
    from ...ledger.sql import Fact
    from ...registry.principal import Principal
    from ...registry.request import RunRequest
    from ..parts import Parts
    from ..plan.model import Plan
    from .plans import Plans

FIRST: Final = 5
NAMED: Final = 100
"""How many stale steps a refusal names in its message, and in its details."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The run of a request; `replayed` where it was there already. `planned` is what one made just now is to do."""

    run: RunRow
    replayed: bool = False
    planned: Planned | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request comes to: a plan by its digest, an effective input by its bytes, and the key of their one run.

    Of a fork also the run that it goes on from, and the step that it runs anew from, if one is named.
    """

    digest: str
    input: bytes
    key: str
    input_digest: str
    parent_run_id: str | None = None
    from_step: str | None = None

    @classmethod
    def of(cls, digest: str, given: JsonObject, key: str | None) -> Wanted:
        """Without a key, the key is made of plan and input."""
        content = canonical(given)
        of_input = sha256_hex(content)
        return cls(digest, content, key if key is not None else _inline_key(digest, of_input), of_input)

    @property
    def inline_key(self) -> str:
        """The key of such a plan that comes as it is."""
        return _inline_key(self.digest, self.input_digest)

    def is_of(self, run: RunRow) -> bool:
        """True if this run is of the same plan and the same effective input, and goes on from the same run, if any."""
        mine = (self.digest, self.input_digest, self.parent_run_id, self.from_step)
        return (run.plan_digest, run.input_digest, run.parent_run_id, run.from_step) == mine


def _inline_key(digest: str, input_digest: str) -> str:
    return sha256_hex(f"{digest}\0{input_digest}".encode())


class OvertakenError(Exception):
    """A run that is forked has changed since it was looked at."""


class Beginner:
    """Stores plans and makes runs."""

    def __init__(self, parts: Parts, plans: Plans) -> None:
        self._parts = parts
        self._plans = plans

    async def plan(self, principal: Principal, document: JsonValue) -> tuple[str, CheckedPlan]:
        """Check a plan under the principal and the rules of now, and keep it.

        Raises:
            PlanInvalidError: everything that is wrong with it.
            LedgerError: it could not be kept.
        """
        checked = await self.check(principal, document, None)
        stored, sealed = await self._to_store(principal, checked)
        await self._parts.ledger.record(lambda: save_plan(stored.row, sealed))
        self._plans.keep(stored)
        return stored.row.plan_id, checked

    async def begin(self, request: RunRequest, is_unwanted: Callable[[], bool]) -> Begun | None:
        """The run of a request for a new one; None if it became unwanted before anything was made.

        Raises:
            PlanInvalidError, RefusedError: nothing runs.
            LedgerError: it cannot be told whether it was made; asked again, the same key finds it.
        """
        given = asked_input(request)
        if request.plan_id is not None:
            return await self._of_stored(request, request.plan_id, given, is_unwanted)
        return await self._of_inline(request, given, is_unwanted)

    async def _of_stored(
        self, request: RunRequest, plan_id: str, given: JsonObject, is_unwanted: Callable[[], bool]
    ) -> Begun | None:
        principal, stored = request.principal, await self._plans.find(plan_id)
        if stored is None or (stored.row.tenant, stored.row.subject) != (principal.tenant, principal.subject):
            raise not_found(plan_id)
        row, plan = stored.row, stored.plan
        wanted = Wanted.of(row.digest, {**plan.input, **given}, request.request_key or plan_id)
        there = await self.there(request, wanted)
        if there is not None:
            return there
        self.require_pins(plan)
        await self.check(principal, to_document(plan), given)
        return await self.create(request, wanted, stored, None, is_unwanted)

    async def _of_inline(self, request: RunRequest, given: JsonObject, is_unwanted: Callable[[], bool]) -> Begun | None:
        """One that comes as it is, or by the name under which it is stored: then it is the plan of now."""
        principal, document = request.principal, request.plan
        if request.name is not None:
            document, given = named_document(self._parts, principal, request.name, given)
        checked = await self.check(principal, document, given)
        wanted = Wanted.of(checked.digest, checked.input, request.request_key)
        there = await self.there(request, wanted)
        if there is not None:
            return there
        stored, sealed = await self._to_store(principal, checked)
        return await self.create(request, wanted, stored, sealed, is_unwanted)

    async def there(self, request: RunRequest, wanted: Wanted) -> Begun | None:
        """The run that was asked for already.

        Where nobody has thought of a key, a plan that comes by its id and as it is has one run: a client that sends it
        again in the other form means no second execution. Two ids are two plans, however alike they are.
        """
        tenant, subject, keyed = request.principal.tenant, request.principal.subject, request.request_key is not None

        def look() -> Fact[RunRow | None]:
            run = yield from find_by_key(tenant, subject, wanted.key)
            if run is None and not keyed and request.plan_id is not None:
                run = yield from find_by_key(tenant, subject, wanted.inline_key)
            if run is None and not keyed and request.plan_id is None:
                run = yield from find_by_id(tenant, subject, wanted.digest, wanted.input_digest)
            return run

        run = await self._parts.ledger.reads.look(look)
        return None if run is None else _same(run, wanted)

    async def create(
        self,
        request: RunRequest,
        wanted: Wanted,
        stored: StoredPlan,
        document: Sealed | None,
        is_unwanted: Callable[[], bool],
        fork: TakeOver | None = None,
    ) -> Begun | None:
        """Make the run, or find the one that somebody else made meanwhile; None if nobody wants it any more.

        A fork is left to whoever takes its wake, since it is to be loaded first.

        Raises:
            OvertakenError: a run that is forked has changed meanwhile.
        """
        parts, ledger = self._parts, self._parts.ledger
        run_id = parts.ids.new("run_")
        given = await self._seal("input", run_id, request.principal.tenant, wanted.input)
        run = self._row(request, wanted, stored, run_id, given.payload_id)
        if is_unwanted():
            return None
        new_plan, sealed = (stored.row, [document, given]) if document is not None else (None, [given])
        owner_id = ledger.owner_id if fork is None else None
        made = await ledger.record(lambda: create_run(run, new_plan, sealed, owner_id=owner_id, fork=fork))
        if isinstance(made, Overtaken):
            raise OvertakenError(made.run_id)
        if isinstance(made, KeyTaken):
            return _same(made.run, wanted)
        self._plans.keep(stored)
        return Begun(made, planned=Planned(stored.plan, json.loads(wanted.input)) if fork is None else None)

    def _row(self, request: RunRequest, wanted: Wanted, stored: StoredPlan, run_id: str, input_payload: str) -> RunRow:
        parts, principal, plan = self._parts, request.principal, stored.row
        at, deadline_s = parts.clock.now(), stored.plan.deadline_s
        return RunRow(
            run_id=run_id,
            plan_id=plan.plan_id,
            tenant=principal.tenant,
            subject=principal.subject,
            client=principal.client,
            scopes=json.dumps(sorted(principal.scopes)),
            claimed=parts.claims(principal),
            proof=principal.proof,
            goal=plan.goal,
            plan_digest=wanted.digest,
            input_digest=wanted.input_digest,
            input_payload=input_payload,
            request_key=wanted.key,
            grant_expires_at=at + micros(parts.settings.authority_s),
            created_at=at,
            updated_at=at,
            deadline_at=None if deadline_s is None else at + micros(deadline_s),
            parent_run_id=wanted.parent_run_id,
            from_step=wanted.from_step,
        )

    async def check(self, principal: Principal, document: JsonValue, given: JsonObject | None) -> CheckedPlan:
        """Check a plan under the rules of now.

        In a thread: thousands of steps take a while, and others must be answered meanwhile.
        """
        parts, settings = self._parts, self._parts.settings
        limits = PlanLimits(settings.plan_steps, settings.for_each, settings.max_parallel)
        rules = PlanRules(parts.catalogue, parts.policy, parts.budgets, limits)
        return await asyncio.to_thread(check_plan, document, principal, rules, given)

    def require_pins(self, plan: Plan) -> None:
        """Raise where a tool is not what the plan has pinned any more."""
        stale: list[JsonValue] = []
        for step in plan.steps:
            entry = self._parts.catalogue.get(step.tool, step.version)
            if entry is None or entry.contract.schema_digest != step.schema_digest:
                stale.append(step.id)
        if stale:
            named = ", ".join(map(str, stale[:FIRST])) + (f" and {len(stale) - FIRST} more" if stale[FIRST:] else "")
            text = f"The tools of these steps are not those that the plan was checked against: {named}. "
            raise refuse(ErrorCode.PLAN_STALE, f"{text}Nothing was run. Plan anew.", steps=stale[:NAMED])

    async def _to_store(self, principal: Principal, checked: CheckedPlan) -> tuple[StoredPlan, Sealed]:
        plan_id, content = self._parts.ids.new("plan_"), canonical(checked.stored)
        sealed = await self._seal("plan", plan_id, principal.tenant, content)
        row = PlanRow(
            plan_id=plan_id,
            tenant=principal.tenant,
            subject=principal.subject,
            client=principal.client,
            goal=redact_text(checked.plan.goal),
            digest=checked.digest,
            payload=sealed.payload_id,
            steps=len(checked.plan.steps),
            created_at=self._parts.clock.now(),
        )
        return StoredPlan(row, from_stored(json.loads(content))), sealed

    async def _seal(self, kind: Kind, of: str, tenant: str, content: bytes) -> Sealed:
        ledger = self._parts.ledger
        payload_id = self._parts.ids.new("pay_")
        sealed = ledger.seal(payload_id=payload_id, call_id=of, tenant=tenant, kind=kind, content=content)
        await ledger.store_ahead(sealed)
        return sealed


def _same(run: RunRow, wanted: Wanted) -> Begun:
    """The run that a key has, if it is the one that was asked for.

    Raises:
        RefusedError: it is of another plan, or has another effective input.
    """
    if wanted.is_of(run):
        return Begun(run, replayed=True)
    what = "another plan" if run.plan_digest != wanted.digest else "another input"
    if (run.parent_run_id, run.from_step) != (wanted.parent_run_id, wanted.from_step):
        what = "another fork_of or from_step"
    raise refuse(
        ErrorCode.KEY_CONFLICT,
        f"The run {run.run_id} has this request_key, with {what}. Nothing was begun; another execution needs another "
        "request_key.",
        Next("status", {"run_id": run.run_id, "wait_s": WAIT_S}, "See the run that has this key."),
        run_id=run.run_id,
    )


def asked_input(request: RunRequest) -> JsonObject:
    """The input of a request as JSON of its own.

    Raises:
        RefusedError: it is no object, or no JSON, or the request's key is too long.
    """
    given = request.input
    if request.request_key is not None and not 0 < len(request.request_key) <= KEY_MAX:
        expected, got = f"1 to {KEY_MAX} characters", f"{len(request.request_key)} characters"
        raise refuse_arguments("/request_key", expected, got)
    try:
        found = bounded_copy({} if given is None else given)
    except StrictJsonError as error:
        raise refuse_arguments(f"/input{error.path}", error.expected, error.got) from None
    if not isinstance(found, dict):
        raise refuse_arguments("/input", "an object, which is laid over the plan's input", type(found).__name__)
    return found


def require_known(request: RunRequest) -> None:
    """Refuse what this version does not do, and a request that does not say what to run.

    Raises:
        RefusedError: nothing runs.
    """
    names = ("plan_id", "plan", "name", "run_id", "fork_of")
    named = [name for name in names if getattr(request, name) is not None]
    if len(named) != 1:
        expected = "exactly one of plan_id, plan, name, run_id, fork_of"
        raise refuse_arguments("", expected, " and ".join(named) or "none of them")
    if request.from_step is not None and request.fork_of is None:
        raise refuse_arguments("/from_step", "from_step with fork_of", "from_step alone")
    if "run_id" in named and request.input is not None:
        raise refuse_arguments("/input", "a run_id alone: a run that is there has its input", "both")


def refusal_of_plan(error: PlanInvalidError) -> tuple[str, list[JsonValue]]:
    """The message of an invalid plan, and its `errors`."""
    said = str(error)
    if isinstance(error, ForkRefusedError):
        return said, [problem.wire() for problem in error.problems]
    message = f"{said[0].upper()}{said[1:]}. Mend everything in errors and plan again."
    return message, [problem.wire() for problem in error.problems]
