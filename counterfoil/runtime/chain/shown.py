"""How each step of a run stands, in declared order, from its plan and its rows. Pure.

A step's own call says how it stands; a `for_each` is what its items come to; what neither says is in a note, or it
waits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...ledger.forking import taken_over
from ...ledger.run_rows import WHOLE
from ...registry.vocabulary import ErrorCode, OutcomeClass
from ..plan.model import Needs
from ..views import ErrorView, error_of
from .folding import fold_items, state_of
from .states import ENDED, StepState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...ledger.rows import CallRow
    from ...ledger.run_reading import Snapshot
    from ...ledger.run_rows import StepRow
    from ...registry.vocabulary import JsonObject, JsonValue
    from ..plan.model import Plan, Step

_NO_OUTCOME = frozenset({"queued", "dispatched"})


@dataclass(frozen=True, slots=True)
class ItemShown:
    """One item of a `for_each`."""

    n: int
    state: StepState
    row: CallRow | None = None
    note: StepRow | None = None

    @property
    def outcome(self) -> str | None:
        """Its outcome, once it has one."""
        return _outcome(self.row, self.note)

    @property
    def error(self) -> ErrorView | None:
        """Why it failed."""
        return _error(self.row, self.note)

    def wire(self) -> JsonObject:
        """As the view has it."""
        call_id = None if self.row is None else self.row.call_id
        return {"n": self.n, "state": self.state.value, "outcome": self.outcome, "call_id": call_id}


@dataclass(frozen=True, slots=True)
class StepShown:
    """One step; `items` of a `for_each`, None for another step and while their number is not known."""

    step: Step
    state: StepState
    outcome: str | None
    reason: str | None
    error: ErrorView | None
    row: CallRow | None = None
    items: tuple[ItemShown, ...] | None = None
    run_id: str | None = None
    """The run that it is a step of: calls of another one were taken over."""

    @property
    def rows(self) -> list[CallRow]:
        """Its calls, in the order of its items."""
        if self.items is not None:
            return [item.row for item in self.items if item.row is not None]
        return [] if self.row is None else [self.row]

    def wire(self) -> JsonObject:
        """As the view has it."""
        calls: JsonObject = {"call_id": None if self.row is None else self.row.call_id}
        if self.step.for_each is not None:
            items: JsonValue = None if self.items is None else [item.wire() for item in self.items]
            calls = {"items": items}
        return {
            "id": self.step.id,
            "tool": self.step.tool,
            "state": self.state.value,
            "outcome": self.outcome,
            **calls,
            "attempts": sum(row.attempts for row in self.rows if row.run_id == self.run_id),
            "reason": self.reason or self._origin,
            "error": None if self.error is None else self.error.wire(),
        }

    @property
    def _origin(self) -> str | None:
        """Where its outcome comes from, if not from this run."""
        foreign = [row for row in self.rows if row.run_id != self.run_id]
        if not foreign:
            return None
        runs = ", ".join(sorted({row.run_id for row in foreign}))
        some = "" if self.items is None or len(foreign) == len(self.items) else f"{len(foreign)} of its items "
        return f"{some}reused from {runs}"


def show_steps(plan: Plan, found: Snapshot) -> list[StepShown]:
    """All steps of a run, in declared order."""
    own = {(row.step or "", WHOLE if row.item is None else row.item): row for row in found.calls}
    rows = taken_over(found.steps, found.reused) | own
    notes = {(note.step, note.item): note for note in found.steps}
    asked_for = {approval.call_id: approval.reason for approval in found.pending}
    told = [_show(step, rows, notes, asked_for) for step in plan.steps]
    states = [StepState.WAITING if one is None else one.state for one in told]
    shown = [
        one or StepShown(step, _unstarted(step, plan.edges[step.index], states), None, None, None)
        for step, one in zip(plan.steps, told, strict=True)
    ]
    return [replace(one, run_id=found.run.run_id) for one in shown]


def _show(
    step: Step,
    rows: Mapping[tuple[str, int], CallRow],
    notes: Mapping[tuple[str, int], StepRow],
    asked_for: Mapping[str, str],
) -> StepShown | None:
    """A step that its rows say something of."""
    row, note = rows.get((step.id, WHOLE)), notes.get((step.id, WHOLE))
    if row is not None:
        return StepShown(step, state_of(row), _outcome(row, None), _reason(row, asked_for), error_of(row), row)
    if note is None or note.state == StepState.WAITING:  # that is of what a fork may take over, and says nothing yet
        return None
    if note.items:
        return _show_items(step, [_item(step.id, n, rows, notes) for n in range(note.items)])
    items: tuple[ItemShown, ...] | None = () if note.items == 0 else None
    reason = note.reason or (note.message if note.code is None else None)
    return StepShown(step, StepState(note.state), note.outcome, reason, _error(None, note), None, items)


def _item(
    step: str, n: int, rows: Mapping[tuple[str, int], CallRow], notes: Mapping[tuple[str, int], StepRow]
) -> ItemShown:
    row, note = rows.get((step, n)), notes.get((step, n))
    if row is not None:
        return ItemShown(n, state_of(row), row)
    return ItemShown(n, StepState.WAITING if note is None else StepState(note.state), None, note)


def _show_items(step: Step, items: Sequence[ItemShown]) -> StepShown:
    state = fold_items([item.state for item in items])
    if state is StepState.SUCCEEDED:
        return StepShown(step, state, OutcomeClass.SUCCESS.value, None, None, None, tuple(items))
    bad = [item for item in items if item.state in ENDED and item.state is not StepState.SUCCEEDED]
    first = next((item for item in [*bad, *items] if item.error is not None), None)
    error = None
    if first is not None and first.error is not None and state in {*ENDED, StepState.AWAITING_RECONCILIATION}:
        told = first.error
        error = ErrorView(
            told.code, f"Item {first.n}: {told.message}", told.retryable, {**told.details, "item": first.n}
        )
    reason = f"{len(bad)} of {len(items)} items did not succeed." if bad else None
    outcome = first.outcome if first is not None and state in ENDED else None
    return StepShown(step, state, outcome, reason, error, None, tuple(items))


def _unstarted(step: Step, edges: Sequence[int], states: Sequence[StepState]) -> StepState:
    """`ready` once all that it depends on has ended as it needs it, else `waiting`."""
    for dependency in edges:
        state = states[dependency]
        if state not in ENDED or (step.needs is Needs.SUCCESS and state is not StepState.SUCCEEDED):
            return StepState.WAITING
    return StepState.READY


def _outcome(row: CallRow | None, note: StepRow | None) -> str | None:
    if row is not None:
        return None if row.state in _NO_OUTCOME else row.outcome
    return None if note is None else note.outcome


def _error(row: CallRow | None, note: StepRow | None) -> ErrorView | None:
    if row is not None:
        return error_of(row)
    if note is None or note.code is None:
        return None
    details: JsonObject = json.loads(note.details) if note.details else {}
    return ErrorView(ErrorCode(note.code), note.message or "", details=details)


def _reason(row: CallRow, asked_for: Mapping[str, str]) -> str | None:
    if row.outcome == OutcomeClass.PARTIAL.value:
        return f"Only a part was done: {row.message or 'its tool did not say which'}"
    return asked_for.get(row.call_id)
