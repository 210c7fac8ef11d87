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
        yield _shown(effect, ended=run.finished_at is not None)


def _shown(effect: Effect, *, ended: bool) -> JsonObject:
    undo, note = effect.undo, effect.note
    item = effect.row.item
    error = None if undo is None else error_of(undo)
    state = UndoState.NOT_UNDONE if ended and effect.state is UndoState.WAITING else effect.state
    return {
        "step": effect.row.step,
        "item": None if item == WHOLE else item,
        "call_id": effect.row.call_id,
        "state": state.value,
        "reason": NOT_BEGUN if ended and effect.state is UndoState.WAITING else _reason(effect),
        "tool": undo.tool if undo is not None else None if note is None else note.tool,
        "undo_call_id": None if undo is None else undo.call_id,
        "arguments": None if undo is None else json.loads(undo.args_shown),
        "attempts": 0 if undo is None else undo.attempts,
        "error": error.wire() if error is not None else _noted_error(effect),
    }


def _reason(effect: Effect) -> JsonValue:
    undo = effect.undo
    if effect.note is not None:
        return effect.note.message
    if undo is None:
        return None if effect.state is not UndoState.KEPT else "Its plan states `compensate: none`."
    match effect.state:
        case UndoState.NOT_UNDONE if may_be_sent_again(undo):
            return f"Its undo had no effect; reconcile on the run tries it again ({undo.attempts} of {MOST_ATTEMPTS})."
        case UndoState.NOT_UNDONE:
            return f"Its undo failed {undo.attempts} times and is not tried again; a person must undo it by hand."
        case UndoState.AWAITING_RECONCILIATION:
            return "Whether it is undone, nobody knows; see unresolved."
        case _:
            return None


def _noted_error(effect: Effect) -> JsonObject | None:
    note = effect.note
    if note is None or note.code is None:
        return None
    details: JsonObject = json.loads(note.details) if note.details else {}
    return {"code": note.code, "message": note.message, "retryable": False, "details": details}
