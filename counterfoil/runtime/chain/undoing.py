"""One wake of a run whose effects are undone: what is not known is settled first, then one undo after another is made.

What to do next follows from the rows alone, so that living through it and taking it up again are the same. Nothing is
called undone here: that is what an undo's own call says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ...ledger.approving import withdraw
from ...ledger.run_calls import claim_step, rows_of
from ...ledger.run_rows import post
from ...ledger.runs import Finished, Parked, Reopened, Woken, calls_of, claim_run, finish, park, release_run
from ...ledger.states import CallState
from ...ledger.undoing import (
    UndoNote,
    doubt,
    goes_on_from,
    is_in_doubt,
    mark_incomplete,
    note_undo,
    undo_calls,
    undo_notes,
)
from ...registry.vocabulary import ErrorCode
from ..stepping import Ended, HeldUp, NotNow, Refused, RunSaysNo
from .doubts import Doubts
from .driver import Over
from .effects import UNDECIDED, Effect, UndoState, effects_to_undo, in_question, is_complete, place_of
from .folding import state_of, waits_for
from .rest import due_of, held_back, why_later
from .states import RunStatus
from .undos import NoUndo
from .views import STRICT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ledger.rows import CallRow
    from ...ledger.run_rows import RunRow
    from ..plan.model import Plan
    from ..stepping import StepEnd
    from .steps import Steps, Tools
    from .undos import Undos

LOOK_S: Final = 1.0
"""How often a call that another process has under way is looked at, in seconds."""
NOT_AGAIN: Final = "The run has failed, and what it did is undone: it is not sent (again)."
NO_FURTHER: Final = "The run was cancelled before it was undone."


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger has of the run, as of one look."""

    run: RunRow
    rows: list[CallRow]
    undos: list[CallRow]
    notes: list[UndoNote]

    @property
    def ended_before(self) -> bool:
        """True for a run that had its end already: what became doubtful since is told, and keeps nothing open."""
        return "ended_at" in self.verdict

    @property
    def verdict(self) -> dict[str, Any]:
        """How the run ends, with what was asked of it since."""
        found: dict[str, Any] = json.loads(self.run.verdict or "{}")
        return found

    def may_begin(self, effect: Effect) -> bool:
        """True unless its undo was never begun, and nobody has asked for that since the run had its end."""
        return effect.undo is not None or not self.ended_before or bool(self.verdict.get("asked"))


class UndoDrive:
    """One run whose effects are undone, driven. `owner_id` is who claimed it."""

    waits_elsewhere = False

    def __init__(
        self, tools: Tools, run: RunRow, plan: Plan, steps: Steps, undos: Undos, changed: Callable[[str], None]
    ) -> None:
        self.run = run
        self._plan = plan
        self._tools = tools
        self._ledger = tools.parts.ledger
        self._clock = tools.parts.clock
        self._steps = steps
        self._undos = undos
        self._changed = changed
        self._owner_id = run.owner_id or ""
        self._doubts = Doubts(tools, plan, steps, self._owner_id)
        self._stirred = asyncio.Event()
        self._look = False
        self._releasing = False

    def nudge(self) -> None:
        """Something about the run or one of its calls may have changed."""
        self._look = True
        self._stirred.set()

    @property
    def is_nudged(self) -> bool:
        """True if that was said and not looked at yet."""
        return self._look

    def release(self) -> None:
        """Leave the run to others; an undo that was sent is followed to its end."""
        self._releasing = True
        self._tools.stepper.give_up(self.run.run_id)
        self._stirred.set()

    async def landed(self) -> None:
        """Nothing of it is under way outside `drive`."""

    async def drive(self) -> Over:
        """Advance until the run has ended or waits.

        Raises:
            LedgerError: it cannot be driven now.
        """
        over = None
        while over is None:
            if self._releasing:
                return await self._leave()
            known = await self._known()
            if known is None:
                return Over.LOST
            over = await self._advance(known)
            self._changed(self.run.run_id)
        return over

    async def _known(self) -> Known | None:
        """Everything as it is now, with the wakes up to now taken; None if another one drives it."""
        self._look = False
        at, run_id, owner_id = self._clock.now(), self.run.run_id, self._owner_id
        claimed = await self._ledger.record(lambda: claim_run(run_id, owner_id, at))
        if claimed is None or claimed.lost_owner is not None:
            return None
        self.run = claimed.run
        self._steps.principal = replace(self._steps.principal, scopes=frozenset(json.loads(self.run.scopes)))
        record = self._ledger.record
        rows, undos = await record(lambda: calls_of(run_id)), await record(lambda: undo_calls(run_id))
        return Known(self.run, rows, undos, await record(lambda: undo_notes(run_id)))

    async def _advance(self, known: Known) -> Over | None:
        """The one next thing; None to look again after it."""
        if (stranded := await self._doubts.stranded(known.undos)) is not None:
            await self._doubts.ask(stranded, compensating=False)
            return None
        unknown = in_question(known.rows)
        doubtful = [row.call_id for row in unknown if is_in_doubt(row)]
        if doubtful and (not known.ended_before or known.verdict.get("asked")):
            at = self._clock.now()
            await self._ledger.record(lambda: doubt(doubtful, at))
            return None
        if unknown and not known.ended_before:
            return await self._settle(unknown)
        effects = effects_to_undo(self._plan, known.rows, known.undos, known.notes)
        if (news := next((effect for effect in effects if self._is_news(known, effect)), None)) is not None:
            await self._put_down(news)
            return None
        return await self._next(known, effects, unresolved=bool(unknown))

    async def _next(self, known: Known, effects: Sequence[Effect], *, unresolved: bool) -> Over | None:
        stopped = self._plan.compensation == "strict" and any(_failed(effect) for effect in effects)
        if stopped and known.run.cancel_requested_at is None and not known.ended_before:
            return await self._rest(Parked(RunStatus.AWAITING_RECONCILIATION.value, STRICT, pauses=True))
        todo = next((effect for effect in effects if effect.state in UNDECIDED and known.may_begin(effect)), None)
        waits = any(effect.state is UndoState.AWAITING_EXTERNAL for effect in effects)
        if todo is None and not waits:
            complete = is_complete(effects, unresolved=unresolved)
            done = "complete" if effects else "none"  # what was doubted turned out not to have happened
            return await self._finish(done if complete else "incomplete")
        if todo is not None and known.run.cancel_requested_at is not None:
            return await self._withdraw(todo)
        if todo is None or waits:  # what was completed before is undone after that
            return await self._rest(Parked(RunStatus.AWAITING_EXTERNAL.value))
        return await self._undo(todo, known)

    async def _settle(self, unknown: Sequence[CallRow]) -> Over | None:
        """What the run's own calls did must be known before anything is undone."""
        if (unwanted := next((row for row in unknown if self._is_unwanted(row)), None)) is not None:
            await self._take_back(unwanted)
            return None
        may_send = self.run.cancel_requested_at is None and self._held_back() is None
        if await self._doubts.follow(unknown, may_send=may_send):
            return None
        if any(row.state == CallState.DISPATCHED for row in unknown):
            await self._pause()
            return None
        status = waits_for(state_of(row) for row in unknown) or RunStatus.QUEUED
        reason, kept_back = self._held_back(), self._doubts.kept_back
        if reason is None and kept_back is not None:
            reason = why_later(kept_back)
        due = await self._doubts.due(unknown, may_send=may_send, wakes=self.run.wakes)
        people = due is None and status is not RunStatus.AWAITING_EXTERNAL
        said = reason if status is RunStatus.QUEUED else None
        return await self._rest(Parked(status.value, said, due_at=due, pauses=people))

    def _is_unwanted(self, row: CallRow) -> bool:
        """True for what is not to be sent any more: known to have had no effect so far, or of a cancelled run."""
        if row.state not in {CallState.QUEUED, CallState.AWAITING_APPROVAL}:
            return False
        return row.sent == "no" or self.run.cancel_requested_at is not None

    async def _take_back(self, row: CallRow) -> None:
        by, at = self.run.cancel_requested_by or self.run.subject, self._clock.now()
        await self._ledger.record(lambda: withdraw(row.call_id, by, NOT_AGAIN, at))

    def _held_back(self) -> str | None:
        """Why nothing may be sent for this run now: its subject's word, its authority, or that nobody knows it."""
        known = self._tools.parts.scopes_now(self._steps.principal) is not None
        return held_back(self.run, self._clock.now(), known=known)

    def _is_news(self, known: Known, effect: Effect) -> bool:
        """True for an effect whose fate is not put down yet as it should be."""
        if effect.state is UndoState.KEPT and effect.note is None:
            return True
        if effect.undo is not None and effect.note is None and is_in_doubt(effect.undo):
            return True
        return _failed(effect) and known.run.compensation == "running"

    async def _put_down(self, effect: Effect) -> None:
        at, run_id = self._clock.now(), self.run.run_id
        if effect.state is UndoState.KEPT:
            await self._note(effect, NoUndo("Its plan states `compensate: none`."), UndoState.KEPT)
        elif effect.undo is not None and is_in_doubt(effect.undo):
            undo_id = effect.undo.call_id
            await self._ledger.record(lambda: doubt([undo_id], at))
        else:
            because = effect.undo.call_id if effect.undo is not None else effect.row.call_id
            await self._ledger.record(lambda: mark_incomplete(run_id, {"because": because}, at))

    async def _undo(self, effect: Effect, known: Known) -> Over | None:
        undo = effect.undo
        if undo is not None and undo.state == CallState.AWAITING_APPROVAL:
            return await self._rest(Parked("awaiting_approval", pauses=True))
        if undo is not None and undo.state == CallState.DISPATCHED:
            await self._recover(undo)
            return None
        if (why := self._held_back()) is not None:
            return await self._rest(Parked("queued", why, pauses=True))
        if undo is None or not undo.generation:
            call_id = effect.row.call_id
            if (other := await self._ledger.record(lambda: goes_on_from(call_id))) is not None:
                return await self._keep_for(other, effect)
        if undo is None:
            return await self._came(effect, await self._undos.start(effect, self._steps.principal, known.rows))
        return await self._came(effect, await self._resume(effect, undo))

    async def _keep_for(self, run_id: str, effect: Effect) -> Over | None:
        """Another run has gone on from this effect: undone under it, that run would say what is not so."""
        if effect.undo is not None:
            await self._take_back(effect.undo)
            return None
        why = f"{run_id} has gone on from it and relies on it: it is not undone under that run."
        return await self._note(effect, NoUndo(why, None, ErrorCode.DENIED.value))

    async def _resume(self, effect: Effect, undo: CallRow) -> StepEnd | NoUndo:
        at = self._clock.now()
        if undo.owner_id != self._owner_id:
            mine = await self._ledger.record(lambda: claim_step(undo.call_id, self._owner_id, at))
            if mine is None:
                return RunSaysNo("given_up")
            undo = mine
        return await self._undos.resume(effect, undo, self._steps.principal)

    async def _recover(self, undo: CallRow) -> None:
        """An undo that is under way elsewhere is waited for; where its process is gone its order is followed once."""
        if not await self._doubts.take(undo):
            await self._pause()
            return
        for row in await self._ledger.record(lambda: undo_calls(self.run.run_id)):
            if row.call_id == undo.call_id:
                await self._doubts.ask(row, compensating=False)

    async def _came(self, effect: Effect, result: StepEnd | NoUndo) -> Over | None:
        """What came of starting an undo, or going on with it."""
        match result:
            case Ended() | RunSaysNo():
                return None
            case NoUndo() as why:
                return await self._note(effect, why)
            case Refused(reason=reason):
                why = NoUndo(f"Its undo was refused: {reason.message}", None, reason.code.value)
                details = json.dumps(self._ledger.project(reason.details)) if reason.details else None
                return await self._note(effect, why, details=details)
            case HeldUp(row=row):
                other = None if row.run_id == self.run.run_id else row.call_id
                said = f"{row.tool} ({row.call_id}) must be settled first." if other is None else None
                parked = Parked("awaiting_reconciliation", None, said, waits_for=other, pauses=other is None)
                return await self._rest(parked)
            case NotNow(reason=reason, due_at=due_at):
                due = due_of(reason, due_at, self._clock.now(), self.run.wakes)
                return await self._rest(Parked("queued", why_later(reason), reason.message, due))

    async def _note(
        self, effect: Effect, why: NoUndo, state: UndoState = UndoState.NOT_UNDONE, *, details: str | None = None
    ) -> Over | None:
        step, item = place_of(effect.row)
        note = UndoNote(
            self.run.run_id, step, item, effect.row.call_id, state.value, why.message, self._clock.now(),
            why.tool or self._tool_of(effect), why.code, details,
        )  # fmt: skip
        noted = await self._ledger.record(lambda: note_undo(note, self._owner_id))
        return Over.LOST if noted is None else None

    def _tool_of(self, effect: Effect) -> str | None:
        contract = None if effect.state is UndoState.KEPT else self._undos.contract_of(effect.step)
        return None if contract is None else contract.name

    async def _withdraw(self, effect: Effect) -> Over | None:
        """The run was cancelled: what is not undone by now is not undone any more."""
        undo, at = effect.undo, self._clock.now()
        if undo is None:
            return await self._note(effect, NoUndo(NO_FURTHER, None, ErrorCode.CANCELLED.value))
        if undo.state == CallState.DISPATCHED:
            await self._recover(undo)
            return None
        by = self.run.cancel_requested_by or self.run.subject
        await self._ledger.record(lambda: withdraw(undo.call_id, by, NO_FURTHER, at))
        return None

    async def _pause(self) -> None:
        """A call is under way in another process, or was released here: look again soon, or when told to."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._stirred.wait()
        except TimeoutError:
            pass  # time to look
        self._stirred.clear()

    async def _rest(self, why: Parked) -> Over | None:
        at, run_id, owner_id = self._clock.now(), self.run.run_id, self._owner_id
        done = await self._ledger.record(lambda: park(run_id, owner_id, why, at))
        over = self._over(done, Over.PARKED)
        if over is Over.PARKED and (call_id := why.waits_for) is not None:
            found = await self._ledger.record(lambda: rows_of([call_id]))
            if call_id not in found or not found[call_id].is_unresolved:  # settled between the look and the parking
                await self._ledger.record(lambda: post(run_id, at))
        return over

    async def _finish(self, compensation: str) -> Over | None:
        at, run_id, owner_id = self._clock.now(), self.run.run_id, self._owner_id
        said: dict[str, Any] = json.loads(self.run.verdict or "{}")
        end = Finished(said["status"], said["reason"], said["code"], said["message"], compensation)
        done = await self._ledger.record(lambda: finish(run_id, owner_id, end, at))
        if isinstance(done, Reopened):
            await self._pause()  # a call is open that was not when this looked
        return self._over(done, Over.FINISHED)

    def _over(self, done: RunRow | Woken | Reopened | None, over: Over) -> Over | None:
        if done is None:
            return Over.LOST
        if isinstance(done, Woken | Reopened):
            return None
        self.run = done
        return over

    async def _leave(self) -> Over:
        at, run_id, owner_id = self._clock.now(), self.run.run_id, self._owner_id
        await self._ledger.record(lambda: release_run(run_id, owner_id, at))
        return Over.RELEASED


def _failed(effect: Effect) -> bool:
    """True for an effect that is known not to be undone, or of which nobody knows whether it is."""
    return effect.state in {UndoState.NOT_UNDONE, UndoState.AWAITING_RECONCILIATION}
