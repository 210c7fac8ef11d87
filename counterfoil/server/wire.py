"""The bytes of stdio: private duplicates of the standard descriptors, one thread that reads lines and one that writes.

After `claim()` nobody else can reach the client: descriptor 0 is empty and descriptor 1 is stderr, for this process and
for every child of it, until the process ends. Both threads are daemons, because neither a signal nor the end of the
loop ends a blocked read. Nothing here knows JSON.
"""

from __future__ import annotations

import asyncio
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

if sys.platform == "win32":
    import ctypes
    import msvcrt
else:
    import fcntl

CHUNK: Final = 64 * 1024
LINES_AHEAD: Final = 16
"""How many lines are read ahead of the loop."""
WAITING_BYTES: Final = 8 * 1024 * 1024
"""How much waits for a client that does not read, before whoever answers has to wait too."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The descriptors that lead to the client."""

    reader: int
    writer: int


def claim() -> Wire:
    """Take the standard descriptors, once, before anything else can write to them.

    Raises:
        OSError: the process has no descriptor 0 or 1, or cannot open the null device.
    """
    wire = Wire(_duplicate(0), _duplicate(1))
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        os.dup2(2, 1)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    if sys.platform == "win32":
        _set_handles(wire)
    return wire


def _duplicate(descriptor: int) -> int:
    """A duplicate that no child inherits, and that is no standard descriptor even where one of those was closed."""
    if sys.platform == "win32":
        return os.dup(descriptor)
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


if sys.platform == "win32":

    def _set_handles(wire: Wire) -> None:
        """Children inherit handles here, not descriptors; and bytes must stay as they are."""
        for descriptor, standard in ((0, -10), (1, -11)):
            ctypes.windll.kernel32.SetStdHandle(standard, msvcrt.get_osfhandle(descriptor))
        for descriptor in (wire.reader, wire.writer):
            msvcrt.setmode(descriptor, os.O_BINARY)


class LineReader:
    """Reads lines on a daemon thread for the loop, at most `LINES_AHEAD` of them before they are taken."""

    def __init__(self, descriptor: int, longest: int) -> None:
        """Of a line with more than `longest` bytes, the first `longest` and one more are given."""
        self._descriptor = descriptor
        self._longest = longest
        self._ahead = threading.Semaphore(LINES_AHEAD)
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._run, name="counterfoil-stdin", daemon=True).start()

    async def next(self) -> bytes | None:
        """The next line without its end; None once the other side has closed."""
        line = await self._lines.get()
        self._ahead.release()
        return line

    def _run(self) -> None:
        line = bytearray()
        while chunk := self._read():
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                self._keep(line, part)
                if not self._give(bytes(line)):
                    return
                line.clear()
            self._keep(line, rest)
        if line and not self._give(bytes(line)):
            return
        self._give(None)

    def _keep(self, line: bytearray, part: bytes) -> None:
        line += part[: max(0, self._longest + 1 - len(line))]

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                select.select([self._descriptor], [], [])
            except OSError:
                return b""

    def _give(self, line: bytes | None) -> bool:
        self._ahead.acquire()
        return _tell(self._loop, lambda: self._lines.put_nowait(line))


class LineWriter:
    """Writes lines on a daemon thread, so that a client that does not read never stops the loop."""

    def __init__(self, descriptor: int, broken: Callable[[], None]) -> None:
        """`broken` is called on the loop when the other side has gone."""
        self._descriptor = descriptor
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, Callable[[], None] | None]] = queue.SimpleQueue()
        self._waiting = 0
        self._gone = False
        self._room = asyncio.Event()
        self._empty = asyncio.Event()
        self._room.set()
        self._empty.set()

    def start(self) -> None:
        """Begin to write."""
        threading.Thread(target=self._run, name="counterfoil-stdout", daemon=True).start()

    @property
    def full(self) -> bool:
        """True while so much waits that whoever has more should wait."""
        return not self._room.is_set()

    def offer(self, line: bytes, written: Callable[[], None] | None = None) -> None:
        """Queue a line; `written` is called on the loop once all of it has left this process."""
        if self._gone:
            return
        self._waiting += len(line)
        self._empty.clear()
        if self._waiting >= WAITING_BYTES:
            self._room.clear()
        self._lines.put((line, written))

    async def room(self) -> None:
        """Wait until there is room for more, or nobody to read it."""
        await self._room.wait()

    async def empty(self) -> None:
        """Wait until everything has been written, or there is nobody to read it."""
        await self._empty.wait()

    def _run(self) -> None:
        while True:
            line, written = self._lines.get()
            if not self._write(line):
                _tell(self._loop, self._lose)
                return
            if not _tell(self._loop, partial(self._done, len(line), written)):
                return

    def _write(self, line: bytes) -> bool:
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(self._descriptor, left[:CHUNK]) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                return False
        return True

    def _done(self, size: int, written: Callable[[], None] | None) -> None:
        self._waiting -= size
        if self._waiting < WAITING_BYTES:
            self._room.set()
        if not self._waiting:
            self._empty.set()
        if written is not None:
            written()

    def _lose(self) -> None:
        self._gone = True
        self._waiting = 0
        self._room.set()
        self._empty.set()
        self._broken()


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> bool:
    """Run something on the loop; False if the loop has ended, and nobody is left to be told."""
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:
        return False
    return True
