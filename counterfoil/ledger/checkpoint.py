"""When the write-ahead log is folded back into the database, so that it stays small.

SQLite itself copies pages back at every thousandth page but never shortens the file, and a reader that holds a
transaction stops it altogether. So the writer's thread looks once in a while: when nothing happens it folds the log
back, and when the log is large it also cuts the file. Neither ever waits for a reader; it is tried again instead.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """When the log is looked at, and how large it may grow."""

    idle_s: float = 2.0  # without a fact for so long the log is folded back
    look_s: float = 5.0  # under load its size is looked at this often
    cut_bytes: int = 16 * 1024 * 1024  # beyond it the file is cut as well
    bound_bytes: int = 64 * 1024 * 1024  # beyond it health is degraded and a warning is written


class Checkpointer:
    """Belongs to the writer's thread; only `wal_bytes` and `is_large` may be asked from elsewhere."""

    def __init__(self, path: Path, limits: LogLimits) -> None:
        self._wal = path.with_name(f"{path.name}-wal")
        self._limits = limits
        self._dirty = True
        self._next_look = time.monotonic() + limits.look_s
        self._warned = False

    def wait_s(self) -> float | None:
        """How long the writer may sleep before the next look; None if nothing is left to fold back."""
        return self._limits.idle_s if self._dirty else None

    def wal_bytes(self) -> int:
        """The log's size on disk, 0 if there is none."""
        try:
            return self._wal.stat().st_size
        except OSError:
            return 0

    def is_large(self) -> bool:
        """Whether the log is beyond its bound."""
        return self.wal_bytes() > self._limits.bound_bytes

    def after_write(self, connection: sqlite3.Connection) -> None:
        """After each batch; nearly always does nothing."""
        self._dirty = True
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._limits.look_s
            if self.wal_bytes() > self._limits.cut_bytes:
                self.look(connection)

    def look(self, connection: sqlite3.Connection) -> None:
        """Fold back what can be, and cut the file if it is large; a failure is only logged, since nothing is lost."""
        size = self.wal_bytes()
        mode = "TRUNCATE" if size > self._limits.cut_bytes else "PASSIVE"
        try:
            busy, pages, folded = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.Error as error:
            _log.warning("the ledger's write-ahead log could not be folded back: %s", error)
            return
        self._dirty = bool(busy) or pages != folded
        self._warn(self.wal_bytes())

    def _warn(self, size: int) -> None:
        if size > self._limits.bound_bytes and not self._warned:
            _log.warning("the ledger's write-ahead log is %d MB: a reader holds an old transaction open", size >> 20)
        self._warned = size > self._limits.bound_bytes
