"""Which answers show the end of which calls, so that a call counts as delivered only once its answer was written.

Over one shared stream the SDK answers a request in the task that handled it. That task is the key, because request ids
may occur twice at once; and where it ends without an answer, what it would have delivered is forgotten with it. An
answer with a stream of its own has an exchange for a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ...registry.principal import Principal
from .answers import log_failure
from .exchange import Exchange
from .ports import Desk


class Deliveries:
    """Notes of what each open answer would deliver."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._noted: WeakKeyDictionary[asyncio.Task[Any], tuple[tuple[str, ...], Principal]] = WeakKeyDictionary()
        self._running: set[asyncio.Task[None]] = set()

    def note(self, call_ids: tuple[str, ...], principal: Principal, exchange: Exchange | None = None) -> None:
        """The answer that the exchange, else the current task, is about to give shows the end of these calls."""
        if exchange is not None:
            exchange.delivers = call_ids
            return
        task = asyncio.current_task()
        if call_ids and task is not None:
            self._noted[task] = (call_ids, principal)

    async def written(self, exchange: Exchange) -> None:
        """The answer of an exchange has been written to its transport; the runtime knows it afterwards."""
        if exchange.delivers:
            await asyncio.wait({self._start(self._desk.delivered(exchange.delivers, exchange.principal))})

    async def lost(self, exchange: Exchange) -> None:
        """It never will be."""
        if exchange.delivers:
            await asyncio.wait({self._start(self._desk.undelivered(exchange.delivers, exchange.principal))})

    def receipt(self) -> Callable[[], None] | None:
        """What to do once the current task's answer has been written; given once."""
        task = asyncio.current_task()
        noted = self._noted.pop(task, None) if task is not None else None
        return None if noted is None else partial(self._deliver, *noted)

    async def done(self) -> None:
        """Wait until all that was written is known to the runtime."""
        while self._running:
            await asyncio.wait(set(self._running))

    def _deliver(self, call_ids: tuple[str, ...], principal: Principal) -> None:
        self._start(self._desk.delivered(call_ids, principal))

    def _start(self, telling: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._tell(telling))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _tell(self, telling: Coroutine[Any, Any, None]) -> None:
        try:
            await telling
        except Exception as error:  # noqa: BLE001 (an edge: an unnoted delivery only means that it is shown again)
            log_failure("noting a delivery", error)
