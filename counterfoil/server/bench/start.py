"""From spawn to the first answer over stdio: our server and a bare SDK server, in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

from . import bare
from .figures import Figure, at_most
from .rounds import Sample, Tell, cpu_ms, wall_ms
from .settings import Settings
from .stage import CONFIG, folder

TARGET: Final = 1.5
LIMIT_S: Final = 60.0
END_S: Final = 20.0
_AGAINST: Final = "a bare SDK server's start"
_PACKAGE_PARENT: Final = Path(__file__).parents[3]
_META: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_ASK: Final = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": _META}})


class StartError(RuntimeError):
    """A server ended, or was ended, before it answered."""


def measure(settings: Settings, tell: Tell) -> list[Figure]:
    """Until tools/list is answered; the first start of each, which compiles and creates files, is not counted."""
    with folder() as path:
        programs = {
            "ours": [sys.executable, "-m", "counterfoil", "serve", "--config", str(path / CONFIG)],
            "bare": [sys.executable, "-P", str(Path(bare.__file__))],
        }
        taken: dict[str, list[Sample]] = {name: [] for name in programs}
        for number in range(settings.starts + 1):
            tell(f"start: round {number} of {settings.starts}" if number else "start: warming up")
            for name, program in programs.items():
                sample = _started(program, path)
                if number:
                    taken[name].append(sample)
    ours, reference = taken["ours"], taken["bare"]
    return [
        Figure.of(
            "start.wall", "start to first answer, wall", "ms", wall_ms(ours), wall_ms(reference),
            against=_AGAINST, target=at_most(TARGET),
        ),
        Figure.of("start.cpu", "a process from start to end, CPU", "ms", cpu_ms(ours), cpu_ms(reference),
                  against=_AGAINST),
    ]  # fmt: skip


def _started(program: Sequence[str], cwd: Path) -> Sample:
    """One start, one answer, and an orderly end; the process is killed if it still lives.

    Raises:
        StartError: no answer came.
    """
    surroundings = os.environ | {"PYTHONPATH": str(_PACKAGE_PARENT)}
    cpu, begun = _children_s(), time.perf_counter()
    process = subprocess.Popen(  # noqa: S603 (our own two programs)
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, env=surroundings
    )
    patience = threading.Timer(LIMIT_S, process.kill)
    patience.start()
    try:
        stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        stdin.write(_ASK.encode() + b"\n")
        stdin.flush()
        answer = stdout.readline()
        wall = time.perf_counter() - begun
        if b'"tools"' not in answer:
            raise StartError(f"{' '.join(program)}: expected an answer to tools/list, got {answer[:200]!r}")
        stdin.close()
        process.wait(END_S)
    finally:
        patience.cancel()
        process.kill()
        process.wait()
        cast("IO[bytes]", process.stdout).close()
    return Sample(_children_s() - cpu, wall)


def _children_s() -> float:
    """CPU time of all children that have ended, in seconds; 0 on systems that do not count it."""
    spent = os.times()
    return spent.children_user + spent.children_system
