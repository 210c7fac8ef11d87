"""A step of a run on the one call path: started once, resumed from its row, given up before it was sent.

The path is the one of every call. What differs is who listens: a driver, which is told how a step's call stands
whenever nothing more happens to it by itself, and decides what that means for the run.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from ..ledger.errors import LedgerError
from ..ledger.rows import CallRow
from ..ledger.states import CallState
from ..registry.principal import Principal
from ..registry.request import CallRequest
from ..registry.vocabulary import JsonValue
from .answers import broken, unreadable
from .case import Case, Within
from .clock import micros
from .not_sent import CallerGoneError, HeldUpError, MovedOnError, NotSentError, RunSaysNoError
from .parts import Parts
from .path import CallPath
from .refusal import Reason, RefusedError, is_for_later
from .tasks import log_fault
from .views import CallView


class NoOutput:
    """What a call without an output has in place of one; `None` is an output."""


NO_OUTPUT: Final = NoOutput()


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more happens to the call by itself: settled, refused, or awaiting somebody. `output` is the whole one."""

    row: CallRow
    output: JsonValue | NoOutput = NO_OUTPUT


@dataclass(frozen=True, slots=True)
class Refused:
    """It was refused before anything of it was recorded, for good."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A call elsewhere whose outcome nobody knows stands in the way; nothing is held meanwhile."""

    row: CallRow
    resource: str | None


@dataclass(frozen=True, slots=True)
class NotNow:
    """It may be tried again, at `due_at` (microseconds) or whenever its run likes to."""

    reason: Reason
    due_at: int | None


@dataclass(frozen=True, slots=True)
class RunSaysNo:
    """The run does not let it be sent: moved, cancelled, stopped, deadline, authority; or it was given up here."""

    why: str


StepEnd: TypeAlias = Ended | Refused | HeldUp | NotNow | RunSaysNo
GIVEN_UP: Final = "given_up"
DELIVERS: Final = frozenset({"success", "no_result", "partial"})


class Stepper:
    """Takes the steps of this process's runs along the call path."""

    def __init__(self, parts: Parts, path: CallPath, note: Callable[[Case, CallView], None]) -> None:
        self._parts = parts
        self._path = path
        self._note = note
        self._cases: dict[str, set[Case]] = {}

    async def start(self, request: CallRequest, within: Within) -> StepEnd:
        """The first record, and all that follows by itself, of a step's call.

        Raises:
            LedgerError: the ledger cannot say what became of a call that was sent; its row, if any, will.
        """
        new = self._parts.ids.new
        return await self._follow(
            Case(new("call_"), new("act_"), request.principal, request, within=within), self._path.fresh
        )

    async def resume(self, row: CallRow, principal: Principal, within: Within) -> StepEnd:
        """Go on with a queued call of ours: decided, to be sent again, or taken over. Raises what `start` raises."""
        case = Case(row.call_id, row.action_id, principal, within=within)
        case.record(row)
        self._parts.cases[case.call_id] = case
        return await self._follow(case, self._path.resume)

    def give_up(self, run_id: str, *, reads: bool = False) -> None:
        """Have everything of a run that was not sent yet come back, and with `reads` stop its reads."""
        for case in self._cases.get(run_id, ()):
            if reads and case.reading and case.running is not None:
                case.running.stop_read()
            elif case.row is None or case.row.state == CallState.QUEUED:
                case.gone = True
                case.nudge()

    async def output(self, row: CallRow) -> JsonValue | NoOutput:
        """The whole output of a settled call, however much of it a caller is shown."""
        if row.code is not None or row.outcome not in DELIVERS:
            return NO_OUTPUT
        if row.output_payload is None:
            return None
        value: JsonValue = json.loads(await self._parts.ledger.open_payload(row.output_payload))
        return value

    async def _follow(self, case: Case, work: Callable[[Case], Awaitable[CallView]]) -> StepEnd:
        assert case.within is not None, "a step has its place in a run"
        cases = self._cases.setdefault(case.within.run_id, set())
        cases.add(case)
        try:
            return await self._walk(case, work)
        except LedgerError as error:
            if not case.unsent:
                raise
            return self._later(unreadable(error).reason)
        except Exception as error:
            if not case.unsent:
                raise
            log_fault("a step ended", error)
            return await self._refused(case, broken().reason)
        finally:
            self._parts.cases.pop(case.call_id, None)
            cases.discard(case)
            if not cases:
                self._cases.pop(case.within.run_id, None)

    async def _walk(self, case: Case, work: Callable[[Case], Awaitable[CallView]]) -> StepEnd:
        try:
            self._note(case, await work(case))
            return await self._ended(case)
        except RefusedError as error:
            return await self._refused(case, error.reason)
        except NotSentError as error:
            return _not_sent(case, error)
        except CallerGoneError:
            return RunSaysNo(GIVEN_UP)

    async def _ended(self, case: Case) -> StepEnd:
        row, result = case.row, case.result
        assert row is not None, "the path ends a step's call with its row, or raises"
        if row.state == CallState.QUEUED:
            return RunSaysNo(GIVEN_UP)
        stored = result.settlement.output if result is not None else None
        if result is not None and stored is not None and stored.payload_id == row.output_payload and row.code is None:
            return Ended(row, result.output)
        return Ended(row, await self.output(row) if row.state == CallState.SETTLED else NO_OUTPUT)

    async def _refused(self, case: Case, reason: Reason) -> StepEnd:
        if is_for_later(reason):
            return self._later(reason)
        if case.row is None:
            return Refused(reason)
        await self._path.refuse_row(case, reason)
        return await self._ended(case)

    def _later(self, reason: Reason) -> NotNow:
        wait_s, until = reason.details.get("retry_after_s"), reason.details.get("resets_at")
        if isinstance(wait_s, int | float):
            return NotNow(reason, self._parts.clock.now() + micros(wait_s))
        return NotNow(reason, _microseconds(until) if isinstance(until, str) else None)


def _not_sent(case: Case, error: NotSentError) -> StepEnd:
    match error:
        case HeldUpError(found=found):
            return HeldUp(found.row, found.resource)
        case RunSaysNoError(why=why):
            return RunSaysNo(why)
        case MovedOnError(row=CallRow() as row) if not case.gone:
            return Ended(row)
        case _:
            return RunSaysNo(GIVEN_UP)


def _microseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)
