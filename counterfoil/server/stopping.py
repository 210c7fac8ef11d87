"""When and how the process stops: at the end of its input or at a signal, in order, and never later than it promised.

The first SIGTERM or SIGINT asks for an orderly stop, the second one ends the process at once with 130. A thread that
was started beforehand ends the process when an orderly stop takes too long, whatever blocks: a tool's thread, a tool
on the loop, a database. What is then unfinished is recovery's.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from enum import StrEnum
from types import FrameType
from typing import Final, NoReturn

LATE_S: Final = 1.5
"""How long after the grace a stop may take before it is cut short, in seconds."""
INTERRUPTED: Final = 130
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Cause(StrEnum):
    """Why the process stops."""

    INPUT_ENDED = "input_ended"
    CLIENT_GONE = "client_gone"
    SIGNAL = "signal"


class Stop:
    """One orderly stop. Construct it on the main thread, inside the loop."""

    def __init__(self, grace_s: float) -> None:
        """`grace_s` is how long calls in flight have."""
        self.grace_s = grace_s
        self.cause: Cause | None = None
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._signalled = False
        # SimpleQueue.put is reentrant: a signal handler may call it wherever the main thread stands.
        self._alarm: queue.SimpleQueue[None] = queue.SimpleQueue()
        threading.Thread(target=self._end_late, name="counterfoil-stop", daemon=True).start()

    def listen(self) -> None:
        """Take SIGTERM and SIGINT. These handlers run even while a tool blocks the loop."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def ask(self, cause: Cause) -> None:
        """Begin to stop; only the first cause counts, except that a signal replaces the end of the input."""
        if self.cause is None or cause is Cause.SIGNAL:
            self.cause = cause
        self._alarm.put(None)
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(self._asked.set)

    async def wait(self) -> None:
        """Wait until the process is to stop."""
        await self._asked.wait()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._signalled:
            os._exit(INTERRUPTED)
        self._signalled = True
        self.ask(Cause.SIGNAL)

    def _end_late(self) -> None:
        self._alarm.get()
        threading.Event().wait(self.grace_s + LATE_S)
        with suppress(OSError):
            os.write(2, b"counterfoil: the stop took too long and was cut short; unfinished calls are for recovery\n")
        os._exit(0)


def leave(code: int) -> NoReturn:
    """End the process now, without waiting for threads that tools have blocked.

    What was printed and not yet flushed goes where the standard descriptors lead now: to stderr.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed or absent: there is nothing to lose
            stream.flush()
    os._exit(code)
