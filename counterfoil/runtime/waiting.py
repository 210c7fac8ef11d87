"""Who waits for which resource in this process: first come, first served, per key.

The ledger says who holds a key, across processes; this room only orders the waiters of one process, so that they do
not all ask at once. A waiter with several keys is first when it is first in each queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

SHARED: Final = "shared:"
POLL_S: Final = 0.25


class Place:
    """One waiter's place in the queues of its keys."""

    def __init__(self, keys: Sequence[tuple[str, bool]]) -> None:
        self.keys = tuple(keys)
        self.woken = asyncio.Event()

    async def turn(self) -> None:
        """Come back when something about the keys may have changed, here or, a little later, in other processes."""
        try:
            async with asyncio.timeout(POLL_S):
                await self.woken.wait()
        except TimeoutError:
            pass
        self.woken.clear()


class WaitingRoom:
    """The queues of one process."""

    def __init__(self) -> None:
        self._queues: dict[str, list[tuple[Place, bool]]] = {}

    @contextmanager
    def place(self, tenant: str, keys: Sequence[str]) -> Generator[Place]:
        """A place at the end of the queue of each key, for as long as the block runs."""
        named = [(f"{tenant}\0{key.removeprefix(SHARED)}", key.startswith(SHARED)) for key in keys]
        place = Place(named)
        for key, shared in named:
            self._queues.setdefault(key, []).append((place, shared))
        try:
            yield place
        finally:
            for key, shared in named:
                queue = self._queues[key]
                queue.remove((place, shared))
                if not queue:
                    del self._queues[key]
            self._wake([key for key, _ in named])

    def is_first(self, place: Place) -> bool:
        """True if nobody who came earlier waits for one of these keys in a way that excludes this waiter."""
        return all(self._clear(key, place, shared=shared) for key, shared in place.keys)

    def released(self, tenant: str, keys: Sequence[str]) -> None:
        """A call of this process let go of these keys."""
        self._wake([f"{tenant}\0{key.removeprefix(SHARED)}" for key in keys])

    def _clear(self, key: str, place: Place, *, shared: bool) -> bool:
        for other, other_shared in self._queues[key]:
            if other is place:
                return True
            if not (shared and other_shared):
                return False
        return True

    def _wake(self, keys: Sequence[str]) -> None:
        for key in keys:
            for place, _ in self._queues.get(key, ()):
                place.woken.set()
