"""Whoever waits for what passes by itself: told as soon as this process knows that it may have passed.

A hint, never the word: what waits looks again, and looks by itself too, since others may have been at work.
"""

from __future__ import annotations

import asyncio


class Passing:
    """The decided calls of one process that something else keeps back. Nothing is held while they wait."""

    def __init__(self) -> None:
        self._stirred = asyncio.Event()
        self._over = False

    def stir(self) -> None:
        """A hold was released, a grant renewed, a call settled, or the rules changed: look again."""
        self._stirred.set()
        if not self._over:
            self._stirred = asyncio.Event()

    def close(self) -> None:
        """The process stops: nobody waits any longer, and what waited is left as it stands."""
        self._over = True
        self._stirred.set()

    @property
    def mark(self) -> asyncio.Event:
        """Taken before a look, so that nothing is missed that comes between the look and the wait."""
        return self._stirred

    async def wait(self, mark: asyncio.Event, seconds: float) -> bool:
        """Wait until it is worth looking again, at most so long. False once the process stops."""
        try:
            await asyncio.wait_for(mark.wait(), seconds)
        except TimeoutError:
            return not self._over
        return not self._over
