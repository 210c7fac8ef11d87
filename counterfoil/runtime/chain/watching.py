"""Waiting for a run that somebody drives: this process, which tells of each change, or another one, which is polled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from ...ledger.run_reading import Glance, glance
from ..clock import micros
from .states import RunStatus

if TYPE_CHECKING:
    from ...registry.adapter import ProgressSink
    from ..parts import Parts

POLL_S: Final = 0.25
Told: TypeAlias = tuple[int, int, str]
"""Steps that have ended, all steps, and the last one's end."""


class Seat:
    """Where one request waits for one run. `progress` is the last that was told."""

    def __init__(self) -> None:
        self.changed = False
        self.progress: Told | None = None
        self._stirred = asyncio.Event()

    def stir(self) -> None:
        """Something has changed."""
        self._stirred.set()

    async def turn(self, seconds: float) -> bool:
        """Wait for something to tell or to look at; True if the run is to be looked at: it changed, or time passed."""
        try:
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        except TimeoutError:
            return True
        self._stirred.clear()
        changed, self.changed = self.changed, False
        return changed


class Watch:
    """Who waits for which run in this process; the driver's hooks end here, and cost nothing where nobody waits."""

    def __init__(self) -> None:
        self._seats: dict[str, set[Seat]] = {}

    def changed(self, run_id: str) -> None:
        """Something about a run was recorded."""
        for seat in self._seats.get(run_id, ()):
            seat.changed = True
            seat.stir()

    def progressed(self, run_id: str, done: int, total: int, message: str) -> None:
        """A step of a run has ended."""
        for seat in self._seats.get(run_id, ()):
            seat.progress = (done, total, message)
            seat.stir()

    @contextmanager
    def seat(self, run_id: str) -> Generator[Seat]:
        """A place to wait, for as long as the block runs."""
        seat = Seat()
        self._seats.setdefault(run_id, set()).add(seat)
        try:
            yield seat
        finally:
            seats = self._seats[run_id]
            seats.discard(seat)
            if not seats:
                del self._seats[run_id]


class RunFollower:
    """Follows runs for as long as somebody waits; nothing is changed by it."""

    def __init__(self, parts: Parts, watch: Watch) -> None:
        self._parts = parts
        self._watch = watch

    async def until_still(
        self, run_id: str, wait_s: float | None, progress: ProgressSink | None = None, known: Glance | None = None
    ) -> Glance | None:
        """The run once nothing about it moves by itself, or as it is after the wait; `known` is how it stood just now.

        None if there is no such run.
        """
        until = None if wait_s is None else self._parts.clock.now() + micros(wait_s)
        return await self._until(run_id, wait_s, lambda found: not moves(found, until), progress, known)

    async def until_after(self, run_id: str, seq: int, wait_s: float) -> Glance | None:
        """The run once its chain goes beyond `seq` or it has ended, or as it is after the wait."""
        return await self._until(run_id, wait_s, lambda found: found.run.seq > seq or is_finished(found))

    async def _until(
        self,
        run_id: str,
        wait_s: float | None,
        enough: Callable[[Glance], bool],
        progress: ProgressSink | None = None,
        known: Glance | None = None,
    ) -> Glance | None:
        clock = self._parts.clock
        ends = None if wait_s is None else clock.monotonic() + wait_s
        with self._watch.seat(run_id) as seat:
            teller = _Teller(seat, progress)
            found = known or await self._look(run_id)
            looks_at = clock.monotonic() + POLL_S
            while found is not None and not enough(found):
                left = POLL_S if ends is None else ends - clock.monotonic()
                if left <= 0:
                    break
                changed = await seat.turn(max(0.0, min(POLL_S, left, looks_at - clock.monotonic())))
                await teller.tell()
                if changed or clock.monotonic() >= looks_at:
                    found, looks_at = await self._look(run_id), clock.monotonic() + POLL_S
            await teller.tell()
            return found

    async def _look(self, run_id: str) -> Glance | None:
        return await self._parts.ledger.reads.look(lambda: glance(run_id))


class _Teller:
    """Passes progress on to the sink of one request; one that cannot take it is told nothing more."""

    def __init__(self, seat: Seat, sink: ProgressSink | None) -> None:
        self._seat = seat
        self._sink = sink
        self._told: Told | None = None

    async def tell(self) -> None:
        """Tell how far it is, once for each step that has ended; those that ended meanwhile are told together."""
        new = self._seat.progress
        if self._sink is None or new is None or new == self._told:
            return
        self._told = new
        done, total, message = new
        try:
            await self._sink(done, total, message)
        except Exception:  # noqa: BLE001 (a listener that is gone must never become a failure of the run's request)
            self._sink = None


def is_finished(found: Glance) -> bool:
    """True once nothing more can come of it."""
    return found.run.finished_at is not None


def moves(found: Glance, until: int | None) -> bool:
    """True while something about a run moves by itself, or will before `until` (microseconds; None: any time)."""
    run = found.run
    if is_finished(found):
        return False
    if run.owner_id is not None or found.woken or (run.status == RunStatus.QUEUED and run.reason is None):
        return True
    return run.due_at is not None and until is not None and run.due_at <= until
