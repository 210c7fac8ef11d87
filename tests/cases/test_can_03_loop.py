"""CAN-03, third part: an async tool that blocks the loop is not contained, and is named."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from counterfoil.runtime.watchdog import Watchdog

pytestmark = pytest.mark.anyio


class Heard(logging.Handler):
    """Waits for a warning, from whatever thread."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.heard.set()


@pytest.mark.promise("CAN-03")
async def test_a_tool_that_blocks_the_loop_is_named_in_a_warning_once() -> None:
    heard, log = Heard(), logging.getLogger("counterfoil.runtime")
    log.addHandler(heard)
    watchdog = Watchdog(lambda: ["rude_tool"], blocked_s=0.05)
    watchdog.start()
    try:
        assert heard.heard.wait(10)  # the loop stands still here until it was said
        time.sleep(0.5)  # noqa: ASYNC251 (the fault itself: still the same standstill)
        await asyncio.sleep(0)
    finally:
        watchdog.stop()
        log.removeHandler(heard)
    assert len(heard.messages) == 1
    assert "rude_tool" in heard.messages[0]
