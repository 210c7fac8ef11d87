"""The runtime as the rest of the program sees it: ask for a call, follow it, cancel it, reconcile it, decide about it.

A call runs in a task that the process owns; a request only waits for it. Everything here answers with views; a
refusal is one too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from ..ledger.admission import Relation
from ..ledger.approval_rows import ApprovalRow
from ..ledger.approving import join_key
from ..ledger.bookkeeping import open_request, request_cancel
from ..ledger.errors import CannotRecordError, DamagedChainError, LedgerError
from ..ledger.recovering import attempt_again, claim
from ..ledger.rows import CallRow
from ..ledger.states import CallState
from ..registry.budgets import Budgets
from ..registry.contract import Contract
from ..registry.limits import Actor
from ..registry.policy import Policy
from ..registry.principal import Principal
from ..registry.request import NOBODY_WAITS, CallRequest
from ..registry.vocabulary import Effect, ErrorCode, JsonObject, OutcomeClass
from .answers import broken, closing, in_progress, raw_digest, repeated, unreadable, unshown, waits_for_ledger
from .attempt import ON_THE_LOOP
from .authority import renewal_by
from .carrying import Carrier
from .case import Case
from .chain.doors import Around as RunsAround
from .chain.doors import RunDoors
from .chain.plans import Plans
from .chain.steps import Tools
from .chain.wakes import InProcess
from .decisions import Around
from .desk import Desk
from .following import Follower
from .not_sent import CallerGoneError, IsDuplicateError
from .parts import Parts, ScopesNow
from .path import CallPath, key_conflict
from .proposing import Proposer, principal_of
from .receipts import Receipts
from .reconciling import Reconciler
from .refusal import Reason, RefusedError, refuse
from .refusing import ENDS_ITSELF, NO_FAILURE, Refusals
from .sending import Sender
from .settings import Settings
from .stepping import Stepper
from .sweeping import Doors, Sweeper
from .tasks import Tasks, log_fault
from .viewing import Viewer, refused_view
from .views import CallView
from .watchdog import Watchdog

log = logging.getLogger("counterfoil.runtime")
LONGEST_TICK_S: Final = 1.0


class Runtime(Desk):
    """One process's runtime. `start` before the first request, `stop` at the end."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tasks = Tasks()
        self._closing = False
        self._grace_ends = 0.0
        viewer = Viewer(parts.ledger, lambda: parts.settings, parts.clock.now, parts.catalogue)
        self._carrier = Carrier(parts, self._tasks.spawn)
        sender = Sender(parts)
        self._proposer = Proposer(parts, viewer, sender, self.call)
        self._path = CallPath(parts, viewer, sender, self._carrier, self._proposer, self._join)
        self._reconciler = Reconciler(parts, self._ask, self._proposal_for)
        self._path.recover = self._recover_here
        plans, stepper = Plans(parts.ledger), Stepper(parts, self._path, self._note)
        self.driver = InProcess(Tools(parts, stepper, self._reconciler, plans), self._tasks.spawn)
        self._sweeper = Sweeper(parts, Doors(self._carry_on, self._recover_later, self._stop_read, self.driver.wake))
        self._refusals = Refusals(parts.ledger, parts.settings.refusals_per_minute)
        self._watchdog = Watchdog(self._on_the_loop)
        self._unsound: set[str] = set()  # calls whose record is damaged: the sweep would take them up for ever
        self._receipts = Receipts(parts, self._tasks.spawn, self._carrier.keep)
        self._ticker: asyncio.Task[None] | None = None
        around = RunsAround(self.driver, self._reconciler, self._tasks.spawn, lambda: self._closing, self._refusals)
        runs = RunDoors(parts, plans, around)
        people, follower = Around(self._refusals, self._receipts), Follower(parts, viewer)
        super().__init__(parts, viewer, follower, self._reconciler, self._carry_on, runs, self._tasks.spawn, people)

    async def start(self, *, sweeps: bool = True) -> None:
        """Take over what lost owners left, then keep sweeping. What they left is known as unknown when this returns.

        A process that ends at once takes nothing over: it only beats.
        """
        self._watchdog.start()
        if sweeps:
            await self._sweeper.take_over()
            await self.driver.sweep()
        self._ticker = self._tasks.spawn(self._tick() if sweeps else self._beat())

    def _on_the_loop(self) -> list[str]:
        """The tools whose handlers run on the event loop right now."""
        names = (task.get_name() for task in tuple(self._parts.handlers))
        return sorted({name.removeprefix(ON_THE_LOOP) for name in names if name.startswith(ON_THE_LOOP)})

    def take(self, policy: Policy, settings: Settings, budgets: Budgets, scopes_now: ScopesNow | None = None) -> None:
        """Take other rules and numbers from now on; a call that was not sent yet is decided anew before it is."""
        self._parts.take(policy, settings, budgets, scopes_now)

    def begin_stop(self, grace_s: float) -> None:
        """Refuse new calls from now on; those under way have this long, in seconds."""
        if not self._closing:
            self._closing = True
            self._parts.passing.close()
            self._grace_ends = self._parts.clock.monotonic() + grace_s

    async def stop(self, grace_s: float) -> bool:
        """Refuse new calls, wait for those under way, and leave the rest to recovery. True if nothing is left."""
        self.begin_stop(grace_s)
        self._watchdog.stop()
        if self._ticker is not None:
            self._ticker.cancel()
        self.driver.stop()
        await self._tasks.drain(max(0.0, self._grace_ends - self._parts.clock.monotonic()))
        await self._tasks.cancel()
        try:
            await self._receipts.end()
        except CannotRecordError as error:
            log.warning("the last deliveries were not recorded: %s", error)
        return not self._parts.crossed and not self._parts.handlers

    async def call(self, request: CallRequest) -> CallView:
        """Ask for a call. After `wait_s` the answer is how it stands; the call goes on."""
        case = Case(self._parts.ids.new("call_"), self._parts.ids.new("act_"), request.principal, request)
        if self._closing:
            return self._refused(case, closing().reason)
        if request.progress is not None:
            case.progress.append(request.progress)
        case.listeners = 1
        self._tasks.spawn(self._run(case, self._path.fresh))
        try:
            view = await self._listen(case, request.wait_s)
        except LedgerError as error:
            view = self._unread(case, error)
        except asyncio.CancelledError as error:
            case.listeners = 0
            if not (case.reading and NOBODY_WAITS in error.args):
                case.caller_gone()
                self._note_gone(case)
            self._close_request(case)
            if case.row is None:
                self._receipts.closed(case.joining or case.call_id)  # its T1, or its joining, may be on its way
            raise
        if view.state is CallState.AWAITING_APPROVAL and request.wait_given and request.wait_s and view.call_id:
            row = await self._follower.until_still(view.call_id, request.wait_s)
            view = view if row is None else await self._viewer.view(row, replayed=view.replayed)
        for call_id in view.delivers:
            self._receipts.expect(call_id)
        if not view.delivers:
            case.listeners = 0
            self._close_request(case)
        return view

    async def delivered(self, call_ids: Sequence[str], principal: Principal) -> None:
        """A view of these calls' settled state was written to the transport for their subject."""
        del principal  # only its own calls are ever shown to it as settled
        self._receipts.written(call_ids)

    async def undelivered(self, call_ids: Sequence[str], principal: Principal) -> None:
        """An answer that shows the end of these calls could not be written: the same call may ask for it again."""
        del principal  # as above
        self._receipts.lost(call_ids)

    async def _run(self, case: Case, work: Callable[[Case], Awaitable[CallView]]) -> None:
        """The task of one call: every end of it is a view for whoever waits."""
        try:
            view = await work(case)
            self._note(case, view)
        except CallerGoneError:
            case.abandon()
            return
        except asyncio.CancelledError:  # the process stops, and whoever waits must not wait for ever
            if not case.done.done():
                case.finish(self._refused(case, closing().reason) if case.unsent else unshown(case))
            raise
        except RefusedError as error:
            view = await self._refused_case(case, error.reason)
        except DamagedChainError as error:
            log.error("the record of a call is damaged: %s", error)  # noqa: TRY400 (the place in our code says nothing)
            self._unsound.add(case.call_id)
            view = self._damaged(case, error)
        except LedgerError as error:
            view = self._unread(case, error)
        except Exception as error:  # noqa: BLE001 (where a request enters: a fault of ours must reach its caller)
            log_fault("a call ended", error)
            view = self._refused(case, broken().reason) if case.unsent else unshown(case)
        finally:
            self._parts.cases.pop(case.call_id, None)
        case.finish(view)

    async def _listen(self, case: Case, wait_s: float | None) -> CallView:
        await case.listen(wait_s)
        if not case.done.done() and case.row is None:
            case.ask_for_row()
            while not case.done.done() and case.row is None:
                await case.listen(None)
        if case.done.done():
            return case.done.result()
        row = case.row
        assert row is not None, "it is done or it has a row"
        view = await self._viewer.view(await self._viewer.row(row.call_id) or row, replayed=case.joined)
        return waits_for_ledger(view) if case.waits_for_ledger and view.error is None else view

    async def _join(self, case: Case, error: IsDuplicateError) -> CallView:
        """A request that is another call, or collides with one."""
        duplicate = error.duplicate
        row = duplicate.row
        await self._parts.ledger.require_sound_chain(row.run_id)
        if duplicate.relation is Relation.CONFLICT:
            raise key_conflict(error)
        if duplicate.relation is Relation.IN_PROGRESS:
            return in_progress(await self._viewer.view(row))
        if duplicate.relation is Relation.AGAIN:
            return await self._again(case, row)
        undelivered = duplicate.relation is Relation.JOIN and row.state != CallState.AWAITING_APPROVAL
        if case.gone:  # whoever left before this must not make the call look as if it were waited for
            raise CallerGoneError
        owner_id = self._parts.ledger.owner_id
        case.joining = row.call_id
        if undelivered and not await self._parts.ledger.record(lambda: open_request(row.call_id, owner_id)):
            case.joining = None
            return await self._path.fresh(case)  # another request was quicker to join it: this is its own intent
        case.joined = True
        case.record(row)
        key = case.request.idempotency_key if case.request else None
        if row.state == CallState.AWAITING_APPROVAL:
            at = self._parts.clock.now()
            if key is not None:
                joined = await self._parts.ledger.record(lambda: join_key(duplicate.row.call_id, key, at))
                row = joined or row
            return await self._viewer.view(row, replayed=True)
        if duplicate.relation is Relation.REPLAY:
            await self._parts.ledger.record(lambda: open_request(row.call_id, owner_id))
        await self._claim_joined(row)
        still = await self._follower.until_still(row.call_id, self._parts.settings.queue_wait_s)
        return await self._viewer.view(still or row, replayed=True)

    async def _claim_joined(self, row: CallRow) -> None:
        """A decided call that nobody has taken up is carried on here, where somebody waits for it."""
        if row.state != CallState.QUEUED or row.owner_id is not None:
            return
        at, owner_id = self._parts.clock.now(), self._parts.ledger.owner_id
        mine = await self._parts.ledger.record(lambda: claim(row.call_id, owner_id, at))
        if mine is not None:
            self._carry_on(mine)

    async def _again(self, case: Case, row: CallRow) -> CallView:
        """The key of a call of which nothing ever left: the same call makes its next attempt."""
        grant, owner_id = renewal_by(self._parts, case.principal), self._parts.ledger.owner_id
        queued = await self._parts.ledger.record(lambda: attempt_again(row.call_id, owner_id, grant.at, grant))
        if queued is None:
            return in_progress(await self._viewer.view(await self._viewer.row(row.call_id) or row))
        case.call_id, case.action_id = queued.call_id, queued.action_id
        case.record(queued)
        self._parts.cases[case.call_id] = case
        return await self._path.resume(case)

    def _carry_on(self, row: CallRow) -> None:
        """Follow a queued call of ours from its row; one of a run is its driver's."""
        if row.in_run:
            self.driver.wake(row.run_id)
            return
        if row.call_id in self._parts.cases or row.call_id in self._unsound or self._closing:
            return
        case = self._parts.cases[row.call_id] = Case(row.call_id, row.action_id, principal_of(row))
        case.record(row)
        self._tasks.spawn(self._run(case, self._path.resume))

    def _recover_later(self, row: CallRow) -> None:
        self._tasks.spawn(self._recover(row))

    async def _recover(self, row: CallRow) -> None:
        """A restart follows the order once by itself; reads are settled as interrupted instead."""
        try:
            await self._parts.ledger.require_sound_chain(row.run_id)
            done = await self._reconciler.follow(row)
        except (RefusedError, LedgerError) as error:
            log.warning("%s stays unresolved for now: %s", row.call_id, type(error).__name__)
            return
        if done.state == CallState.QUEUED and done.owner_id == self._parts.ledger.owner_id:
            self._carry_on(done)

    async def _recover_here(self, case: Case, _started: float) -> None:
        """Within a call that has attempts and time left: the same order, by itself."""
        assert case.row is not None, "recovered after a dispatch"
        try:
            case.record(await self._reconciler.follow(case.row, repeatable_here=True))
        except RefusedError:
            log.info("%s moved while it was followed up", case.call_id)

    async def _ask(self, request: CallRequest, about: CallRow) -> CallView:
        """A probe is a governed call of its own, in which `Call` describes the call that it asks about."""
        case = Case(
            self._parts.ids.new("call_"), about.action_id, request.principal, request, asked_about=about.call_id
        )
        case.listeners = 1
        await self._run(case, self._path.fresh)
        return case.done.result()

    async def _proposal_for(self, row: CallRow, contract: Contract, why: JsonObject) -> ApprovalRow | None:
        return await self._proposer.proposal_for(row, contract, fresh=bool(why["fresh"]))

    def _stop_read(self, call_id: str) -> None:
        case = self._parts.cases.get(call_id)
        if case is not None and case.running is not None:
            case.running.stop_read()

    def _note(self, case: Case, view: CallView) -> None:
        """Tell the breaker how a call ended; a replay, waiting and what others caused do not count."""
        if view.replayed or case.admitted is None or case.request is None:
            return
        now = self._parts.clock.monotonic()
        actor = Actor(case.principal.tenant, case.principal.subject, case.admitted.contract.name)
        failures = {OutcomeClass.PERMANENT_FAILURE.value, OutcomeClass.RETRYABLE_FAILURE.value}
        if view.error is not None and view.outcome in failures and view.error.code is not ErrorCode.CANCELLED:
            self._parts.breaker.note_failure(actor, case.admitted.arguments.digest, now)
        elif view.outcome in {OutcomeClass.SUCCESS.value, OutcomeClass.NO_RESULT.value, OutcomeClass.PARTIAL.value}:
            self._parts.breaker.note_success(actor)

    async def _refused_case(self, case: Case, reason: Reason) -> CallView:
        """A refusal of a request: in its row if it has one, else as an event."""
        if case.row is not None and not case.joined:
            return await self._path.refuse_row(case, reason)
        return self._refused(case, reason)

    def _refused(self, case: Case, reason: Reason) -> CallView:
        request = case.request
        tool = request.tool if request is not None else ""
        digest = case.admitted.arguments.digest if case.admitted else raw_digest(request)
        at, now = self._parts.clock.now(), self._parts.clock.monotonic()
        actor = Actor(case.principal.tenant, case.principal.subject, tool[:64])
        if not reason.meaning.retryable and reason.code not in NO_FAILURE and ENDS_ITSELF not in reason.details:
            until = self._parts.breaker.blocked_until(actor, digest, now)
            if until is not None:
                reason = repeated(reason, until - now, at)
            else:
                self._parts.breaker.note_failure(actor, digest, now)
        self._refusals.record(case.principal, tool, digest, reason, at)
        effect = case.admitted.contract.gate.effect.value if case.admitted else ""
        return refused_view(tool, reason, effect=effect)

    def _damaged(self, case: Case, error: DamagedChainError) -> CallView:
        """Its record is damaged: nothing more is done about this call, and nothing is claimed about it."""
        reason = refuse(
            ErrorCode.INTERNAL, f"The record of this call is damaged ({error}); a person must look at it."
        ).reason
        view = refused_view(case.request.tool if case.request else "", reason)
        return replace(view, call_id=case.call_id if case.row else None, sent="unknown" if case.row else "no")

    def _unread(self, case: Case, error: LedgerError) -> CallView:
        """The ledger failed: before T1 nothing was sent; after it nobody may say so."""
        return self._refused(case, unreadable(error).reason) if case.unsent else unshown(case)

    def _note_gone(self, case: Case) -> None:
        """A read stops with its request; who wanted that, and when, belongs to its record."""
        row, at = case.row, self._parts.clock.now()
        if row is None or case.joined or not row.is_read:
            return
        by = case.principal.subject
        self._parts.ledger.record_nowait(lambda: request_cancel(row.call_id, by, "its request was cancelled", at))

    def _close_request(self, case: Case) -> None:
        """No request of its subject waits for it any more, and none has seen it settled."""
        if case.row is not None and case.row.effect != Effect.READ.value:
            self._receipts.closed(case.row.call_id)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._parts.settings.lease_s / 6)
            try:
                await self._parts.ledger.beat()
            except LedgerError as error:
                log.warning("no beat could be recorded: %s", type(error).__name__)

    async def _tick(self) -> None:
        """Beat and sweep, several times a lease, whatever the last pass met."""
        pause = min(LONGEST_TICK_S, self._parts.settings.lease_s / 6)
        while True:
            await asyncio.sleep(pause)
            try:
                await self.holding.look()
                await self._sweeper.sweep()
                await self.driver.sweep()
                self._refusals.flush(self._parts.clock.now())
            except LedgerError as error:
                log.warning("the sweep is put off: %s", type(error).__name__)
            except Exception as error:  # noqa: BLE001 (the sweep must outlive any fault; it is logged and the next pass comes)
                log_fault("a sweep ended", error)
