"""Every error that the ledger raises on purpose.

    LedgerError
    ├── CannotRecordError       a fact was not stored; `reason` says why; the ledger goes on and may take the next one
    ├── LedgerLockedError       another process held the file for too long while it was opened
    ├── NewerLedgerError        written by a later version of this program; nothing was touched
    ├── DamagedLedgerError      not a database, not a ledger, or a part of it does not read back
    │   └── DamagedChainError   one run's events were changed: that run is refused, the others go on
    ├── UnsupportedLedgerError  a place or an address where a ledger cannot be kept safely
    ├── KeyMissingError         the key that sealed a payload is not here
    └── NoSuchPayloadError      no payload has this id

A fact's own exceptions (its guards) are no part of this tree: they go to whoever recorded it, as they are.
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum


class LedgerError(Exception):
    """Anything that the ledger says no to."""


class Reason(StrEnum):
    """Why a fact could not be stored."""

    LOCKED = "locked"  # another process held the write lock for longer than `busy_s`
    FULL = "full"  # no space left
    READ_ONLY = "read_only"
    IO = "io"  # the disk refused to read or write
    SCHEMA = "schema"  # a table or column is missing
    DAMAGED = "damaged"  # the file is not, or no longer, a sound database
    MOVED = "moved"  # the file was deleted, or another one lies in its place
    OVERLOADED = "overloaded"  # too many facts wait already
    WRITER_DEAD = "writer_dead"
    CLOSED = "closed"


class CannotRecordError(LedgerError):
    """A fact was not stored. `reason` is one word of `Reason`, safe to show; the message may hold a file's path."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"cannot record ({reason}): {message}")
        self.reason = reason


class CannotReadError(LedgerError):
    """A question got no answer: the file is not there, is locked, or cannot be read now."""


class LedgerLockedError(LedgerError):
    """The file stayed locked while the ledger was opened."""


class NewerLedgerError(LedgerError):
    """The file's schema is newer than this program knows."""


class DamagedLedgerError(LedgerError):
    """The file, or what was read from it, is not what the ledger wrote."""


class DamagedChainError(DamagedLedgerError):
    """The chain of one run is broken at one row; nothing may be concluded about that run."""

    def __init__(self, run_id: str, seq: int, what: str) -> None:
        super().__init__(
            f"run {run_id} is damaged at event {seq}: {what}; restore the ledger from a backup or export it"
        )
        self.run_id = run_id
        self.seq = seq
        self.what = what


class UnsupportedLedgerError(LedgerError):
    """The ledger cannot be kept safely at this place, or this kind of address is not served."""


class KeyMissingError(LedgerError):
    """A key is missing, too weak, or not the one that sealed what is here."""


class NoSuchPayloadError(LedgerError):
    """No payload has this id."""


_REASONS = {
    sqlite3.SQLITE_BUSY: Reason.LOCKED,
    sqlite3.SQLITE_LOCKED: Reason.LOCKED,
    sqlite3.SQLITE_PROTOCOL: Reason.LOCKED,
    sqlite3.SQLITE_FULL: Reason.FULL,
    sqlite3.SQLITE_READONLY: Reason.READ_ONLY,
    sqlite3.SQLITE_PERM: Reason.READ_ONLY,
    sqlite3.SQLITE_AUTH: Reason.READ_ONLY,
    sqlite3.SQLITE_IOERR: Reason.IO,
    sqlite3.SQLITE_CANTOPEN: Reason.IO,
    sqlite3.SQLITE_NOMEM: Reason.IO,
    sqlite3.SQLITE_CORRUPT: Reason.DAMAGED,
    sqlite3.SQLITE_NOTADB: Reason.DAMAGED,
    sqlite3.SQLITE_ERROR: Reason.SCHEMA,
    sqlite3.SQLITE_SCHEMA: Reason.SCHEMA,
}


def reason_of(error: sqlite3.Error) -> Reason | None:
    """What a driver's error says about the file; None if the fault lies in the values that were handed over."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else _REASONS.get(code & 0xFF)  # the low byte is SQLite's primary result code


def is_locked(error: sqlite3.Error) -> bool:
    """Whether waiting may help."""
    return reason_of(error) is Reason.LOCKED
