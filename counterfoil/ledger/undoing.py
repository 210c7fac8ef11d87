"""What happens to a run whose effects are undone: begun, noted, taken up again, and the calls that are doubted for it.

Its undos are calls of route `compensation`, in the run's own chain, at the step and item whose effect they undo. What
no such call says (an effect that is kept, or cannot be undone) is a row of `undos`. A run is in this phase from the
moment its `verdict` is set, which says how it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from ..canonical import JsonObject
from .admission import keep_key, take_leases
from .approvals import let_go
from .bookkeeping import RULE_OUT
from .events import EventType
from .evidence import DOUBTED, HAPPENED
from .rows import CallRow, get_call, move
from .run_rows import RunRow, get_run, post, touch_run
from .sql import Fact, Sql, change, fetch, one
from .states import ENDED, CallState, Move
from .tables import attempts, calls, steps, undos

COMPENSATION: Final = "compensation"
MOST_ATTEMPTS: Final = 5
"""How often one undo is sent at the most."""
_DONE: Final = frozenset({"success", "no_result"})
_FAILED: Final = frozenset({"permanent_failure", "retryable_failure", "invalid_request", "denied"})


class UndoNote(NamedTuple):
    """One row of `undos`: an effect that is kept, or that nothing undoes; `tool` is what was to undo it."""

    run_id: str
    step: str
    item: int
    call_id: str
    state: str
    message: str
    at: int
    tool: str | None = None
    code: str | None = None
    details: str | None = None


SELECT_UNDOS: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields])
    .where(calls.c.run_id == bindparam("run_id"), calls.c.step.is_not(None), calls.c.route == COMPENSATION)
    .order_by(calls.c.created_at, calls.c.call_id),
    CallRow,
)
SELECT_STEPS: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields]).where(
        calls.c.run_id == bindparam("run_id"), calls.c.step.is_not(None), calls.c.route == "step"
    ),
    CallRow,
)


class RunId(NamedTuple):
    """The name of a run."""

    run_id: str


REUSED_BY: Sql[RunId] = Sql(
    select(steps.c.run_id).where(steps.c.reused == bindparam("call_id", type_=steps.c.reused.type)).limit(1), RunId
)
SELECT_NOTES: Sql[UndoNote] = Sql(
    select(*[undos.c[name] for name in UndoNote._fields]).where(undos.c.run_id == bindparam("run_id")), UndoNote
)
_insert_note = insert(undos).values({name: bindparam(name) for name in UndoNote._fields})
PUT_NOTE: Sql[Any] = Sql(
    _insert_note.on_conflict_do_update(
        index_elements=[undos.c.run_id, undos.c.step, undos.c.item],
        set_={name: _insert_note.excluded[name] for name in UndoNote._fields[3:]},
    )
)
FORGET_NOTES: Sql[Any] = Sql(delete(undos).where(undos.c.run_id == bindparam("run_id"), undos.c.state == "not_undone"))
_DOUBT: Sql[Any] = Sql(
    update(attempts)
    .where(attempts.c.call_id == bindparam("of"), attempts.c.generation == bindparam("number"))
    .values(outcome=DOUBTED, sent="unknown")
)


def undo_calls(run_id: str) -> Fact[list[CallRow]]:
    """The undos of a run, the first one first."""
    return (yield from fetch(SELECT_UNDOS, run_id=run_id))


def undo_notes(run_id: str) -> Fact[list[UndoNote]]:
    """What no undo says of the effects of a run."""
    return (yield from fetch(SELECT_NOTES, run_id=run_id))


def is_in_doubt(row: CallRow) -> bool:
    """True for a settled failure of which nobody can say whether it had its effect."""
    if row.is_read or row.state != CallState.SETTLED or row.outcome not in _FAILED or not row.generation:
        return False
    details: JsonObject = json.loads(row.details) if row.details else {}
    return details.get("effect") == "unknown"


def begin_undoing(run: RunRow, verdict: JsonObject, at: int) -> Fact[RunRow]:
    """From here on the effects of a run that has failed are undone; `verdict` is how it ends then.

    The run was read in this transaction, and is its driver's.
    """
    return (
        yield from touch_run(
            run, EventType.COMPENSATION_STARTED, at, verdict, compensation="running", verdict=json.dumps(verdict)
        )
    )


def doubt(call_ids: Iterable[str], at: int) -> Fact[None]:
    """Failures whose effect is not known are unresolved again: what is to be undone must be known first."""
    for call_id in call_ids:
        row = yield from get_call(call_id)
        if row is None or not is_in_doubt(row):
            continue
        yield from change(_DOUBT, of=call_id, number=row.generation)
        yield from take_leases(row, at)
        yield from keep_key(row)
        yield from move(
            row, Move.REOPEN, EventType.REOPENED, at,
            {"why": "whether it had its effect must be known before anything is undone", "stated": row.outcome},
            outcome="ambiguous", sent="unknown", code="ambiguous", settled_at=None, settled_by=None,
            message=f"It failed, and whether it had its effect is not known: {row.message or row.outcome}",
        )  # fmt: skip


def note_undo(note: UndoNote, owner_id: str) -> Fact[RunRow | None]:
    """What becomes of an effect that no call undoes; None if the run is no longer driven by this owner."""
    run = yield from get_run(note.run_id)
    if run is None or run.owner_id != owner_id or run.finished_at is not None:
        return None
    told: JsonObject = {name: value for name, value in note._asdict().items() if value is not None and name != "at"}
    del told["run_id"], told["item"]
    if note.item >= 0:
        told["item"] = note.item
    changes = {} if note.state == "kept" else {"compensation": "incomplete"}
    run = yield from touch_run(run, EventType.COMPENSATION_NOTED, note.at, told, **changes)
    yield PUT_NOTE, note._asdict()
    return run


def mark_incomplete(run_id: str, why: JsonObject, at: int) -> Fact[RunRow | None]:
    """Not every effect of this run is undone, whatever was said before; None if that was known."""
    run = yield from get_run(run_id)
    if run is None or run.verdict is None or run.compensation not in {"running", "complete"}:
        return None
    return (yield from touch_run(run, EventType.COMPENSATION_INCOMPLETE, at, why, compensation="incomplete"))


def undo_again(run_id: str, by: str, at: int) -> Fact[RunRow | None]:
    """Try what was not undone once more: undos that are known to have had no effect, and those that could not be made.

    None where there is nothing of the kind, or the run was cancelled. A finished run is driven again to the same end.
    """
    run = yield from get_run(run_id)
    if run is None or run.compensation != "incomplete" or run.cancel_requested_at is not None:
        return None
    again = [row for row in (yield from undo_calls(run_id)) if may_be_sent_again(row)]
    notes = [note for note in (yield from undo_notes(run_id)) if note.state == "not_undone"]
    if not again and not notes and not (yield from _lacking(run_id, (yield from undo_calls(run_id)))):
        return None
    for row in again:
        yield from let_go(row)
        yield from change(RULE_OUT, of=row.call_id)
        yield from move(
            row, Move.RESEND, EventType.QUEUED, at, {"why": "the undoing is tried again", "by": by},
            owner_id=None, by_decision=0, outcome=None, code=None, message=None, details=None, not_before=None,
            settled_at=None, settled_by=None, cancel_requested_at=None, sent="no",
        )  # fmt: skip
    yield from change(FORGET_NOTES, run_id=run_id)
    return (
        yield from _reopen(run_id, EventType.COMPENSATION_RESUMED, {"by": by}, at, asked=True, compensation="running")
    )


def recount(run_id: str, at: int) -> Fact[RunRow | None]:
    """Something of a finished run's undoing is known by now that was not: its `compensation` says so, and no more.

    It is driven again only where an undo was queued since; nothing is begun that nobody asked for.
    """
    run = yield from get_run(run_id)
    if run is None or run.finished_at is None or run.compensation != "incomplete" or run.verdict is None:
        return None
    undone = yield from undo_calls(run_id)
    if any(undo.state == CallState.QUEUED for undo in undone):
        return (yield from _reopen(run_id, EventType.COMPENSATION_RESUMED, {"by": "recovery"}, at))
    if not (yield from _is_all_undone(run_id, undone)):
        return None
    return (yield from touch_run(run, EventType.COMPENSATION_COMPLETED, at, {}, compensation="complete"))


def _is_all_undone(run_id: str, undone: list[CallRow]) -> Fact[bool]:
    """True if every effect of a run is undone, or noted as kept, and none is in doubt."""
    done = [undo for undo in undone if undo.state == CallState.SETTLED and undo.outcome in _DONE]
    rows = yield from fetch(SELECT_STEPS, run_id=run_id)
    known = all(row.state in ENDED and not is_in_doubt(row) for row in rows)
    return known and not (yield from _lacking(run_id, done))


def _lacking(run_id: str, undone: list[CallRow]) -> Fact[list[CallRow]]:
    """The effects of a run that none of these undos is about, and that are not noted as kept."""
    fine = {undo.parent_call_id for undo in undone}
    fine |= {note.call_id for note in (yield from undo_notes(run_id)) if note.state == "kept"}
    rows = yield from fetch(SELECT_STEPS, run_id=run_id)
    had = [row for row in rows if not row.is_read and row.state == CallState.SETTLED and row.outcome in HAPPENED]
    return [row for row in had if row.call_id not in fine]


def goes_on_from(call_id: str) -> Fact[str | None]:
    """A run that has taken this call over as its own and relies on its effect; None if there is none."""
    found = yield from one(REUSED_BY, call_id=call_id)
    return None if found is None else found.run_id


def may_be_sent_again(row: CallRow) -> bool:
    """True for an undo that is known to have had no effect, and was not sent too often."""
    if row.generation >= MOST_ATTEMPTS:
        return False
    if row.state == CallState.REFUSED:
        return True
    return row.state == CallState.SETTLED and row.outcome in _FAILED and not is_in_doubt(row)


def _reopen(
    run_id: str,
    event: EventType,
    data: JsonObject,
    at: int,
    *,
    asked: bool = False,
    **changes: Any,  # noqa: ANN401 (columns)
) -> Fact[RunRow | None]:
    """Have a run driven again. `asked` lets it begin undos that were never begun, until it has its end again."""
    run = yield from get_run(run_id)
    assert run is not None, "read in this transaction"
    verdict: JsonObject = json.loads(run.verdict) if run.verdict is not None else {
        "status": run.status, "reason": run.reason, "code": run.code, "message": run.message,
        "ended_at": run.finished_at,  # before anything of it could be undone
    }  # fmt: skip
    changes["verdict"] = json.dumps(verdict | ({"asked": True} if asked else {}))
    if run.finished_at is not None:
        changes |= {"status": "queued", "reason": None, "finished_at": None}
    yield from post(run_id, at)
    return (yield from touch_run(run, event, at, data, **changes))
