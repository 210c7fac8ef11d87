"""A claimed run, read from the ledger: its plan, its calls, and the board that its driver goes on with.

Living through a run and loading it give the same board; what is stored decides, never the memory of a process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ledger.forking import reused_calls, taken_over
from ...ledger.run_rows import WHOLE
from ...ledger.runs import calls_of, steps_of
from ...ledger.undoing import is_in_doubt
from .board import CANCEL, OVERDUE, SPENT, Board, Items, Place
from .folding import fold_items, has_effect, is_over_its_budget, state_of
from .outputs import Outputs
from .reusing import Reusable, reusable
from .scheduler import End
from .states import ENDED, StepState

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ...ledger.run_rows import RunRow, StepRow
    from ...registry.vocabulary import JsonObject
    from ..parts import Parts
    from ..plan.model import Plan, Step
    from .board import Halt
    from .outputs import Read
    from .plans import Plans


@dataclass(frozen=True, slots=True)
class Planned:
    """What a run is to do, which never changes."""

    plan: Plan
    given_input: JsonObject


@dataclass(frozen=True, slots=True)
class Stored:
    """What the ledger has of a run, beside its row."""

    plan: Plan
    given_input: JsonObject
    calls: list[CallRow]
    steps: list[StepRow]
    reused: Mapping[str, CallRow] = field(default_factory=dict[str, "CallRow"])
    """Earlier calls that a fork has taken over, or may, by their ids."""


class PlanMissingError(Exception):
    """A run whose plan is not in the ledger: it cannot be driven."""


async def load_plan(parts: Parts, plans: Plans, run: RunRow) -> Planned:
    """The plan and the effective input of a run.

    Raises:
        PlanMissingError, LedgerError: they cannot be read.
    """
    found = await plans.find(run.plan_id)
    if found is None:
        raise PlanMissingError(f"{run.run_id} names {run.plan_id}, which is not in this ledger")
    return Planned(found.plan, json.loads(await parts.ledger.open_payload(run.input_payload)))


async def load_calls(parts: Parts, run: RunRow, planned: Planned) -> Stored:
    """What was recorded of its steps so far. Asked in the writer's thread, after everything that was recorded."""
    calls = await parts.ledger.record(lambda: calls_of(run.run_id))
    steps = await parts.ledger.record(lambda: steps_of(run.run_id))
    reused = await parts.ledger.record(lambda: reused_calls(run.run_id, steps))
    return Stored(planned.plan, planned.given_input, calls, steps, reused)


def read_steps(parts: Parts, plan: Plan) -> frozenset[int]:
    """The steps that only read, as far as their tools are here and are what the plan has pinned."""
    found: set[int] = set()
    for step in plan.steps:
        entry = parts.catalogue.get(step.tool, step.version)
        if entry is not None and entry.contract.is_read and entry.contract.schema_digest == step.schema_digest:
            found.add(step.index)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class TakenUp:
    """The board of a stored run.

    `open_calls` are its calls that have not ended, `expanding` the `for_each` steps of which some items have not begun.
    `last_end` is when the last of its ends came, in microseconds; `halt` is why a driver before this one started
    nothing more, as far as its places say it; `reusable` is what a fork may still take over.
    """

    board: Board
    outputs: Outputs
    open_calls: list[tuple[Place, CallRow]]
    expanding: list[int]
    last_end: int
    halt: Halt | None
    reusable: Reusable


def board_of(
    run: RunRow, stored: Stored, reads: frozenset[int], read: Read, tell: Callable[[int, Step, StepState], None]
) -> TakenUp:
    """The board as whoever drove this run last had it."""
    plan = stored.plan
    outputs = Outputs(plan, read)
    board = Board(run, plan, reads, outputs, tell)
    index = {step.id: step.index for step in plan.steps}
    own = {Place(index[row.step], _item(row)): row for row in stored.calls if row.step in index}
    notes = {Place(index[note.step], note.item): note for note in stored.steps if note.step in index}
    earlier = {Place(index[step], item): row for (step, item), row in taken_over(stored.steps, stored.reused).items()}
    rows = earlier | own
    _take_items(board, rows, notes)
    ends = sorted(_ends(plan, board, rows, notes), key=lambda found: found[0])
    begun = {place.step for place in rows} | set(board.items)
    for _, end in ends:
        note, items = notes.get(Place(end.step)), board.items.pop(end.step, None)
        empty = note is not None and note.items == 0
        outputs.ended(end.step, _rows_of(end, items, rows, empty=empty), whole=items is not None or empty)
        board.codes[board.step_id(end.step)] = _code(end.step, items, rows, notes)
    board.effects = any(has_effect(row) for row in own.values())
    board.doubtful = [row.call_id for row in own.values() if is_in_doubt(row)]
    ended = {end.step for _, end in ends}
    board.begin(begun, [_caused(end, notes, index) for _, end in ends])
    open_calls = [(place, row) for place, row in rows.items() if place.step not in ended and state_of(row) not in ENDED]
    expanding = [step for step, items in board.items.items() if items.unstarted]
    last_end = max((found[0][0] for found in ends), default=0)
    halt = _halt(run, own.values(), [note for place, note in notes.items() if place not in earlier])
    again = reusable({place: note for place, note in notes.items() if place not in own}, stored.reused)
    return TakenUp(board, outputs, open_calls, expanding, last_end, halt, again)


def _halt(run: RunRow, rows: Collection[CallRow], notes: Collection[StepRow]) -> Halt | None:
    """A run is cancelled if anything of it ended after that was asked, whatever it ended as."""
    last = max([row.settled_at or 0 for row in rows] + [note.at for note in notes], default=0)
    if run.cancel_requested_at is not None and run.cancel_requested_at <= last:
        return CANCEL
    said = {note.message for note in notes} | {row.cancel_reason for row in rows}
    told = [(row.code, row.details) for row in rows] + [(note.code, note.details) for note in notes]
    if SPENT.message in said or any(is_over_its_budget(code, details) for code, details in told):
        return SPENT
    return OVERDUE if OVERDUE.message in said else None


def _item(row: CallRow) -> int:
    return WHOLE if row.item is None else row.item


def _take_items(board: Board, rows: dict[Place, CallRow], notes: dict[Place, StepRow]) -> None:
    for place, note in notes.items():
        if place.item == WHOLE and note.items:
            board.items[place.step] = Items.of(note.items)
    for place, note in notes.items():
        if place.item != WHOLE and place.step in board.items:
            board.items[place.step].put(place.item, StepState(note.state), None, note.code)
    for place, row in rows.items():
        if place.item != WHOLE and place.step in board.items:
            board.items[place.step].put(place.item, state_of(row), row, row.code)


def _ends(
    plan: Plan, board: Board, rows: dict[Place, CallRow], notes: dict[Place, StepRow]
) -> Iterable[tuple[tuple[int, int], End]]:
    """Every step that has ended, with when: by its call, by its items, or by what was noted."""
    latest: dict[int, tuple[int, int]] = {}
    for place, row in rows.items():
        latest[place.step] = max(latest.get(place.step, (0, 0)), (row.settled_at or row.created_at, row.seq))
    for place, note in notes.items():
        latest[place.step] = max(latest.get(place.step, (0, 0)), (note.at, 0))
    for step in plan.steps:
        state = _state(step.index, board, rows, notes)
        if state in ENDED:
            yield latest[step.index], End(step.index, state)


def _state(step: int, board: Board, rows: dict[Place, CallRow], notes: dict[Place, StepRow]) -> StepState:
    if step in board.items:
        return fold_items(board.items[step].states)
    if Place(step) in rows:
        return state_of(rows[Place(step)])
    note = notes.get(Place(step))
    return StepState.WAITING if note is None else StepState(note.state)


def _caused(end: End, notes: dict[Place, StepRow], index: dict[str, int]) -> End:
    note = notes.get(Place(end.step))
    if end.state is not StepState.NOT_RUN or note is None or note.reason is None:
        return end
    return End(end.step, end.state, index.get(note.reason))


def _rows_of(end: End, items: Items | None, rows: dict[Place, CallRow], *, empty: bool) -> Sequence[CallRow] | None:
    if items is not None:
        return items.outputs
    row = rows.get(Place(end.step))
    return [row] if row is not None else [] if empty else None


def _code(step: int, items: Items | None, rows: dict[Place, CallRow], notes: dict[Place, StepRow]) -> str | None:
    if items is not None:
        return items.code
    row, note = rows.get(Place(step)), notes.get(Place(step))
    return row.code if row is not None else note.code if note is not None else None
