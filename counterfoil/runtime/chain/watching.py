"""Waiting for a run that somebody drives: this process, which tells what it did, or another one, which is polled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from ...ledger.run_reading import Glance, glance
from ..clock import micros
from .states import RunStatus

if TYPE_CHECKING:
    from ...ledger.run_rows import RunRow
    from ...registry.adapter import ProgressSink
    from ..parts import Parts

POLL_S: Final = 0.25
Told: TypeAlias = tuple[int, int, str]
"""Steps that have ended, all steps, and the last one's end."""


class Seat:
    """Where one request waits for one run: for each change of it or, without `each`, until it is not driven here.

    `progress` is the last that was told, where somebody `hears` it; `finished` its row, once it has ended here.
    """

    def __init__(self, *, each: bool, hears: bool) -> None:
        self.each = each
        self.hears = hears
        self.changed = False
        self.finished: RunRow | None = None
        self.progress: Told | None = None
        self._stirred = asyncio.Event()

    def change(self, finished: RunRow | None = None) -> None:
        """The run is to be looked at, or has ended like this."""
        self.changed = True
        self.finished = finished
        self._stirred.set()

    def tell(self, progress: Told) -> None:
        """A step has ended."""
        self.progress = progress
        self._stirred.set()

    async def turn(self, seconds: float | None) -> bool:
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
            if seat.each:
                seat.change()

    def rested(self, run_id: str, finished: RunRow | None) -> None:
        """A run is not driven here any more; `finished` is its row where it has ended here."""
        for seat in self._seats.get(run_id, ()):
            seat.change(finished)

    def progressed(self, run_id: str, done: int, total: int, message: str) -> None:
        """A step of a run has ended."""
        for seat in self._seats.get(run_id, ()):
            if seat.hears:
                seat.tell((done, total, message))

    @contextmanager
    def seat(self, run_id: str, *, each: bool, hears: bool) -> Generator[Seat]:
        """A place to wait, for as long as the block runs."""
        seat = Seat(each=each, hears=hears)
        self._seats.setdefault(run_id, set()).add(seat)
        try:
            yield seat
        finally:
            seats = self._seats[run_id]
            seats.discard(seat)
            if not seats:
                del self._seats[run_id]


class RunFollower:
    """Follows runs for as long as somebody waits; nothing is changed by it. `is_driven` says what is driven here."""

    def __init__(self, parts: Parts, watch: Watch, is_driven: Callable[[str], bool]) -> None:
        self._parts = parts
        self._watch = watch
        self._is_driven = is_driven

    async def until_still(
        self, run_id: str, wait_s: float | None, progress: ProgressSink | None = None, known: Glance | None = None
    ) -> Glance | None:
        """The run once nothing about it moves by itself, or as it is after the wait; `known` is how it stood just now.

        None if there is no such run.
        """
        until = None if wait_s is None else self._parts.clock.now() + micros(wait_s)
        with self._watch.seat(run_id, each=False, hears=progress is not None) as seat:
            return await self._until(seat, run_id, wait_s, lambda found: not moves(found, until), progress, known)

    async def until_after(self, run_id: str, seq: int, wait_s: float) -> Glance | None:
        """The run once its chain goes beyond `seq` or it has ended, or as it is after the wait."""
        with self._watch.seat(run_id, each=True, hears=False) as seat:
            return await self._until(seat, run_id, wait_s, lambda found: found.run.seq > seq or is_finished(found))

    async def _until(
        self,
        seat: Seat,
        run_id: str,
        wait_s: float | None,
        enough: Callable[[Glance], bool],
        progress: ProgressSink | None = None,
        known: Glance | None = None,
    ) -> Glance | None:
        clock = self._parts.clock
        ends = None if wait_s is None else clock.monotonic() + wait_s
        teller = _Teller(seat, progress)
        found = known or await self._look(run_id)
        while found is not None and not enough(found):
            left = None if ends is None else ends - clock.monotonic()
            if left is not None and left <= 0:
                break
            told = not seat.each and self._is_driven(run_id)  # nothing that matters here happens unheard
            changed = await seat.turn(left if told else min(POLL_S, left or POLL_S))
            await teller.tell()
            if changed:
                found = Glance(seat.finished, woken=False) if seat.finished else await self._look(run_id)
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
