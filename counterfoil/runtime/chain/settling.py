"""Settling what nobody knows of a run: every unknown call is followed once, by its own order, and the run goes on.

A call that is to be sent again is sent by whoever drives its run, which may be another process.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ...ledger.errors import LedgerError
from ...ledger.run_reading import snapshot
from ...ledger.states import UNRESOLVED
from ...ledger.undoing import COMPENSATION
from ..refusal import RefusedError

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ..parts import Parts
    from ..reconciling import Reconciler
    from .wakes import RunDriver

AT_ONCE: Final = 8
"""How many unknown calls of a run are asked about at once."""


class Settler:
    """Follows the unknown calls of runs."""

    def __init__(self, parts: Parts, reconciler: Reconciler, driver: RunDriver) -> None:
        self._parts = parts
        self._reconciler = reconciler
        self._driver = driver

    async def follow_all(self, run_id: str) -> None:
        """Follow every unknown call of a run once, and the one elsewhere that it waits for; then it goes on."""
        found = await self._parts.ledger.reads.look(lambda: snapshot(run_id, outputs=False))
        if found is None:
            return
        rows, other = [row for row in [*found.calls, *found.undos] if row.state in UNRESOLVED], found.elsewhere
        mine = (found.run.tenant, found.run.subject)
        if other is not None and other.state in UNRESOLVED and (other.tenant, other.subject) == mine:
            rows.append(other)
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(row: CallRow) -> None:
            undoes = found.run.verdict is not None and row.run_id == run_id and row.route != COMPENSATION
            async with limit:
                await self._follow(row, compensating=undoes)

        await asyncio.gather(*(one(row) for row in rows))
        self._driver.wake(run_id)

    async def _follow(self, row: CallRow, *, compensating: bool) -> None:
        try:
            await self._reconciler.follow(row, repeatable_here=True, compensating=compensating)
        except (RefusedError, LedgerError):
            return  # it moved meanwhile, or cannot be asked about now: its view says how it stands
