"""Asking the far sides that have accepted a call and still work, when that is due, and waking such a call before.

Any process that has the tool asks, one at a time, and no worker is held in between. What an answer means is decided
where every unknown outcome is followed up. A wake, whoever sends it, only has the far side asked earlier.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..ledger.errors import CannotRecordError, LedgerError
from ..ledger.external import Due, claim_poll, list_polls_due, stop_waiting
from ..ledger.rows import get_call
from .clock import micros
from .polling import LEASE_S

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from .parts import Parts

log = logging.getLogger("counterfoil.runtime")
AT_ONCE: Final = 32
"""How many are asked in one sweep; the others have their turn in the next."""
UNSERVED_S: Final = 60.0
"""How long after the end of its wait a call is left to a server that has its tool, in seconds."""


class FarSides:
    """One process's questions. `follow` has an unresolved call followed up, in a task."""

    def __init__(self, parts: Parts, follow: Callable[[CallRow], None]) -> None:
        self._parts = parts
        self._follow = follow

    async def ask(self, at: int) -> None:
        """Ask about every accepted call that is due, as far as this process has its tool; so many at once."""
        asked, page = 0, await self._parts.ledger.record(lambda: list_polls_due(at))
        while page and asked < AT_ONCE:
            for due in page:
                asked += await self._one(due, at)
                if asked == AT_ONCE:
                    return
            after = page[-1].call_id
            page = await self._parts.ledger.record(lambda after=after: list_polls_due(at, after))  # type: ignore[misc]  # bound in its turn

    async def _one(self, due: Due, at: int) -> bool:
        """One at a time: what is wrong with one must not keep the others. True if it is asked about."""
        try:
            row = await self._claim(due, at)
        except CannotRecordError:
            raise
        except LedgerError as error:
            log.error("%s cannot be asked about: %s", due.call_id, error)  # noqa: TRY400 (the place in our code says nothing)
            return False
        if row is not None:
            self._follow(row)
        return row is not None

    async def _claim(self, due: Due, at: int) -> CallRow | None:
        catalogue, ledger = self._parts.catalogue, self._parts.ledger
        entry = catalogue.get(due.tool, due.version)
        probe = None if entry is None or entry.contract.recovery.probe is None else entry.contract.recovery.probe
        asks = None if probe is None else catalogue.get(probe)
        if asks is None:
            await self._give_up(due, at)
            return None
        again_at = at + micros(asks.contract.limits.timeout_s + LEASE_S)
        return await ledger.record(lambda: claim_poll(due.call_id, ledger.owner_id, at, again_at))

    async def _give_up(self, due: Due, at: int) -> None:
        """Past the end of its wait even a process without its tool knows that nobody knows."""
        ledger = self._parts.ledger
        row = await ledger.record(lambda: get_call(due.call_id))
        if row is None or row.external_until is None or at < row.external_until + micros(UNSERVED_S):
            return
        why = "The far side had accepted it; nobody could ask how it ended, and the time for that is over."
        await ledger.record(lambda: stop_waiting(row.call_id, row.revision, ledger.owner_id, why, at))
