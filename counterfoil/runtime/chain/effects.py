"""What has become of the effects of a failed run: each with the undo that was made for it. Pure: from rows to states.

An effect is undone only where its undo says so, and kept only where its plan says so. The order is the one in which
they are undone: what was completed last comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ...ledger.run_rows import WHOLE
from ...ledger.states import ENDED, CallState
from ...ledger.undoing import is_in_doubt
from .folding import has_effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...ledger.rows import CallRow
    from ...ledger.undoing import UndoNote
    from ..plan.model import Plan, Step


class UndoState(StrEnum):
    """What has become of an effect."""

    WAITING = "waiting"  # for the undoing of what came after it
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    AWAITING_RECONCILIATION = "awaiting_reconciliation"  # whether it is undone, nobody knows
    AWAITING_EXTERNAL = "awaiting_external"
    UNDONE = "undone"
    NOT_UNDONE = "not_undone"
    KEPT = "kept"


UNDECIDED: Final = frozenset({UndoState.WAITING, UndoState.AWAITING_APPROVAL, UndoState.RUNNING})
"""What something is still to be done about; anything else waits for a person or is at its end."""
_OPEN: Final = {
    CallState.AWAITING_APPROVAL: UndoState.AWAITING_APPROVAL,
    CallState.QUEUED: UndoState.RUNNING,
    CallState.DISPATCHED: UndoState.RUNNING,
    CallState.AWAITING_RECONCILIATION: UndoState.AWAITING_RECONCILIATION,
    CallState.AWAITING_EXTERNAL: UndoState.AWAITING_EXTERNAL,
}


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a run: the call that had it, its step, and what was made or noted to undo it."""

    row: CallRow
    step: Step
    undo: CallRow | None = None
    note: UndoNote | None = None

    @property
    def state(self) -> UndoState:
        """What has become of it."""
        if self.note is not None:
            return UndoState(self.note.state)
        if self.undo is None:
            return UndoState.KEPT if self.step.compensate == "none" else UndoState.WAITING
        return undo_state(self.undo)


def undo_state(undo: CallRow) -> UndoState:
    """What an undo has made of the effect that it is about."""
    state = CallState(undo.state)
    if state in _OPEN:
        return _OPEN[state]
    if state is CallState.SETTLED and undo.outcome in {"success", "no_result"}:
        return UndoState.UNDONE
    return UndoState.AWAITING_RECONCILIATION if is_in_doubt(undo) else UndoState.NOT_UNDONE


def effects_to_undo(
    plan: Plan, rows: Iterable[CallRow], undos: Iterable[CallRow], notes: Iterable[UndoNote]
) -> list[Effect]:
    """Every effect of a run that stands or was undone, in the order of their undoing."""
    steps = {step.id: step for step in plan.steps}
    by_call = {undo.parent_call_id: undo for undo in undos}
    noted = {(note.step, note.item): note for note in notes}
    found = [
        Effect(row, steps[row.step or ""], by_call.get(row.call_id), noted.get(place_of(row)))
        for row in rows
        if has_effect(row) or row.call_id in by_call
    ]
    return sorted(found, key=lambda effect: completed(effect.row), reverse=True)


def completed(row: CallRow) -> tuple[int, int, int]:
    """When a call was done, for putting several in order."""
    return (row.settled_at or 0, row.dispatched_at or 0, row.seq)


def place_of(row: CallRow) -> tuple[str, int]:
    """The step and item of a call."""
    return (row.step or "", WHOLE if row.item is None else row.item)


def in_question(rows: Iterable[CallRow]) -> list[CallRow]:
    """The calls of which it is not known for good what they did: open ones, and failures that do not say."""
    return [row for row in rows if row.state not in ENDED or is_in_doubt(row)]


def is_complete(effects: Sequence[Effect], *, unresolved: bool) -> bool:
    """True if every effect is undone or explicitly kept, and none is in doubt."""
    return not unresolved and all(effect.state in {UndoState.UNDONE, UndoState.KEPT} for effect in effects)
