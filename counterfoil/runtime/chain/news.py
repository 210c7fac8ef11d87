"""News of the runs that this process drives, for whoever tells their owners; a hint, never a record.

Of a run that another process drives nothing is heard here: who follows that one looks at it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...ledger.errors import LedgerError
from ...ledger.run_reading import glance
from ...registry.principal import Principal

if TYPE_CHECKING:
    from ..parts import Parts

Listener: TypeAlias = Callable[[str, Principal], None]
OWNERS_KEPT: Final = 1_000


class News:
    """Who is told of changes of runs, with their owners: once for everything that happens before it is told."""

    def __init__(self, parts: Parts, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        self._parts = parts
        self._spawn = spawn
        self._listeners: list[Listener] = []
        self._untold: set[str] = set()
        self._owners: OrderedDict[str, Principal] = OrderedDict()

    def listen(self, listener: Listener) -> None:
        """Be told from now on, on the loop; a listener waits for nothing and raises nothing."""
        self._listeners.append(listener)

    def changed(self, run_id: str) -> None:
        """Something about a run was recorded here."""
        if self._listeners and run_id not in self._untold:
            self._untold.add(run_id)
            self._spawn(self._tell(run_id))

    async def _tell(self, run_id: str) -> None:
        try:
            owner = self._owners.get(run_id) or await self._owner_of(run_id)
        except LedgerError:
            owner = None  # a hint that is lost costs nothing: who wants to know looks
        self._untold.discard(run_id)
        if owner is not None:
            for listener in self._listeners:
                listener(run_id, owner)

    async def _owner_of(self, run_id: str) -> Principal | None:
        found = await self._parts.ledger.reads.look(lambda: glance(run_id))
        if found is None:
            return None
        run = found.run
        owner = self._owners[run_id] = Principal(run.tenant, run.subject, run.client, frozenset())
        if len(self._owners) > OWNERS_KEPT:
            self._owners.popitem(last=False)
        return owner
