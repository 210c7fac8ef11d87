"""What a principal may ask about plans and runs: plan, run, look, cancel, settle what is unknown, see who decides.

A run is driven by the server, whoever waits; a request only begins it, finds it or takes it up, and looks. Every id is
the caller's own or it does not exist: a foreign one and an unknown one get the same answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...ledger.errors import LedgerError
from ...ledger.queries import EVENT_PAGE, EVENTS
from ...ledger.redact import redact_text
from ...ledger.run_reading import Glance, glance, pending_of, steps_and_undos
from ...ledger.run_rows import RunRow
from ...ledger.runs import NEWEST_RUNS, RECENT_RUNS, ask_cancel, ask_stop, take_up
from ...ledger.states import UNRESOLVED
from ...ledger.undoing import undo_again
from ...registry.request import NOBODY_WAITS
from ...registry.vocabulary import ErrorCode, JsonObject, JsonValue
from ..answers import broken, closing, not_found, refusal_of, refusal_view
from ..clock import micros, rfc3339
from ..deciding import may_see, may_settle
from ..plan.problems import PlanInvalidError
from ..refusal import RefusedError, refuse
from ..tasks import log_fault
from ..views import WAIT_S, ErrorView, Next, PlainView, events_part, how_to_decide
from .beginning import Beginner, Begun, refusal_of_plan, require_known
from .forking import Forker
from .news import News
from .settling import Settler
from .states import RunStatus
from .viewing import RunViewer, with_more
from .views import PlanView, RunView, brief
from .watching import RunFollower, Watch

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ...registry.adapter import ProgressSink
    from ...registry.principal import Principal
    from ...registry.request import RunRequest
    from ..parts import Parts
    from ..reconciling import Reconciler
    from ..refusing import Refusals
    from .plans import Plans
    from .wakes import InProcess

RECENT_SHOWN: Final = 20
AT_ONCE_S: Final = 2.0
"""How long cancel and reconcile wait for what a run does at once, in seconds; the rest goes on after their answer."""
RUN_PREFIX: Final = "run_"


@dataclass
class _Wish:
    """A request for a run under way: what it has led to, and what must be settled first.

    `stop` says that its client has cancelled it.
    """

    request: RunRequest
    found: Begun | RunView | None = None
    settling: asyncio.Task[None] | None = None
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Around:
    """What the doors are handed of their process: its driver, its reconciler, its tasks, and whether it stops."""

    driver: InProcess
    reconciler: Reconciler
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    is_closing: Callable[[], bool]
    refusals: Refusals


class RunDoors:
    """The doors for plans and runs of one process; see `Runtime`."""

    def __init__(self, parts: Parts, plans: Plans, around: Around) -> None:
        self._parts = parts
        self._driver = around.driver
        self._spawn = around.spawn
        self._is_closing = around.is_closing
        self._refusals = around.refusals
        self._watch = Watch()
        self.news = News(parts, around.spawn)
        around.driver.hooks.changed = self._changed
        around.driver.hooks.progress = self._progressed
        around.driver.hooks.rested = self._watch.rested
        self._viewer = RunViewer(parts, plans)
        self._follower = RunFollower(parts, self._watch, around.driver.is_driven)
        self._beginner = Beginner(parts, plans)
        self._forker = Forker(parts, plans, self._beginner, around.driver.read)
        self._settler = Settler(parts, around.reconciler, around.driver)

    async def plan(self, principal: Principal, document: JsonValue) -> PlanView:
        """Check a plan and keep it; nothing runs. Everything that is wrong with it is told at once."""
        try:
            plan_id, checked = await self._beginner.plan(principal, document)
        except PlanInvalidError as error:
            return PlanView(*self._invalid(principal, "plan", error))
        except LedgerError as error:
            refused = refusal_view(error)
            return PlanView(refused.body, refused.error)
        return PlanView({"plan_id": plan_id, **checked.wire()})

    async def run(self, request: RunRequest) -> RunView:
        """Begin a run, find the one with this key, or take one up; and wait for it.

        A request that goes away leaves the run as it is; one that its client cancels stops it before its next effect.
        """
        wish = _Wish(request)
        asking = self._spawn(self._ask_for(wish))
        try:
            await asyncio.shield(asking)
            if not isinstance(wish.found, Begun):
                return wish.found or _refused(closing())
            return await self._shown(wish, wish.found)
        except asyncio.CancelledError as error:
            if NOBODY_WAITS not in error.args:
                wish.stop = True
                await asyncio.shield(self._spawn(self._stop(wish, asking)))
            raise

    async def _ask_for(self, wish: _Wish) -> None:
        """The run of a request, or its refusal. It goes on when nobody waits: what was begun has a driver."""
        request = wish.request
        try:
            self._require_open()
            require_known(request)
            if request.run_id is not None:
                wish.found = await self._take_up(wish, request.run_id)
                return
            if request.fork_of is not None:
                begun = await self._forker.begin(request, request.fork_of, lambda: wish.stop)
            else:
                begun = await self._beginner.begin(request, lambda: wish.stop)
            wish.found = begun
            if begun is not None and not begun.replayed and not wish.stop:
                self._drive(begun)
        except PlanInvalidError as error:
            wish.found = RunView(*self._invalid(request.principal, "run", error))
        except RefusedError as error:
            self._refusals.record(request.principal, "run", None, error.reason, self._parts.clock.now())
            wish.found = _refused(error)
        except LedgerError as error:
            wish.found = _refused(error)
        except Exception as error:  # noqa: BLE001 (where a request enters: a fault of ours must reach its caller)
            log_fault("a request for a run ended", error)
            wish.found = _refused(broken())

    def _drive(self, begun: Begun) -> None:
        if begun.planned is None:
            self._driver.wake(begun.run.run_id)
        else:
            self._driver.begin(begun.run, begun.planned)

    def _require_open(self) -> None:
        if self._is_closing():
            raise closing()

    async def _stop(self, wish: _Wish, asking: asyncio.Task[None]) -> None:
        """A client has cancelled its request: no further step with an effect, until the run is taken up."""
        await asking
        if not isinstance(wish.found, Begun):
            return
        run_id, by, at = wish.found.run.run_id, wish.request.principal.subject, self._parts.clock.now()
        await self._parts.ledger.record(lambda: ask_stop(run_id, by, at))
        self._driver.wake(run_id)

    async def _take_up(self, wish: _Wish, run_id: str) -> Begun:
        """Renew the grant of a run of the same subject, follow what is unresolved once, and have it go on."""
        principal = wish.request.principal
        run = await self._own(principal, run_id)
        await self._parts.ledger.require_sound_chain(run_id)
        if run.finished_at is not None:
            return Begun(run)
        at = self._parts.clock.now()
        until, scopes = at + micros(self._parts.settings.authority_s), json.dumps(sorted(principal.scopes))
        taken = await self._parts.ledger.record(
            lambda: take_up(run_id, by=principal.subject, scopes=scopes, grant_expires_at=until, at=at)
        )
        wish.settling = self._spawn(self._settler.follow_all(run_id))
        return Begun(taken or run)

    async def _wait(self, wish: _Wish, begun: Begun) -> RunView:
        request, run_id = wish.request, begun.run.run_id
        left = await self._waited_for(wish.settling, request.wait_s)
        is_known = begun.planned is not None or begun.run.finished_at is not None
        known = Glance(begun.run, woken=True) if is_known else None
        return await self._at_rest(run_id, left, request.progress, known)

    async def _at_rest(
        self,
        run_id: str,
        wait_s: float | None,
        progress: ProgressSink | None = None,
        known: Glance | None = None,
        *,
        effects: bool = False,
    ) -> RunView:
        """The view of a run once nothing about it moves by itself, or after the wait.

        A run that was taken up again between the last look and the view, or is about to be, is waited for further.
        """
        clock = self._parts.clock
        ends = None if wait_s is None else clock.monotonic() + wait_s
        left = wait_s
        while True:
            await self._follower.until_still(run_id, left, progress, known)
            view = await self._viewer.view(run_id, effects=effects)
            left, known = None if ends is None else ends - clock.monotonic(), None
            taken_up = view.body["status"] == RunStatus.QUEUED and view.body["reason"] is None
            rests = view.body["status"] != RunStatus.RUNNING and not taken_up
            if rests or (left is not None and left <= 0):
                return view

    async def _waited_for(self, task: asyncio.Task[None] | None, wait_s: float | None) -> float | None:
        """Wait for a task of ours, which goes on if that takes too long; how long may still be waited, in seconds."""
        if task is None:
            return wait_s
        began = self._parts.clock.monotonic()
        await asyncio.wait({task}, timeout=wait_s)
        return None if wait_s is None else max(0.0, wait_s - (self._parts.clock.monotonic() - began))

    async def _shown(self, wish: _Wish, begun: Begun) -> RunView:
        """The answer of `run`, after its wait. Where it cannot be read now, nobody may say that nothing was begun."""
        run_id = begun.run.run_id
        answer: JsonObject = {"replayed": begun.replayed, "error": None}
        try:
            return with_more(await self._wait(wish, begun), answer)
        except LedgerError as error:
            text = f"The run is there and how it stands cannot be read now: {error}"
            step = Next("status", {"run_id": run_id, "wait_s": WAIT_S}, "Look at it again. Do not start it anew.")
            body: JsonObject = {"run_id": run_id, "plan_id": begun.run.plan_id, **answer, "next": step.wire()}
            return RunView(body, ErrorView(ErrorCode.IN_PROGRESS, text, details={"run_id": run_id}))

    async def status(
        self, principal: Principal, run_id: str, *, after_seq: int | None, wait_s: float
    ) -> RunView | PlainView:
        """A run with its events after `after_seq`: waited for until there is one, or until nothing moves by itself.

        Raises:
            RefusedError: it is not this principal's, or not there.
            LedgerError: it cannot be read, or its record is damaged.
        """
        await self._own(principal, run_id)
        if wait_s and after_seq is not None:
            await self._follower.until_after(run_id, after_seq, wait_s)
        waits = bool(wait_s) and after_seq is None
        # first the view: what it shows, the events that follow tell too
        view = await (self._at_rest(run_id, wait_s) if waits else self._viewer.view(run_id))
        events = await self._parts.ledger.reads.fetch(EVENTS, run_id=run_id, after_seq=after_seq or 0)
        return with_more(view, events_part(events, EVENT_PAGE))

    async def cancel(self, principal: Principal, run_id: str, reason: str | None) -> RunView:
        """Let nothing further of a run start. The answer lists the effects that stand; none is undone. Raises as
        `status`.
        """  # noqa: D205 (one sentence)
        await self._own(principal, run_id)
        await self._parts.ledger.require_sound_chain(run_id)
        at, by, why = self._parts.clock.now(), principal.subject, redact_text(reason or "")
        await self._parts.ledger.record(lambda: ask_cancel(run_id, by, why, at))
        self._driver.wake(run_id)
        return await self._at_rest(run_id, AT_ONCE_S, effects=True)

    async def reconcile(
        self, principal: Principal, run_id: str, *, expected_version: int | None, wait_s: float, is_person: bool
    ) -> RunView:
        """Settle all of a run that can be settled, and let it go on. After `wait_s` the answer is how it stands, and
        `AT_ONCE_S` after that is settled. Raises as `status`.
        """  # noqa: D205 (one sentence)
        run = await self._own(principal, run_id, or_person=is_person)
        await self._parts.ledger.require_sound_chain(run_id)
        if expected_version is not None and expected_version != run.version:
            text = f"The run is at version {run.version}, not {expected_version}. Look at it again."
            raise refuse(ErrorCode.VERSION_CONFLICT, text)
        settling = self._spawn(self._settle(run_id, principal.subject))
        left = await self._waited_for(settling, wait_s)
        return await self._at_rest(run_id, min(left or 0.0, AT_ONCE_S))

    async def _settle(self, run_id: str, by: str) -> None:
        """Follow every unknown call once, then try again what is known not to be undone."""
        await self._settler.follow_all(run_id)
        at = self._parts.clock.now()
        if await self._parts.ledger.record(lambda: undo_again(run_id, by, at)) is not None:
            self._driver.wake(run_id)

    async def unresolved_of(self, principal: Principal, run_id: str, *, is_person: bool) -> str:
        """The one call of a run that nobody knows the end of, for whoever may say what became of it.

        Raises:
            RefusedError: there is none, or there are several, which are told; or no such run for this principal.
        """
        found = await self._parts.ledger.reads.look(lambda: steps_and_undos(run_id))
        found = [row for row in found if row.state in UNRESOLVED and (is_person or may_settle(row, principal))]
        if not found:
            await self._own(principal, run_id, or_person=is_person)
        if len(found) == 1:
            return found[0].call_id
        told: list[JsonValue] = [{"call_id": row.call_id, "step": row.step, "tool": row.tool} for row in found]
        raise refuse(
            ErrorCode.INVALID_ARGUMENTS,
            f"A word is about one call, and {len(found)} of this run are unresolved; name one by call_id." if found
            else "No call of this run is unresolved, so no word is needed.",
            Next("status", {"run_id": run_id}, "See how the run stands."),
            unresolved=told,
        )  # fmt: skip

    async def pending(self, principal: Principal, run_id: str) -> str:
        """The one undecided proposal of a run, for whoever may see it.

        Raises:
            RefusedError: there is none, or there are several, which are told; or no such run of this principal.
        """
        found = await self._parts.ledger.reads.look(lambda: pending_of(run_id))
        found = [row for row in found if may_see(row, principal)]
        if not found:
            await self._own(principal, run_id)
        if len(found) == 1:
            return found[0].approval_id
        told: list[JsonValue] = [
            {
                "approval_id": row.approval_id,
                "step": row.step,
                "tool": row.tool,
                "expires_at": rfc3339(row.expires_at),
                "how": how_to_decide(row),
            }
            for row in found
        ]
        raise refuse(
            ErrorCode.INVALID_ARGUMENTS,
            f"{len(found)} proposals of this run wait for a decision; name one by approval_id." if found
            else "No proposal of this run waits for a decision.",
            Next("status", {"run_id": run_id}, "See how the run stands."),
            pending=told,
        )  # fmt: skip

    async def recent(self, principal: Principal) -> list[JsonValue]:
        """One line about each of a principal's newest runs."""
        who = {"tenant": principal.tenant, "subject": principal.subject}
        return [brief(run) for run in await self._parts.ledger.reads.fetch(RECENT_RUNS, **who, most=RECENT_SHOWN)]

    async def runs(self, limit: int) -> list[RunView | PlainView]:
        """Every run of the ledger, the newest first, without outputs; a damaged one says so beside the others."""
        found: list[RunView | PlainView] = []
        for run in await self._parts.ledger.reads.fetch(NEWEST_RUNS, most=limit):
            try:
                found.append(await self._viewer.view(run.run_id, outputs=False))
            except LedgerError as error:
                found.append(PlainView(brief(run), refusal_of(error)))
        return found

    def _changed(self, run_id: str) -> None:
        self._watch.changed(run_id)
        self.news.changed(run_id)

    def _progressed(self, run_id: str, done: int, total: int, message: str) -> None:
        self._watch.progressed(run_id, done, total, message)
        self.news.changed(run_id)

    def wake(self, row: CallRow) -> None:
        """Something happened to a call: if it is a run's, whoever drives that is to look."""
        if row.in_run:
            self._driver.wake(row.run_id)

    async def _own(self, principal: Principal, run_id: str, *, or_person: bool = False) -> RunRow:
        found = await self._parts.ledger.reads.look(lambda: glance(run_id))
        if found is None or not (or_person or _same_subject(found.run, principal)):
            raise not_found(run_id)
        return found.run

    def _invalid(self, principal: Principal, door: str, error: PlanInvalidError) -> tuple[JsonObject, ErrorView]:
        """What is told of a plan that cannot run: body and error."""
        message, problems = refusal_of_plan(error)
        reason = refuse(ErrorCode.PLAN_INVALID, message).reason
        self._refusals.record(principal, door, None, reason, self._parts.clock.now())
        return {"errors": problems, "next": None}, ErrorView(ErrorCode.PLAN_INVALID, message)


def _refused(error: RefusedError | LedgerError) -> RunView:
    """A request for a run that was refused."""
    refused = refusal_view(error)
    return RunView(refused.body, refused.error)


def _same_subject(row: RunRow | CallRow, other: Principal | RunRow) -> bool:
    return (row.tenant, row.subject) == (other.tenant, other.subject)


def is_run(name: str | None) -> bool:
    """True for the id of a run; a direct call's chain has the call's own."""
    return name is not None and name.startswith(RUN_PREFIX)
