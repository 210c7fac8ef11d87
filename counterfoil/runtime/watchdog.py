"""A tool that blocks the event loop freezes every other call. Nothing can interrupt it; this names it in the log.

A thread looks how long ago the loop last came round. It neither stops nor reports anything but the tools' names.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger("counterfoil.runtime")
BEAT_S: Final = 0.2
BLOCKED_S: Final = 1.0
"""How long the loop may stand still before it is said, in seconds."""


class Watchdog:
    """Watches one loop. `suspects` names the tools whose code runs on it."""

    def __init__(self, suspects: Callable[[], list[str]], blocked_s: float = BLOCKED_S) -> None:
        self._suspects = suspects
        self._blocked_s = blocked_s
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._beat: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._come_round()
        threading.Thread(target=self._watch, name="counterfoil-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End it; the thread ends by itself."""
        self._ended.set()
        if self._beat is not None:
            self._beat.cancel()

    def _come_round(self) -> None:
        self._last = time.monotonic()
        self._beat = asyncio.get_running_loop().call_later(BEAT_S, self._come_round)

    def _watch(self) -> None:
        told = 0.0
        while not self._ended.wait(BEAT_S):
            last = self._last
            if time.monotonic() - last > self._blocked_s and last != told:
                told = last
                names = ", ".join(self._suspects())
                if names:
                    log.warning(
                        "the event loop has stood still for over %g s; running on it: %s. "
                        "A tool that blocks should be a plain `def`, which runs in a thread.",
                        self._blocked_s,
                        names,
                    )
                else:
                    log.warning(
                        "the event loop has stood still for over %g s, and no tool runs on it: "
                        "the machine is busy or was asleep.",
                        self._blocked_s,
                    )
