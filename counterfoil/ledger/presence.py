"""A lock file for each owner, held for the life of its process: the kernel lets go of it even after kill -9.

It proves a death at once, where counting beats takes a lease. It proves nothing else: a missing file means nothing,
and a process that is stopped but alive keeps its lock.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_file(ledger: Path, owner_id: str) -> Path:
    """Where the lock of one owner lies."""
    return ledger.with_name(f"{ledger.name}.owners") / f"{owner_id}.lock"


def is_held(file: Path) -> bool | None:
    """Whether a living process holds this lock; None if there is no such file."""
    try:
        handle = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        _try_lock(handle)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(handle)


class Presence:
    """The lock files beside one ledger; holds that of its own owner."""

    def __init__(self, ledger: Path, owner_id: str) -> None:
        """Take the owner's lock."""
        self._ledger = ledger
        self._own = owner_id
        self._file(owner_id).parent.mkdir(mode=0o700, exist_ok=True)
        self._handle: int | None = os.open(self._file(owner_id), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        _try_lock(self._handle)

    def is_dead(self, owner_id: str) -> bool:
        """Whether that owner's process is surely gone. False also where nothing is known."""
        return owner_id != self._own and is_held(self._file(owner_id)) is False

    def forget(self, owner_id: str) -> None:
        """Remove the file of an owner that ended or was declared lapsed."""
        self._file(owner_id).unlink(missing_ok=True)

    def release(self) -> None:
        """Let go of the own lock, in an orderly end."""
        if self._handle is not None:
            if sys.platform != "win32":  # there an open file cannot be removed
                self.forget(self._own)
            os.close(self._handle)
            self._handle = None
            if sys.platform == "win32":
                self.forget(self._own)

    def _file(self, owner_id: str) -> Path:
        return lock_file(self._ledger, owner_id)
