"""Progress of one request: a tool's own reports, and a sign of life where it is silent. Values only ever grow."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from ...ledger.storable import storable_text

HEARTBEAT_S: Final = 5.0
_STEP: Final = 1e-6
_LONGEST_MESSAGE: Final = 500


class Reporter(Protocol):
    """The SDK's session, as far as progress goes."""

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client; nothing if it gave no token."""
        ...


class Progress:
    """A `ProgressSink` for one request."""

    def __init__(self, reporter: Reporter, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._reporter = reporter
        self._heartbeat_s = heartbeat_s
        self._last = 0.0
        self._total: float | None = None

    async def __call__(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far a tool is; a value that does not grow goes out as the least that does."""
        if not math.isfinite(done) or (total is not None and not math.isfinite(total)):
            return
        self._total = total
        text = None if message is None else storable_text(message[:_LONGEST_MESSAGE])[:_LONGEST_MESSAGE]
        await self._send(done, text)

    @asynccontextmanager
    async def alive(self) -> AsyncGenerator[None]:
        """Give a sign of life every few seconds while the block runs, so that the client does not time out."""
        beating = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            await self._send(self._last, "still working")

    async def _send(self, value: float, message: str | None) -> None:
        least = max(self._last + _STEP, math.nextafter(self._last, math.inf))
        self._last = max(value, least)
        await self._reporter.report_progress(self._last, self._total, message)
