"""The one path of a call. Every route takes it, and no other code reaches an adapter.

request --> admit --> propose (a person decides; a decision resumes it) --+
              |                                                           |
              +--> read (closed world: one fact) --> answer               |
              +--> send (wait, T1) <--------------------------------------+
                     +--> carry (adapter, T2) --> again? --> answer
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ..ledger.admission import Held
from ..ledger.approving import refuse_waiting
from ..ledger.errors import CannotRecordError
from ..ledger.hindering import hindrance
from ..ledger.holding import unless_held
from ..ledger.rows import CallRow
from ..ledger.settling import Settled, observe, take_late
from ..ledger.states import CallState
from ..registry.limits import Actor
from ..registry.outcome import Outcome
from ..registry.request import CallRequest
from ..registry.vocabulary import ErrorCode, JsonValue, Route, Verdict
from .admitting import Admission
from .answers import dry_run, time_is_up
from .attempt import Running
from .authority import as_of_now
from .carrying import Carrier
from .case import Case
from .clock import MICROSECOND, micros
from .hindered import kept_back, passes
from .holding import held_read
from .limiting import beyond_run, charges, limit_details, reset, weigh
from .not_sent import (
    IsDuplicateError,
    LimitReachedError,
    MovedOnError,
    NeedsProposalError,
    RulesChangedError,
)
from .parts import Parts
from .proposing import Proposer, principal_of
from .refusal import Reason, RefusedError, is_for_later, refuse
from .retry import Again, next_attempt
from .sending import Sender, cannot_record
from .settlement import Result
from .viewing import Viewer, refused_view
from .views import CallView
from .writing import first_record, neighbours

Joiner: TypeAlias = Callable[[Case, IsDuplicateError], Awaitable[CallView]]
Recover: TypeAlias = Callable[[Case, float], Awaitable[None]]


FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0
"""How soon, and how seldom at most, what was decided and is kept back looks by itself, in seconds."""


class CallPath:
    """Takes a case from its request, or from its row, to its view."""

    def __init__(
        self, parts: Parts, viewer: Viewer, sender: Sender, carrier: Carrier, proposer: Proposer, join: Joiner
    ) -> None:
        self._parts = parts
        self._viewer = viewer
        self._sender = sender
        self._carrier = carrier
        self._join = join
        self._proposer = proposer
        self.recover: Recover | None = None

    async def fresh(self, case: Case) -> CallView:
        """A request that has no row yet."""
        request = case.request
        assert request is not None, "a fresh case has a request"
        if case.within is not None:
            case.principal = as_of_now(self._parts, case.principal, case.within)
            request = replace(request, principal=case.principal)
        case.admitted = Admission.of(self._parts).admit(request, case.within)
        try:
            await self._sender.require_sendable(case)
            await self._weigh(case)
            if request.dry_run:
                return dry_run(case)
            self._check_breaker(case)
            return await self._by_verdict(case)
        except IsDuplicateError as error:
            return await self._join(case, error)
        except RulesChangedError:
            return await (self.fresh(case) if case.row is None else self.resume(case))

    async def _weigh(self, case: Case) -> None:
        if self._parts.limits_calls:
            await weigh(self._parts, case)

    async def _by_verdict(self, case: Case) -> CallView:
        known, parts = case.known, self._parts
        if known.decision.verdict is Verdict.DENY:
            await self._deny(case)
        if parts.limits_calls and (beyond := beyond_run(parts, case)) is not None:
            await self._sender.look(case, neighbours(case, parts.clock.now(), parts.settings.duplicate_window_s))
            raise beyond
        if known.decision.verdict is Verdict.APPROVE:
            return await self._proposer.propose(case)
        if case.within is not None:
            case.within.passed()
        alone = known.closed_read and not known.resources and not parts.settings.reads_before
        if alone and not charges(parts, case, parts.clock.now()):  # what is taken from a budget is taken before it runs
            return await self._read(case)
        try:
            return await self._send(case)
        except LimitReachedError as error:
            return await self._decide_anew(case, error)

    async def _decide_anew(self, case: Case, error: LimitReachedError) -> CallView:
        """Other calls reached a rule's limit between the decision and T1: the rule matches now, and T1 was not made."""
        await weigh(self._parts, case, error.rule_id)
        if case.row is not None:
            return await self._take_up(case, case.row)
        return await self._by_verdict(case)

    async def resume(self, case: Case) -> CallView:
        """A queued call that has a row: decided, to be sent again, or left by another server."""
        row = case.row
        assert row is not None, "a resumed case has a row"
        if case.within is None:  # the driver of a run has looked at its chain
            await self._parts.ledger.require_sound_chain(row.run_id)
        pauses, mark = _pauses(), self._parts.passing.mark
        while (view := await self._unless_kept_back(case, row)) is None:
            if (still := await self._after_passing(case, row, mark, pauses)) is None:
                return await self._viewer.view(case.row or row)
            row, mark = still, self._parts.passing.mark
        return view

    async def _after_passing(
        self, case: Case, row: CallRow, mark: asyncio.Event, pauses: Iterator[float]
    ) -> CallRow | None:
        """A decided call once it is worth trying; None if it is not ours to send any more, or the process stops."""
        parts = self._parts
        while await parts.passing.wait(mark, next(pauses)):
            mark, at = parts.passing.mark, parts.clock.now()
            now = await self._viewer.row(row.call_id)
            if now is None or now.state != CallState.QUEUED or now.owner_id != parts.ledger.owner_id:
                case.record(now or row)
                return None
            case.record(now)
            if now.sent == "unknown":  # it may have reported late, which T1 reads whatever stands in the way
                return now
            if await parts.ledger.reads.look(lambda now=now, at=at: hindrance(now, at)) is None:  # type: ignore[misc]  # bound in their turn
                return now
        return None

    async def _unless_kept_back(self, case: Case, row: CallRow) -> CallView | None:
        """What became of it; None if something that passes stands in the way of what a person has decided.

        What was decided stands, and its window stands still; a step of a run is its driver's to try again.
        """
        try:
            await self._readmit(case, row)
            return await self._take_up(case, row)
        except RefusedError as error:
            if case.within is None and passes(row, error.reason):
                return None
            return await self.refuse_row(case, error.reason)

    async def _take_up(self, case: Case, row: CallRow) -> CallView:
        """Send a readmitted call under its approval, or say what stands in the way."""
        try:
            if self._parts.limits_calls and row.charges is None and (beyond := beyond_run(self._parts, case)):
                raise beyond
            approval = await self._viewer.approval(row.approval_id)
            digest = self._proposer.redeem(case, row, approval)
            await self._until(row.not_before)
            return await self._send(case, digest)
        except LimitReachedError as error:
            return await self._decide_anew(case, error)
        except RulesChangedError:
            return await self.resume(case)
        except NeedsProposalError as error:
            return await self._proposer.propose_again(case, error.approval)
        except IsDuplicateError as error:
            raise key_conflict(error) from None

    async def _send(self, case: Case, digest: str | None = None) -> CallView:
        started = self._parts.clock.monotonic()
        try:
            slot = await self._sender.send(case, digest)
            result = await self._carrier.attempt(case, slot, started)
            return await self._carry_on(case, result, digest, started)
        except MovedOnError as moved:
            return await self._moved_on(case, moved)

    async def _moved_on(self, case: Case, moved: MovedOnError) -> CallView:
        row = moved.row or case.row
        assert row is not None, "only a call with a row moves on"
        if moved.late:
            row = await self._read_late(row)
        case.record(row)
        return await self._viewer.view(row)

    async def _read_late(self, row: CallRow) -> CallRow:
        """An earlier attempt has reported after all: its word answers for the call."""
        at = self._parts.clock.now()
        return await self._parts.ledger.record(lambda: take_late(row.call_id, at)) or row

    async def _carry_on(self, case: Case, result: Result, digest: str | None, started: float) -> CallView:
        """Further attempts, while the contract's one budget of attempts and time lasts."""
        while True:
            row = case.row
            assert row is not None, "a carried call has a row"
            if row.state == CallState.QUEUED:
                await self._until(row.not_before)
                if row.attempts and self._carrier.time_left(case, started) < case.known.contract.retry.least_s:
                    return await self.refuse_row(case, time_is_up().reason)
                slot = await self._sender.send(case, digest)
                result = await self._carrier.attempt(case, slot, started)
                continue
            case.result = result
            pause = self._before_recovery(case, row, started)
            if row.state == CallState.AWAITING_RECONCILIATION and pause is not None:
                assert self.recover is not None, "wired at construction"
                await asyncio.sleep(pause)
                await self.recover(case, started)
                if case.row is not None and case.row.state == CallState.QUEUED:
                    continue
            return await self._viewer.view(case.row or row, result=result)

    def _before_recovery(self, case: Case, row: CallRow, started: float) -> float | None:
        """How long to leave the far side alone before it is asked, in seconds; None if nothing more is done here."""
        left = self._carrier.time_left(case, started)
        decision = next_attempt(case.known.contract.retry, row.attempts, left, None, self._parts.chance())
        return decision.after_s if isinstance(decision, Again) else None

    async def _until(self, not_before: int | None) -> None:
        wait = ((not_before or 0) - self._parts.clock.now()) / MICROSECOND
        if wait > 0:
            await asyncio.sleep(wait)

    async def _read(self, case: Case) -> CallView:
        """A read of a closed world: T1 and T2 are one fact, made after it ran and before its answer."""
        if (hold := held_read(self._parts, case)) is not None:
            raise kept_back(hold)
        started, at = self._parts.clock.monotonic(), self._parts.clock.now()
        if case.request is not None and case.request.idempotency_key is not None:
            await self._sender.look(case, neighbours(case, at, self._parts.settings.duplicate_window_s))
        slot = await self._sender.stand(case)
        if case.row is not None:  # its caller would not wait: it has a row, and takes the way of any other call
            slot.release()
            return await self._send(case)
        running = self._carrier.start(case, slot)
        try:
            outcome = await self._outcome_or_row(case, running)
            if case.row is None and self._carrier.retry_at(case, outcome, started, 1) is not None:
                await self._sender.record_running(case)
            if case.row is not None:
                result = await self._carrier.finish(case, running, outcome, started)
                return await self._carry_on(case, result, None, started)
            return await self._observe(case, outcome, at)
        except MovedOnError as moved:
            return await self._moved_on(case, moved)
        except RefusedError as error:
            if error.reason.code is not ErrorCode.CANNOT_RECORD:
                raise
            withheld = "It was read, but the ledger cannot record that now, so the answer is withheld. Ask again later."
            reason = replace(error.reason, message=withheld)
            return refused_view(case.known.contract.name, reason, effect="read", sent="unknown")
        finally:
            if case.row is None or case.row.state == CallState.SETTLED:
                self._parts.crossed.discard(case.call_id)

    async def _outcome_or_row(self, case: Case, running: Running) -> Outcome[Any]:
        while not running.over:
            if not case.stirred:
                await running.follow()
            case.heard()
            if case.wants_row and case.row is None and not running.over:
                await self._sender.record_running(case)
        return await running.outcome()

    async def _observe(self, case: Case, outcome: Outcome[Any], at: int) -> CallView:
        parts = self._parts
        result = self._carrier.result(case, outcome)
        first = first_record(case, parts, at)
        carried, owner_id = parts.take_deliveries(), parts.ledger.owner_id
        try:
            done = await parts.ledger.record(
                lambda: unless_held(
                    first.row,
                    observe(first.row, first.who, first.arguments, result.settlement, owner_id, carried),
                )
            )
        except CannotRecordError as error:
            parts.deliveries.extend(carried)
            raise cannot_record(error) from None
        if isinstance(done, Held):
            parts.deliveries.extend(carried)
            raise refuse(ErrorCode.CANNOT_RECORD, kept_back(done).reason.message, reason="held")
        if not isinstance(done, Settled):
            self._sender.stop(case, done)
        assert isinstance(done, Settled), f"{type(done).__name__} neither records nor stops"
        case.record(done.row)
        case.result = result
        return await self._viewer.view(done.row, result=result)

    async def _deny(self, case: Case) -> None:
        """A duplicate of a call that was allowed once is answered by that call; anything else is denied."""
        parts, decision = self._parts, case.known.decision
        who = neighbours(case, parts.clock.now(), parts.settings.duplicate_window_s)
        await self._sender.look(case, who)
        limit = limit_details(parts, case)
        raise refuse(ErrorCode.DENIED, decision.reason, rule_id=decision.rule_id, rule=decision.rule_id, **limit)

    async def _readmit(self, case: Case, row: CallRow) -> None:
        """Everything is checked again with the arguments as they were recorded, under what its grant still allows."""
        route = Route(row.route)
        granted = principal_of(row) if case.within is None else case.principal
        case.principal = granted if route is Route.PROBE else as_of_now(self._parts, granted, case.within)
        arguments: JsonValue = json.loads(await self._parts.ledger.open_payload(row.args_payload))
        request = CallRequest(
            principal=case.principal,
            tool=row.tool,
            arguments=arguments,
            version=row.version,
            idempotency_key=row.key,
            if_version=row.if_version,
            route=route,
        )
        case.admitted = Admission.of(self._parts).admit(request, case.within)
        if case.admitted.unsendable is not None:
            raise case.admitted.unsendable
        await self._weigh(case)

    async def refuse_row(self, case: Case, reason: Reason) -> CallView:
        """A call that has a row and may not be sent: the reason is recorded in it."""
        row = case.row
        assert row is not None, "only a call with a row is refused in it"
        if case.within is not None and is_for_later(reason):
            raise RefusedError(reason)  # its run tries it again then; what was decided about it stands
        at, meaning = self._parts.clock.now(), reason.meaning
        done = await self._carrier.record(
            case,
            lambda: refuse_waiting(
                row.call_id, reason.code.value, meaning.outcome.value, reason.message, reason.details, at
            ),
        )
        now = done or await self._viewer.row(row.call_id) or row
        case.record(now)
        return await self._viewer.view(now)

    def _check_breaker(self, case: Case) -> None:
        known = case.known
        actor = Actor(case.principal.tenant, case.principal.subject, known.contract.name)
        until = self._parts.breaker.blocked_until(actor, known.arguments.digest, self._parts.clock.monotonic())
        if until is not None:
            raise refuse(
                ErrorCode.REPEATED_FAILURE,
                "The same call has failed five times within ten minutes. Change the arguments, or wait.",
                **reset(self._parts, self._parts.clock.now() + micros(until - self._parts.clock.monotonic())),
            )


def _pauses() -> Iterator[float]:
    """How long what is kept back waits before it looks by itself, in seconds."""
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(LONGEST_PAUSE_S, pause * 2)


def key_conflict(error: IsDuplicateError) -> RefusedError:
    """The key belongs to another request."""
    row = error.duplicate.row
    return refuse(
        ErrorCode.KEY_CONFLICT,
        f"This idempotency key belongs to {row.call_id}, which was asked with other arguments or is past its "
        "retention. Use another key for another intent.",
        call_id=row.call_id,
    )
