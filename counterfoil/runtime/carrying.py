"""Steps 10 and 11: the adapter is called once under its deadline, its outcome is recorded, and what follows is decided.

A settlement that cannot be committed is kept and tried again until it is: its outcome is not delivered before. A
handler that outlives its deadline is watched to its end; what it brings then is evidence.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from ..ledger.admission import owner_lives
from ..ledger.bookkeeping import end_handler
from ..ledger.errors import CannotRecordError, LedgerError, Reason
from ..ledger.rows import CallRow, get_call
from ..ledger.sealing import Sealed
from ..ledger.settling import Settled, Settlement, SettleResult, settle
from ..ledger.sql import Fact
from ..ledger.states import CallState
from ..registry.adapter import Call, CallStoppedError
from ..registry.outcome import Outcome
from ..registry.secret_places import secret_texts
from ..registry.vocabulary import OutcomeClass, Sent
from .attempt import Crossing, LeaseLostError, Running, StoppedLateError
from .callbacks import callback_url
from .capacity import Slot
from .case import Case
from .clock import MICROSECOND, micros
from .parts import Parts
from .retry import Again, harmless_again, next_attempt, time_budget
from .settlement import Result, settlement_of

log = logging.getLogger("counterfoil.runtime")
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
GONE: Final = frozenset({Reason.CLOSED, Reason.WRITER_DEAD})
"""Why trying again is in vain: this process's ledger has ended, and recovery has the rest."""


class Carrier:
    """Carries a dispatched case to its settlement."""

    def __init__(self, parts: Parts, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._parts = parts
        self._spawn = spawn

    def start(self, case: Case, slot: Slot) -> Running:
        """Call the adapter, once, for the attempt of `case.row`, or for a closed-world read that has no row.

        The slot is given back when the handler has really ended.
        """
        known = case.known
        timeout_s = known.contract.limits.timeout_s
        self._parts.crossed.add(case.call_id)
        case.guarded = False
        call = self._call(case, timeout_s)

        def ended(task: asyncio.Task[Outcome[Any]]) -> None:
            self._parts.handlers.discard(task)
            slot.release()

        given = {} if case.within is None else dict(case.within.given)
        crossing = Crossing(known.contract, known.adapter, known.arguments.value, call, given, timeout_s)
        case.running = Running(crossing, ended)
        self._parts.handlers.add(case.running.task)
        if case.gone and known.contract.is_read:
            case.running.stop_read()
        return case.running

    async def attempt(self, case: Case, slot: Slot, started: float) -> Result:
        """One attempt from the adapter's call to the recorded outcome; `case.row` says what became of the call."""
        if self._overdue(case) or await self._lost_meanwhile(case):
            slot.release()
            return await self._not_made(case, started)
        running = self.start(case, slot)
        return await self.finish(case, running, await running.outcome(), started)

    def _overdue(self, case: Case) -> bool:
        """True if the process stood still between T1 and here for so long that what it sent could outlive its deadline.

        The contract's `settle_s` counts from that deadline.
        """
        row, known = case.row, case.known
        if row is None or row.dispatched_at is None or not known.adapter.hard_deadline:
            return False
        return self._parts.clock.now() >= row.dispatched_at + micros(known.contract.limits.timeout_s)

    async def _lost_meanwhile(self, case: Case) -> bool:
        """True if the process stood still after T1 and lost its lease: nothing has been sent, and nothing is."""
        row, patience = case.row, micros(self._parts.settings.lease_s / 2)
        if row is None or row.dispatched_at is None or self._parts.clock.now() < row.dispatched_at + patience:
            return False
        try:
            await self._check_lease(case)
        except CallStoppedError:
            return True
        return False

    async def _not_made(self, case: Case, started: float) -> Result:
        row = case.row
        assert row is not None, "only a recorded attempt is overdue"
        outcome = Outcome[Any].unavailable("The server stood still before this attempt was made; nothing was sent.")
        result = self.result(case, outcome)
        retry_at = self.retry_at(case, outcome, started, row.attempts)
        await self._settle(case, row, result.settlement, retry_at=retry_at, handler_ended=True)
        return result

    async def finish(self, case: Case, running: Running, outcome: Outcome[Any], started: float) -> Result:
        """Record an attempt's outcome; a handler that is not at its end yet is watched to it."""
        row = case.row
        assert row is not None, "an attempt has its T1"
        ended = running.task.done()
        if not ended:
            self._spawn(self._watch(case, running, row.generation))
        result = self.result(case, outcome)
        retry_at = self.retry_at(case, outcome, started, row.attempts)
        await self._settle(case, row, result.settlement, retry_at=retry_at, handler_ended=ended)
        return result

    def result(self, case: Case, outcome: Outcome[Any], by: str = "execution") -> Result:
        """The settlement of an outcome, sealed and redacted."""
        parts = self._parts
        contract = case.known.contract
        secrets = secret_texts(case.known.arguments.value, contract.gate.sensitive)
        keeper = parts.keeper(case.call_id, case.principal.tenant, secrets)
        return settlement_of(contract, outcome, keeper, parts.clock.now(), parts.settings.output_bytes, by)

    async def record(self, case: Case, fact: Callable[[], Fact[Any]]) -> Any:  # noqa: ANN401 (a fact's own answer)
        """Record what must not be lost: kept and tried again until the ledger takes it."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await self._parts.ledger.record(fact)
            except CannotRecordError as error:
                if error.reason in GONE:
                    raise
                case.waits_for_ledger = True
                case.nudge()
                log.warning("cannot record the outcome of %s yet (%s); keeping it", case.call_id, error.reason)
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE_S, pause * 2)

    async def keep(self, call_id: str, fact: Callable[[], Fact[None]]) -> None:
        """Record a fact that nobody waits for and that must not be lost either."""
        pause = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause)
            try:
                await self._parts.ledger.record(fact)
            except CannotRecordError as error:
                if error.reason in GONE:
                    return
                log.warning("cannot record a fact about %s yet (%s); keeping it", call_id, error.reason)
                pause = min(LONGEST_PAUSE_S, pause * 2)
            else:
                return

    async def _settle(
        self, case: Case, row: CallRow, settlement: Settlement, *, retry_at: int | None, handler_ended: bool
    ) -> None:
        if settlement.output is not None and len(settlement.output.chunks) > 1:
            await self._store_ahead(settlement.output)
        done: SettleResult = await self.record(
            case,
            lambda: settle(
                row.call_id, row.generation, settlement, retry_at=retry_at, handler_ended=handler_ended, known=row
            ),
        )
        case.waits_for_ledger = False
        self._parts.crossed.discard(case.call_id)
        if done.row is not None:
            case.record(done.row)
        if isinstance(done, Settled) and done.row.state == CallState.SETTLED:
            self._parts.waiting.released(row.tenant, row.resource_keys)

    async def _store_ahead(self, output: Sealed) -> None:
        """Most of a large output before its settlement, so that this one stays short; what fails is stored with it."""
        try:
            await self._parts.ledger.store_ahead(output)
        except CannotRecordError as error:
            log.info("an output is stored with its settlement: %s", error.reason)

    def retry_at(self, case: Case, outcome: Outcome[Any], started: float, attempts: int) -> int | None:
        """When another attempt is made, in microseconds; None if none is."""
        contract = case.known.contract
        if outcome.kind is not OutcomeClass.RETRYABLE_FAILURE or (case.gone and contract.is_read):
            return None
        if outcome.sent is Sent.UNKNOWN and not harmless_again(contract):
            return None
        left = self.time_left(case, started)
        decision = next_attempt(contract.retry, attempts, left, outcome.after_s, self._parts.chance())
        return self._parts.clock.now() + micros(decision.after_s) if isinstance(decision, Again) else None

    def time_left(self, case: Case, started: float) -> float:
        """What is left of the one budget of time of all attempts, in seconds."""
        contract = case.known.contract
        return started + time_budget(contract.retry, contract.limits.timeout_s) - self._parts.clock.monotonic()

    async def _watch(self, case: Case, running: Running, generation: int) -> None:
        """See a handler that was given up at its deadline to its end; what it brings is evidence."""
        await asyncio.wait({running.task})
        at = self._parts.clock.now()
        outcome = running.ended()
        if outcome.kind is OutcomeClass.AMBIGUOUS or running.task.cancelled():
            await self.record(case, lambda: end_handler(case.call_id, generation, at))
            return
        late = replace(self.result(case, outcome).settlement, by="late")
        await self.record(case, lambda: settle(case.call_id, generation, late))

    def _call(self, case: Case, timeout_s: float) -> Call:
        row = case.row
        since = row.dispatched_at if row is not None and row.dispatched_at is not None else self._parts.clock.now()
        deadline = datetime.fromtimestamp(since / MICROSECOND + timeout_s, UTC)
        return Call(
            id=case.asked_about or case.call_id,
            action_id=case.action_id,
            attempt=row.generation if row else 1,
            principal=case.principal,
            deadline=deadline,
            if_version=case.request.if_version if case.request else (row.if_version if row else None),
            progress_sink=case.tell_progress,
            guard_check=lambda: self._guard(case),
            loop=asyncio.get_running_loop(),
            callback_url=callback_url(self._parts, case.asked_about or case.call_id),
        )

    async def _guard(self, case: Case) -> None:
        """Let the tool act, once it is certain that the call is still this attempt's and nobody asked it to stop."""
        try:
            await self._check_lease(case)
        except CallStoppedError as error:
            if case.guarded:
                raise StoppedLateError(str(error)) from None
            raise
        case.guarded = True

    async def _check_lease(self, case: Case) -> None:
        row = case.row
        if row is None:
            return
        try:
            now, lives = await self._parts.ledger.record(lambda: _standing(row))
        except LedgerError as error:
            raise LeaseLostError(f"the lease cannot be checked ({type(error).__name__}), so nothing is sent") from None
        if now is not None and now.cancel_requested_at is not None:
            raise CallStoppedError(f"cancelled by {now.cancel_requested_by} before it was sent")
        mine = now is not None and now.state == CallState.DISPATCHED and now.generation == row.generation
        if not (mine and lives and now is not None and now.owner_id == row.owner_id):
            raise LeaseLostError("another server has taken this call over, so nothing is sent here")


def _standing(row: CallRow) -> Fact[tuple[CallRow | None, bool]]:
    """A call as it is now, and whether the owner of its attempt still lives: both of one moment."""
    now = yield from get_call(row.call_id)
    lives = yield from owner_lives(row.owner_id or "")
    return now, lives
