"""The far side of the crash tests: a folder that outlives every server, where effects are counted and kills are set.

Each effect is one line, appended with O_APPEND and fsynced under a lock. Nothing here knows Counterfoil.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HOLD_LIMIT_S: Final = 25.0
STEP_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class World:
    """One test's far side."""

    folder: Path

    def act(self, tool: str, note: str, action_id: str, *, honours_key: bool = False) -> str:
        """Have the effect and name it; the same key again, where it is honoured, names the first one."""
        with self._locked():
            if honours_key:
                for effect in self.effects(tool):
                    if effect["action_id"] == action_id:
                        return str(effect["reference"])
            reference = f"{tool}-{len(self.effects()) + 1}"
            self._append("effects", {"tool": tool, "note": note, "action_id": action_id, "reference": reference})
            return reference

    def effects(self, tool: str | None = None) -> list[dict[str, Any]]:
        """What has happened, in order."""
        return [line for line in self._lines("effects") if tool is None or line["tool"] == tool]

    def found(self, action_id: str) -> str | None:
        """The reference of an action's effect, if it is there."""
        return next((str(line["reference"]) for line in self.effects() if line["action_id"] == action_id), None)

    def log(self, name: str, **members: object) -> None:
        """Append a line to a list of its own, with the machine's monotonic time."""
        with self._locked():
            self._append(name, {**members, "at": time.monotonic()})

    def logged(self, name: str) -> list[dict[str, Any]]:
        """The lines of such a list."""
        return self._lines(name)

    def set(self, mark: str) -> None:
        """Put a mark: `die-POINT` kills whoever passes the point next, `hold-POINT` keeps it there."""
        (self.folder / mark).touch()

    def take(self, mark: str) -> bool:
        """Take a mark away; whether it was there."""
        try:
            (self.folder / mark).unlink()
        except FileNotFoundError:
            return False
        return True

    def is_set(self, mark: str) -> bool:
        """Whether a mark is there."""
        return (self.folder / mark).exists()

    async def passes(self, point: str) -> None:
        """A tool has come to a point: it may be killed there, or kept until it is released."""
        if self.take(f"die-{point}"):
            die()
        if not self.is_set(f"hold-{point}"):
            return
        self.set(f"at-{point}")
        ends = time.monotonic() + HOLD_LIMIT_S
        while self.is_set(f"hold-{point}") and time.monotonic() < ends:
            await asyncio.sleep(STEP_S)

    @contextmanager
    def _locked(self) -> Generator[None]:
        handle = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _append(self, name: str, line: dict[str, object]) -> None:
        handle = os.open(self.folder / f"{name}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            os.write(handle, json.dumps(line).encode() + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)

    def _lines(self, name: str) -> list[dict[str, Any]]:
        with suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]
        return []


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    while True:
        time.sleep(1)


def here() -> World:
    """The world of this process."""
    return World(Path(os.environ["WORLD"]))
