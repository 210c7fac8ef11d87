"""From single changes of the catalogue to one announcement for each burst of them, and to whom it is of concern.

A change concerns whoever may see the tool as it was or as it is: a hidden tool's change is nobody's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from ..registry.contract import Contract
from ..registry.principal import Principal
from .shelf import Shelf

Announce: TypeAlias = Callable[[Callable[[Principal], bool]], Awaitable[None]]


class Changes:
    """Watches a shelf from the loop's thread until `close`."""

    def __init__(self, shelf: Shelf, announce: Announce) -> None:
        """`announce` is given a test of whom the changes concern."""
        self._shelf = shelf
        self._announce = announce
        self._known = {contract.name: contract for contract in shelf.catalogue.contracts()}
        self._before: dict[str, Contract | None] = {}
        self._telling: asyncio.Task[None] | None = None
        self._unsubscribe = shelf.catalogue.subscribe(self._changed)

    def close(self) -> None:
        """Watch no longer."""
        self._unsubscribe()
        if self._telling is not None:
            self._telling.cancel()

    def _changed(self, name: str) -> None:
        self._before.setdefault(name, self._known.get(name))
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        try:
            while self._before:
                changed = self._take()
                if changed:
                    await self._announce(partial(self._concerns, changed))
        finally:
            self._telling = None

    def _concerns(self, changed: list[Contract], principal: Principal) -> bool:
        return any(self._shelf.shows(principal, contract) for contract in changed)

    def _take(self) -> list[Contract]:
        """The contracts that are gone or new since the last time."""
        before, self._before = self._before, {}
        found: list[Contract] = []
        for name, old in before.items():
            entry = self._shelf.catalogue.get(name)
            new = None if entry is None else entry.contract
            if new is None:
                self._known.pop(name, None)
            else:
                self._known[name] = new
            if old is not new:
                found += [contract for contract in (old, new) if contract is not None]
        return found
