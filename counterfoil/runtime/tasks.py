"""The tasks that the process owns: a request that goes away never takes one with it, and none ends unseen."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("counterfoil.runtime")


class Tasks:
    """Keeps every task until it ends; an error that a task should have answered itself is logged with its kind only."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it to its end, whoever listens."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def drain(self, seconds: float) -> int:
        """Wait so long for all of them; how many still run."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        return len(self._tasks)

    async def cancel(self) -> None:
        """End those that still run, at their next await."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=1.0)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log_fault("a task ended", error)


def log_fault(what: str, error: BaseException) -> None:
    """A fault of ours: its kind and where it was, never its text, which may hold content."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s by %s at\n%s", what, type(error).__name__, where)
