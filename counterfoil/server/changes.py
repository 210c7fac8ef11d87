"""From single changes of the catalogue to one announcement for each burst of them, and to whom it is of concern.

A change concerns whoever may see the tool as it was or as it is: a hidden tool's change is nobody's business. Other
rules or scopes concern whoever sees more or less than before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from ..registry.contract import Contract
from ..registry.principal import Principal
from .shelf import Shelf

Announce: TypeAlias = Callable[[Callable[[Principal], bool]], Awaitable[None]]
Present: TypeAlias = Callable[[Principal], Principal | None]
"""From somebody who began to listen once to what they are now; None for whoever may not speak any more."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Who somebody is at one time, and what they may see then."""

    shelf: Shelf
    present: Present

    def shows(self, principal: Principal, contract: Contract) -> bool:
        """Whether this listener may know of such a tool."""
        who = self.present(principal)
        return who is not None and self.shelf.shows(who, contract)


class Changes:
    """Watches a shelf from the loop's thread until `close`."""

    def __init__(self, shelf: Shelf, announce: Announce) -> None:
        """`announce` is given a test of whom the changes concern."""
        self._shelf = shelf
        self._announce = announce
        self._known = {contract.name: contract for contract in shelf.catalogue.contracts()}
        self._before: dict[str, Contract | None] = {}
        self._told = self._now = Outlook(replace(shelf), lambda principal: principal)
        self._telling: asyncio.Task[None] | None = None
        self._unsubscribe = shelf.catalogue.subscribe(self._changed)

    def close(self) -> None:
        """Watch no longer."""
        self._unsubscribe()
        if self._telling is not None:
            self._telling.cancel()

    def view_changed(self, present: Present) -> None:
        """The shelf has another policy now, and listeners are what `present` says."""
        self._now = Outlook(replace(self._shelf), present)
        self._tell_soon()

    def _changed(self, name: str) -> None:
        self._before.setdefault(name, self._known.get(name))
        self._tell_soon()

    def _tell_soon(self) -> None:
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        try:
            while self._before or self._told is not self._now:
                gone, new = self._take()
                was, self._told = self._told, self._now
                if gone or new or was is not self._told:
                    await self._announce(partial(self._concerns, gone, new, was, self._told))
        finally:
            self._telling = None

    def _concerns(
        self, gone: list[Contract], new: list[Contract], was: Outlook, now: Outlook, principal: Principal
    ) -> bool:
        if now.present(principal) is None:
            return False
        if any(was.shows(principal, one) for one in gone) or any(now.shows(principal, one) for one in new):
            return True
        return was is not now and any(
            was.shows(principal, one) is not now.shows(principal, one) for one in self._known.values()
        )

    def _take(self) -> tuple[list[Contract], list[Contract]]:
        """The contracts that are gone and those that are new since the last time."""
        before, self._before = self._before, {}
        gone: list[Contract] = []
        come: list[Contract] = []
        for name, old in before.items():
            entry = self._shelf.catalogue.get(name)
            new = None if entry is None else entry.contract
            if new is None:
                self._known.pop(name, None)
            else:
                self._known[name] = new
            if old is not new:
                gone += [] if old is None else [old]
                come += [] if new is None else [new]
        return gone, come
