"""What is under way of a run: a task for each, one inbox for all of them, and the timers.

An end costs the same however many others are under way. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..clock import MICROSECOND

if TYPE_CHECKING:
    from ..clock import Clock
    from .board import Place
    from .steps import Result


class Flights:
    """The tasks and timers of one wake of one run. `spawn` has the process keep a task to its end."""

    def __init__(self, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self.inbox: deque[tuple[Place, Result]] = deque()
        self.under_way = 0
        self.fault: BaseException | None = None
        self._clock = clock
        self._spawn = spawn
        self._stirred = asyncio.Event()
        self._timers: dict[Place | None, asyncio.TimerHandle] = {}

    def fly(self, place: Place, work: Coroutine[Any, Any, Result]) -> None:
        """Have this done; what comes of it is put into the inbox."""
        self.under_way += 1
        self._spawn(self._flight(place, work))

    async def _flight(self, place: Place, work: Coroutine[Any, Any, Result]) -> None:
        try:
            self.inbox.append((place, await work))
        except Exception as error:  # noqa: BLE001 (whatever ended a step ends the wake, where it is logged)
            self.fault = error
        finally:
            self.under_way -= 1
            self.stir()

    def stir(self) -> None:
        """Have the driver look."""
        self._stirred.set()

    async def stirred(self) -> None:
        """Come back when there is something to look at."""
        await self._stirred.wait()
        self._stirred.clear()

    async def landed(self) -> None:
        """Come back when nothing is under way; nothing in the inbox matters any more."""
        while self.under_way:
            await self.stirred()

    def at(self, place: Place | None, when: int, act: Callable[[], None]) -> None:
        """Do this at a time (microseconds), in place of what was to be done for the same place; None is the run."""
        if (earlier := self._timers.pop(place, None)) is not None:
            earlier.cancel()
        after_s = max(0, when - self._clock.now()) / MICROSECOND
        self._timers[place] = asyncio.get_running_loop().call_later(after_s, self._ring, place, act)

    def _ring(self, place: Place | None, act: Callable[[], None]) -> None:
        del self._timers[place]
        act()
        self.stir()

    def end(self) -> None:
        """No timer rings any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
