"""What a caller sees of the undoing of a run: `compensations`, an entry for each effect, with what can be done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ...ledger.run_rows import WHOLE
from ...ledger.undoing import MOST_ATTEMPTS, may_be_sent_again
from ..plan.model import OnPlanFailure
from ..views import error_of
from .effects import Effect, UndoState, effects_to_undo, in_question, is_complete
from .states import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...ledger.rows import CallRow
    from ...ledger.run_reading import Snapshot
    from ...registry.vocabulary import JsonObject, JsonValue
    from ..plan.model import Plan

NOT_BEGUN: Final = "Its undo was never begun; reconcile on the run makes it now."


def compensation_of(plan: Plan, found: Snapshot) -> str:
    """`compensation`: as it is stored; what was not undone and is by now is not called incomplete any more."""
    stored = found.run.compensation
    if stored != "incomplete" or found.run.verdict is None:
        return stored
    unresolved = bool(in_question(found.calls))
    effects = effects_to_undo(plan, found.calls, found.undos, found.undo_notes)
    return "complete" if is_complete(effects, unresolved=unresolved) else stored


def compensations_of(plan: Plan, found: Snapshot) -> Iterable[JsonObject]:
    """`compensations` of a run whose effects are undone, in the order of their undoing."""
    run = found.run
    failed = run.status in {RunStatus.FAILED.value, RunStatus.BUDGET_EXHAUSTED.value}
    if plan.on_failure is not OnPlanFailure.COMPENSATE or (run.verdict is None and not failed):
        return
    for effect in effects_to_undo(plan, found.calls, found.undos, found.undo_notes):
        yield _shown(effect, ended=run.finished_at is not None, cancelled=run.cancel_requested_at is not None)


def retries_of(plan: Plan, found: Snapshot) -> bool:
    """True if `reconcile` on the run would try again to undo something that is known not to be undone."""
    if found.run.cancel_requested_at is not None:
        return False
    noted = any(note.state == UndoState.NOT_UNDONE for note in found.undo_notes)
    effects = effects_to_undo(plan, found.calls, found.undos, found.undo_notes)
    begun = all(effect.state is not UndoState.WAITING for effect in effects)
    return noted or not begun or any(may_be_sent_again(undo) for undo in found.undos)


def _shown(effect: Effect, *, ended: bool, cancelled: bool) -> JsonObject:
    undo, note = effect.undo, effect.note
    item = effect.row.item
    error = None if undo is None else error_of(undo)
    state = UndoState.NOT_UNDONE if ended and effect.state is UndoState.WAITING else effect.state
    return {
        "step": effect.row.step,
        "item": None if item == WHOLE else item,
        "call_id": effect.row.call_id,
        "state": state.value,
        "reason": NOT_BEGUN if ended and effect.state is UndoState.WAITING else _reason(effect, cancelled=cancelled),
        "tool": undo.tool if undo is not None else None if note is None else note.tool,
        "undo_call_id": None if undo is None else undo.call_id,
        "arguments": None if undo is None else json.loads(undo.args_shown),
        "attempts": 0 if undo is None else undo.attempts,
        "error": error.wire() if error is not None else _noted_error(effect),
    }


def _reason(effect: Effect, *, cancelled: bool) -> JsonValue:
    undo = effect.undo
    if effect.note is not None:
        return effect.note.message
    if undo is None:
        return None if effect.state is not UndoState.KEPT else "Its plan states `compensate: none`."
    if effect.state is UndoState.AWAITING_RECONCILIATION:
        return "Whether it is undone, nobody knows; see unresolved."
    return _why_not_undone(undo, cancelled=cancelled) if effect.state is UndoState.NOT_UNDONE else None


def _why_not_undone(undo: CallRow, *, cancelled: bool) -> str:
    if undo.outcome == "partial":
        return "Its undo says that it undid a part of it, and is not sent again; a person must undo the rest by hand."
    if not may_be_sent_again(undo):
        return f"Its undo failed {undo.attempts} times and is not tried again; a person must undo it by hand."
    if cancelled:
        return "Its undo had no effect, and is not tried again since the run was cancelled; undo it by hand."
    return f"Its undo had no effect; reconcile on the run tries it again ({undo.attempts} of {MOST_ATTEMPTS})."


def _noted_error(effect: Effect) -> JsonObject | None:
    note = effect.note
    if note is None or note.code is None:
        return None
    details: JsonObject = json.loads(note.details) if note.details else {}
    return {"code": note.code, "message": note.message, "retryable": False, "details": details}
