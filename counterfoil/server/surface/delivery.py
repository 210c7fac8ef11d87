"""Which answers show the end of which calls, so that a call counts as delivered only once its answer was written.

The SDK answers a request in the task that handled it. That task is the key, because request ids may occur twice at
once; and where it ends without an answer, what it would have delivered is forgotten with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ...registry.principal import Principal
from .answers import log_failure
from .ports import Desk


class Deliveries:
    """Notes of what each open answer would deliver."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._noted: WeakKeyDictionary[asyncio.Task[Any], tuple[tuple[str, ...], Principal]] = WeakKeyDictionary()
        self._running: set[asyncio.Task[None]] = set()

    def note(self, call_ids: tuple[str, ...], principal: Principal) -> None:
        """The answer that the current task is about to give shows the end of these calls."""
        task = asyncio.current_task()
        if call_ids and task is not None:
            self._noted[task] = (call_ids, principal)

    def receipt(self) -> Callable[[], None] | None:
        """What to do once the current task's answer has been written; given once."""
        task = asyncio.current_task()
        noted = self._noted.pop(task, None) if task is not None else None
        return None if noted is None else partial(self._start, *noted)

    async def done(self) -> None:
        """Wait until all that was written is known to the runtime."""
        while self._running:
            await asyncio.wait(set(self._running))

    def _start(self, call_ids: tuple[str, ...], principal: Principal) -> None:
        task = asyncio.get_running_loop().create_task(self._tell(call_ids, principal))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _tell(self, call_ids: Sequence[str], principal: Principal) -> None:
        try:
            await self._desk.delivered(call_ids, principal)
        except Exception as error:  # noqa: BLE001 (an edge: an unnoted delivery only means that it is shown again)
            log_failure("noting a delivery", error)
