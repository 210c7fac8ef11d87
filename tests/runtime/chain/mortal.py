"""A process that dies at a commit, told by its ledger. For tests only."""

from __future__ import annotations

import asyncio
from typing import Any

from counterfoil.ledger import owners
from counterfoil.server.app import App


class Mortal:
    """The ledger of a process that dies at its n-th commit: that one is made or not, and none is answered any more."""

    def __init__(self, app: App, commits: int, *, made: bool) -> None:
        self.left = commits
        self.dead = asyncio.Event()
        self.made = made
        self.fact: str | None = None
        self._ledger = app.ledger
        self._record = app.ledger.record
        self._tasks = app.runtime._tasks
        app.ledger.record = self.record  # type: ignore[method-assign]
        app.ledger.record_nowait = lambda make: None  # type: ignore[method-assign]  # noqa: ARG005 (its name is the method's)

    def refuse(self, fact: str) -> None:
        """Die at the first commit of this fact, which is not made."""
        self.fact, self.made = fact, False

    async def record(self, make: Any) -> Any:
        self.left -= 1
        if self.fact is not None and self.fact in make.__code__.co_names + make.__code__.co_freevars:
            self.left = 0
        if self.left > 0:
            return await self._record(make)
        if self.left == 0 and self.made:
            await self._record(make)
        self.dead.set()
        return await asyncio.get_running_loop().create_future()

    async def bury(self, other: App) -> None:
        """End what it did, and have the others know that it is gone."""
        await self._tasks.cancel()
        self._ledger.record = self._record  # type: ignore[method-assign]  # for the orderly end that its fixture wants
        owner_id, now = self._ledger.owner_id, other.ledger.now()
        row = await other.ledger.record(lambda: owners.get(owner_id))
        assert row is not None
        assert await other.ledger.record(lambda: owners.declare_lapsed(owner_id, row.beat, now))
