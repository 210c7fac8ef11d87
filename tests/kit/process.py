"""A `counterfoil` command in a process of its own, in the test's hands: a fork of the zygote, or started from nothing.

Whatever is started is ended by whoever started it, by its own id.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from tests.kit.wanted import Wanted

ROOT: Final = Path(__file__).parents[2]
START_LIMIT_S: Final = 30.0
END_LIMIT_S: Final = 10.0
_LOOK_S: Final = 0.005
_LONGEST_LINE: Final = 64 * 1024 * 1024


class Ending(Protocol):
    """How a process is known to have ended."""

    def code(self) -> int | None:
        """Its exit code, the negative of a signal's number, or None while it lives."""
        ...


@dataclass(slots=True)
class Forked:
    """A fork of the zygote, which tells the exit code over this connection."""

    connection: socket.socket
    known: int | None = None

    def code(self) -> int | None:
        """See `Ending`."""
        if self.known is None:
            with suppress(BlockingIOError):
                said = self.connection.recv(64)
                self.connection.close()
                self.known = int(said)
        return self.known


@dataclass(slots=True)
class Spawned:
    """A child of this process."""

    process: subprocess.Popen[bytes]

    def code(self) -> int | None:
        """See `Ending`."""
        return self.process.poll()


@dataclass(frozen=True, slots=True)
class Started:
    """One process and the test's ends of its stdin and stdout."""

    pid: int
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    reading: asyncio.BaseTransport
    ending: Ending

    @property
    def returncode(self) -> int | None:
        """Its exit code, or None while it lives."""
        return self.ending.code()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it is gone."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def close(self) -> None:
        """Let go of the pipes."""
        self.stdin.close()
        self.reading.close()

    async def ended(self, limit_s: float = END_LIMIT_S) -> int:
        """Wait until the process is gone, whoever else holds its pipes; its exit code."""
        ends = asyncio.get_running_loop().time() + limit_s
        while (code := self.returncode) is None:
            if asyncio.get_running_loop().time() > ends:
                raise TimeoutError(f"process {self.pid} lives on after {limit_s} s")
            await asyncio.sleep(_LOOK_S)
        return code


async def start(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, errors: Path, *, program: Sequence[str] = ()
) -> Started:
    """Start `counterfoil ARGUMENTS`, by the zygote; or `program` with the arguments, from nothing."""
    their_stdin, our_stdin = os.pipe()
    our_stdout, their_stdout = os.pipe()
    log = os.open(errors, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    theirs = (their_stdin, their_stdout, log)
    try:
        if program:
            command = [*program, *arguments]
            process = subprocess.Popen(  # noqa: ASYNC220 (its pipes are made here, and it is awaited by looking)
                command, stdin=their_stdin, stdout=their_stdout, stderr=log, cwd=folder, env=dict(environment)
            )
            pid: int = process.pid
            ending: Ending = Spawned(process)
        else:
            pid, ending = _fork(arguments, environment, folder, theirs)
    finally:
        for number in theirs:
            os.close(number)
    loop = asyncio.get_running_loop()
    stdout = asyncio.StreamReader(limit=_LONGEST_LINE)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(our_stdout, "rb"))
    writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(our_stdin, "wb"))
    return Started(pid, asyncio.StreamWriter(writing, protocol, None, loop), stdout, reading, ending)


def _fork(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, theirs: tuple[int, int, int]
) -> tuple[int, Ending]:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(START_LIMIT_S)
    connection.connect(_zygote())
    wanted = Wanted(list(arguments), dict(environment), str(folder))
    socket.send_fds(connection, [wanted.message()], theirs)
    said = b""
    while not said.endswith(b"\n"):
        said += connection.recv(1)
    connection.setblocking(False)  # noqa: FBT003 (the socket's own name for it)
    return int(said), Forked(connection)


@cache
def _zygote() -> str:
    """The socket of this session's zygote; it is started when it is first needed, and ends with this process."""
    folder = tempfile.mkdtemp(prefix="counterfoil-kit-")
    path = Path(folder) / "zygote"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kit.zygote", str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip

    def end() -> None:
        process.communicate(timeout=END_LIMIT_S)
        path.unlink(missing_ok=True)
        path.parent.rmdir()

    atexit.register(end)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "the zygote did not start; its stderr says why"
    return str(path)
