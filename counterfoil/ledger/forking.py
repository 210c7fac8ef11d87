"""What a fork asks of the run that it goes on from, and what it has taken over from it. Nothing is changed here.

A place of a fork that was taken over is a row of `steps` that names the earlier call, which stays the earlier run's
own: its effect is undone there or nowhere. How it ended is as it was when it was taken over, whatever is found out
about it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sqlalchemy import bindparam, select

from .rows import CallRow
from .run_rows import RunRow, StepRow, get_run
from .runs import calls_of, steps_of
from .sql import Fact, Sql, fetch
from .states import CallState
from .tables import calls, steps
from .undoing import undo_calls
from .verify import sound

SUCCEEDED: Final = "succeeded"
SELECT_REUSED: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields])
    .where(calls.c.call_id.in_(select(steps.c.reused).where(steps.c.run_id == bindparam("run_id"))))
    .order_by(calls.c.call_id),
    CallRow,
)


class Past(NamedTuple):
    """A run as of one moment. `reused` are earlier calls that it has taken over itself, by their ids, `undos` what was
    made to undo any of these or of its own; `versions` those of all these runs.
    """  # noqa: D205 (one sentence)

    run: RunRow
    calls: list[CallRow]
    steps: list[StepRow]
    reused: dict[str, CallRow]
    undos: list[CallRow]
    versions: dict[str, int]


def reused_calls(run_id: str, notes: Iterable[StepRow]) -> Fact[dict[str, CallRow]]:
    """The earlier calls that the places of a run name, by their ids, as they are now."""
    if all(note.reused is None for note in notes):
        return {}
    return {row.call_id: row for row in (yield from fetch(SELECT_REUSED, run_id=run_id))}


def taken_over(notes: Iterable[StepRow], reused: Mapping[str, CallRow]) -> dict[tuple[str, int], CallRow]:
    """The earlier calls whose outcomes stand for places of a run, by step and item, as they were then."""
    return {
        (note.step, note.item): as_it_was(reused[note.reused], note.outcome)
        for note in notes
        if note.state == SUCCEEDED and note.reused is not None and note.reused in reused
    }


def as_it_was(earlier: CallRow, outcome: str | None) -> CallRow:
    """An earlier call as it stands for a place that took it over with this outcome."""
    return earlier._replace(state=CallState.SETTLED.value, outcome=outcome, code=None, message=None, details=None)


def past_of(run_id: str) -> Fact[Past | None]:
    """A run that is to be gone on from, its chain checked first; None if there is none.

    Raises:
        DamagedChainError: its record, or that of a run that it goes on from itself, is damaged.
    """
    yield from sound(run_id)
    run = yield from get_run(run_id)
    if run is None:
        return None
    notes = yield from steps_of(run_id)
    reused = yield from reused_calls(run_id, notes)
    undos = yield from undo_calls(run_id)
    versions = {run_id: run.version}
    for earlier in sorted({row.run_id for row in reused.values()}):
        yield from sound(earlier)
        found = yield from get_run(earlier)
        versions[earlier] = 0 if found is None else found.version
        undos = [*undos, *(yield from undo_calls(earlier))]
    return Past(run, (yield from calls_of(run_id)), notes, reused, undos, versions)
