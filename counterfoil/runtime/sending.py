"""Steps 7 to 9: wait for resources and capacity, make the adapter ready, and commit T1. No T1, no adapter.

A case without a row waits in memory. When its caller will not wait any longer it gets a row (`queued`); when its
caller is gone it is given up. Whatever the guards answer instead of T1 becomes a `NotSent` or a refusal here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar

from ..ledger.admission import Busy, Duplicate, GrantLapsed, Held, Neighbours, OwnerLapsed, RunSaysNo, Unresolved
from ..ledger.budgeting import OverBudget
from ..ledger.dispatching import (
    ApprovalGone,
    Attempt,
    Dispatched,
    LateFound,
    Moved,
    NotDispatched,
    dispatch_new,
    dispatch_queued,
    enqueue,
    look,
)
from ..ledger.errors import CannotRecordError
from ..ledger.rows import CallRow
from ..registry.adapter import NotReadyError
from ..registry.vocabulary import ErrorCode, Route
from .capacity import Slot
from .case import Case
from .clock import MICROSECOND, micros
from .hindered import grant_lapsed, kept_back, unresolved
from .limiting import charges, over_budget, reset, run_time
from .not_sent import (
    CallerGoneError,
    HeldUpError,
    IsDuplicateError,
    LimitReachedError,
    MovedOnError,
    NeedsProposalError,
    RulesChangedError,
    RunSaysNoError,
)
from .parts import Parts
from .refusal import refuse
from .writing import first_record, neighbours

T = TypeVar("T")


class Sender:
    """Takes a case to its T1."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def send(self, case: Case, digest: str | None = None) -> Slot:
        """Wait for what the call needs and commit T1; `case.row` is dispatched then. The caller releases the slot.

        Args:
            case: admitted; with a row it is queued and ours.
            digest: what the approval to be consumed must be bound to, None if none is needed.

        Raises:
            RefusedError: a rule said no.
            NotSentError: the answer is another call's or another state's.
            CallerGoneError: given up, nothing recorded.
        """
        parts, known = self._parts, case.known
        lapses = 0
        patience_ends = parts.clock.monotonic() + (parts.settings.queue_wait_s if case.within is None else math.inf)
        with ExitStack() as queue:
            place = None
            if known.resources and (case.row is None or case.row.generation == 0):
                await self._look_if_waiting(case)
                place = queue.enter_context(parts.waiting.place(case.principal.tenant, known.resources))
            while True:
                while place is not None and not parts.waiting.is_first(place):
                    await self._patiently(case, place.turn())
                slot = await self._slot(case, count=not case.counted)
                case.counted = True
                owner_id = parts.ledger.owner_id
                try:
                    result = await self._t1(case, digest)
                    if isinstance(result, Dispatched):
                        case.counted = False
                        case.record(result.row)
                        parts.cases[case.call_id] = case
                        if case.within is not None:
                            case.within.passed()
                        return slot
                except BaseException:
                    slot.release()
                    raise
                slot.release()
                if isinstance(result, OwnerLapsed) and lapses == 0:
                    lapses += 1
                    await parts.ledger.renew_owner(owner_id)
                    continue
                self.stop(case, result)
                if parts.clock.monotonic() > patience_ends:
                    raise busy(result)
                if place is None:
                    place = queue.enter_context(parts.waiting.place(case.principal.tenant, known.resources))
                await self._patiently(case, place.turn())

    async def stand(self, case: Case) -> Slot:
        """Capacity and a ready adapter for a read that is recorded after it ran."""
        return await self._slot(case)

    async def record_running(self, case: Case) -> None:
        """T1 of a closed-world read that runs already, because its caller will not wait for the end of it."""
        result = await self._t1(case, None)
        if isinstance(result, Dispatched):
            case.record(result.row)
            self._parts.cases[case.call_id] = case
            return
        self.stop(case, result)

    async def _slot(self, case: Case, *, count: bool = True) -> Slot:
        """What an attempt occupies. Its start counts against the rates once, however often it is looked for."""
        known = case.known
        await self._keep_or_give_up(case)
        slot = await (self._tool_slot(case) if case.within is None else self._step_slot(case, case.within.parallel))
        wait_s = self._parts.capacity.start(known.contract, self._parts.clock.monotonic()) if count else 0.0
        if wait_s > 0:
            slot.release()
            free_at = self._parts.clock.now() + math.ceil(wait_s * MICROSECOND)
            raise refuse(
                ErrorCode.RATE_LIMITED,
                f"{known.contract.name} is called too often; the next start is free in {wait_s:.1f} s. Ask then.",
                **reset(self._parts, free_at),
            )
        try:
            if (getting_ready := known.adapter.ready()) is not None:
                await self._patiently(case, getting_ready)
        except NotReadyError as error:
            slot.release()
            raise refuse(ErrorCode.UNAVAILABLE, f"{known.contract.name} cannot be reached now: {error}") from None
        except BaseException:
            slot.release()
            raise
        if known.policy is not self._parts.policy:
            slot.release()
            raise RulesChangedError
        return slot

    async def _tool_slot(self, case: Case) -> Slot:
        known, capacity = case.known, self._parts.capacity
        blocking = known.adapter.blocking
        if not capacity.full(known.contract, blocking=blocking):
            return await capacity.slot(known.contract, blocking=blocking)
        await self._look_if_waiting(case)
        return await self._patiently(case, capacity.slot(known.contract, blocking=blocking))

    async def _step_slot(self, case: Case, parallel: asyncio.Semaphore) -> Slot:
        """The same for a step, whose run has a limit of its own: nobody holds the one while it waits for the other.

        Each waiter changes queues at most once for each place that becomes free in one of them.
        """
        contract, blocking = case.known.contract, case.known.adapter.blocking
        while True:
            turn = await (self._patiently(case, _turn(parallel)) if parallel.locked() else _turn(parallel))
            if not self._parts.capacity.full(contract, blocking=blocking):
                slot = await self._tool_slot(case)
                slot.add(parallel)
                return slot
            turn.release()
            slot = await self._tool_slot(case)
            if not parallel.locked():
                await parallel.acquire()
                slot.add(parallel)
                return slot
            slot.release()

    async def _t1(self, case: Case, digest: str | None) -> Dispatched | NotDispatched:
        parts, known = self._parts, case.known
        if case.gone and case.row is None:
            raise CallerGoneError
        attempt = self._attempt(case)
        try:
            if case.row is not None:
                call_id = case.call_id
                siblings, idempotency = _heeds_siblings(case, case.row), known.contract.recovery.idempotency.value
                return await parts.ledger.record(
                    lambda: dispatch_queued(
                        call_id, self._timed(case, attempt), digest=digest, siblings=siblings, idempotency=idempotency
                    )
                )
            first = first_record(case, parts, attempt.at)
            return await parts.ledger.record(
                lambda: dispatch_new(first.row, first.who, first.arguments, self._timed(case, attempt))
            )
        except CannotRecordError as error:
            parts.deliveries.extend(attempt.deliveries)
            raise cannot_record(error) from None

    def _attempt(self, case: Case) -> Attempt:
        parts = self._parts
        return Attempt(
            owner_id=parts.ledger.owner_id,
            at=parts.clock.now(),
            hard_deadline_at=None,
            request_open=case.listeners > 0,
            deliveries=parts.take_deliveries(),
            run_time=run_time(case),
        )

    def _timed(self, case: Case, attempt: Attempt) -> Attempt:
        """Its time is that of its transaction, which may have waited for another process, so after all before it."""
        known, at = case.known, self._parts.clock.now()
        hard = at + micros(known.contract.limits.timeout_s) if known.adapter.hard_deadline else None
        taken = charges(self._parts, case, at)
        return replace(attempt, at=at, hard_deadline_at=hard, charges=taken)

    def stop(self, case: Case, result: NotDispatched) -> None:  # noqa: C901 (one arm for each answer)
        """Raise unless waiting helps."""
        match result:
            case Busy():
                return
            case Duplicate():
                raise IsDuplicateError(result)
            case Unresolved():
                _held_up(case, result)
            case RunSaysNo():
                raise RunSaysNoError(result.why)
            case Held():
                raise kept_back(result)
            case GrantLapsed():
                raise grant_lapsed(result, case.row)
            case OverBudget():
                raise self._not_afforded(result)
            case ApprovalGone():
                raise NeedsProposalError(result.approval)
            case Moved():
                raise MovedOnError(result.row)
            case LateFound():
                raise MovedOnError(result.row, late=True)
            case OwnerLapsed():
                raise refuse(
                    ErrorCode.UNAVAILABLE,
                    "This server stood still too long and is taking up its work again. Ask again.",
                )

    def _not_afforded(self, result: OverBudget) -> Exception:
        rule_id = result.charge.rule_id
        return LimitReachedError(rule_id) if rule_id is not None else over_budget(self._parts, result)

    async def _look_if_waiting(self, case: Case) -> None:
        """Before it waits for anything: a duplicate or an unresolved neighbour is answered at once."""
        if case.row is not None or case.within is not None:
            return
        await self.look(case, neighbours(case, self._parts.clock.now(), self._parts.settings.duplicate_window_s))

    async def require_sendable(self, case: Case) -> None:
        """Refuse what cannot be sent, unless it was: a tool's own check may know the time, and a call ended before.

        Raises:
            RefusedError: it cannot be sent.
            IsDuplicateError: it is a call that was made already.
        """
        unsendable, request = case.known.unsendable, case.request
        if unsendable is None:
            return
        if request is not None and not request.dry_run and case.within is None:
            await self.look(case, neighbours(case, self._parts.clock.now(), self._parts.settings.duplicate_window_s))
        raise unsendable

    async def look(self, case: Case, who: Neighbours) -> None:
        """Raise what stands in the way of a request that has no row, apart from what waiting would cure."""
        try:
            result = await self._parts.ledger.record(lambda: look(who, case.known.resources))
        except CannotRecordError as error:
            raise cannot_record(error) from None
        if result is not None:
            self.stop(case, result)

    async def _patiently(self, case: Case, wait: Awaitable[T]) -> T:
        """Wait, but give the case its row when its caller leaves with an answer, and give up when nobody waits."""
        if case.row is not None and case.within is None:
            return await wait
        waiting: asyncio.Future[T] = asyncio.ensure_future(wait)
        try:
            while not waiting.done():
                await self._keep_or_give_up(case)
                either: set[asyncio.Future[Any]] = {waiting, case.nudged}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                case.heard()
            return waiting.result()
        except BaseException:
            waiting.add_done_callback(_give_back)
            waiting.cancel()
            raise

    async def _keep_or_give_up(self, case: Case) -> None:
        if case.row is not None:
            if case.gone and case.within is not None:
                raise MovedOnError(case.row)
            return
        if case.gone:
            raise CallerGoneError
        if case.wants_row:
            await self._get_a_row(case)

    async def _get_a_row(self, case: Case) -> None:
        parts = self._parts
        at = parts.clock.now()
        first = first_record(case, parts, at)
        row = first.row._replace(owner_id=parts.ledger.owner_id)
        try:
            result = await parts.ledger.record(lambda: enqueue(row, first.who, first.arguments))
        except CannotRecordError as error:
            raise cannot_record(error) from None
        if not isinstance(result, CallRow):
            self.stop(case, result)
            return
        case.record(result)
        parts.cases[case.call_id] = case


def _heeds_siblings(case: Case, row: CallRow) -> bool:
    """A first attempt of a non-read tool without resources is held back by unresolved calls of the same tool.

    A further attempt is no new intent: two unresolved siblings would wait for each other for good.
    """
    contract = case.known.contract
    heeds = row.route in {Route.DIRECT.value, Route.STEP.value}
    return heeds and not (contract.is_read or case.known.resources or row.generation)


def _held_up(case: Case, found: Unresolved) -> None:
    """A call of which nobody knows stands in the way; whoever is one itself waits for it as for any other."""
    if case.row is not None and case.row.sent == "unknown":
        return
    raise HeldUpError(found) if case.within is not None else unresolved(found, case.principal.subject)


async def _turn(parallel: asyncio.Semaphore) -> Slot:
    await parallel.acquire()
    return Slot([parallel])


def _give_back(waiting: asyncio.Future[Any]) -> None:
    """What a wait brought after it was given up must not stay taken."""
    if not waiting.cancelled() and waiting.exception() is None and isinstance(slot := waiting.result(), Slot):
        slot.release()


def cannot_record(error: CannotRecordError) -> Exception:
    """The ledger cannot keep it, so it is not done."""
    return refuse(
        ErrorCode.CANNOT_RECORD,
        f"The ledger cannot record now ({error.reason}), so nothing was sent. Ask again later; see `status`.",
        reason=error.reason,
    )


def busy(result: NotDispatched) -> Exception:
    """The resource stayed taken for as long as anybody waits."""
    resource = result.resource if isinstance(result, Busy | Unresolved) else None
    return refuse(ErrorCode.RESOURCE_BUSY, f"{resource or 'A resource'} stayed taken by another call. Ask again later.")
