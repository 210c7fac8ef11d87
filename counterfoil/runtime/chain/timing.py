"""How long a run has taken, and when it must have ended: by its deadline, or by what its budget has of time. Pure.

Both stand still while only people are awaited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .board import OVERDUE, SPENT

if TYPE_CHECKING:
    from ...ledger.run_rows import RunRow
    from .board import Halt


class Bound(NamedTuple):
    """A time at which nothing more of a run is started, in microseconds, and why."""

    at: int
    halt: Halt


def bound_of(run: RunRow, run_time: int | None) -> Bound | None:
    """What ends a run first that does not stand still; `run_time` is how long it may take, in microseconds."""
    bounds = [Bound(run.deadline_at, OVERDUE)] if run.deadline_at is not None else []
    if run_time is not None:
        bounds.append(Bound(run.created_at + run.stood_still + run_time, SPENT))
    return min(bounds, key=lambda bound: bound.at, default=None)


def elapsed_of(run: RunRow, now: int) -> int:
    """How long a run has taken so far, in microseconds."""
    until = next(at for at in (run.finished_at, run.paused_at, now) if at is not None)
    return max(0, until - run.created_at - run.stood_still)


def deadline_of(run: RunRow, now: int) -> int | None:
    """When it must have ended by its deadline, as things stand now."""
    if run.deadline_at is None:
        return None
    paused = run.paused_at is not None and run.finished_at is None
    return run.deadline_at + (max(0, now - (run.paused_at or now)) if paused else 0)
