"""Checks of the ledger's place and of the ledger in it. One that is not there is not made here."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from ...ledger import inspection
from ...ledger.errors import LedgerError
from ...ledger.place import refuse_unsafe
from ...runtime.clock import SystemClock, rfc3339
from ..config import Configuration
from ..config.places import default_ledger_path
from .basis import Basis
from .finding import Finding, Level, note, ok, problem

LOW_BYTES: Final = 1_000_000_000
FULL_BYTES: Final = 50_000_000
AHEAD_S: Final = 5
"""How far the newest event may lie ahead of the clock before that is worth saying."""
_MEGABYTE: Final = 1_000_000


class Books:
    """One ledger's place, looked into once and only when a check asks."""

    def __init__(self, path: Path, configuration: Configuration | None) -> None:
        self.path = path
        self.configuration = configuration

    @classmethod
    def of(cls, basis: Basis) -> Books | None:
        """Those of a configuration; of one that is wrong, where a right one without `[ledger] url` would keep them."""
        if basis.path is None:
            return None
        found = basis.configuration
        if found is None and "url" in basis.table("ledger"):
            return None
        return cls(found.ledger_path if found else default_ledger_path(basis.path), found)

    @property
    def key(self) -> Path:
        """The key file beside the database."""
        return self.path.with_name(f"{self.path.name}.key")

    @property
    def is_there(self) -> bool:
        """True if there is a database."""
        return self.path.is_file()

    @cached_property
    def inspected(self) -> inspection.Inspection | LedgerError:
        """What it holds, or why it cannot be opened."""
        try:
            return inspection.inspect(self.path)
        except LedgerError as error:
            return error


def books(basis: Basis) -> Iterator[Finding]:
    """Everything about the ledger."""
    looked = Books.of(basis)
    if looked is None:
        yield note("ledger", "not looked at without a right configuration")
        return
    yield from _place(looked)
    yield from _space(looked)
    yield _durability(looked)
    if not looked.is_there:
        yield note("ledger", f"{looked.path} is not there yet: it and its key will be made at first start")
        return
    yield from _rights(looked)
    found = looked.inspected
    if isinstance(found, LedgerError):
        yield problem("ledger", str(found), "`counterfoil ledger verify` and `ledger backup` work without opening it")
    else:
        yield from _content(looked, found)


def _place(looked: Books) -> Iterator[Finding]:
    try:
        refuse_unsafe(looked.path)
    except LedgerError as error:
        yield problem("ledger place", str(error), "name a file on a local disk in [ledger] url")
    else:
        yield ok("ledger place", f"{looked.path.parent}: no network file system, no synchronised folder")


def _space(looked: Books) -> Iterator[Finding]:
    folder = next(folder for folder in looked.path.absolute().parents if folder.is_dir())
    free = shutil.disk_usage(folder).free
    said = f"{free // _MEGABYTE:,} MB free"
    if free < FULL_BYTES:
        yield problem("disk space", said, "make room: without it no call can be recorded, and none is sent")
    elif free < LOW_BYTES:
        yield note("disk space", said, "keep an eye on it: a full disk stops every call")
    else:
        yield ok("disk space", said)
    if not os.access(folder, os.W_OK | os.X_OK):
        yield problem(
            "ledger place", f"{folder} cannot be written by this account", "change its rights or [ledger] url"
        )


def _durability(looked: Books) -> Finding:
    if looked.configuration is not None and looked.configuration.ledger.durability == "normal":
        said = "normal: the last facts may be lost when the power fails, a killed process loses nothing"
        return note("durability", said, 'use durability = "full" where effects cost money')
    how = "fullfsync, past the drive's own cache" if sys.platform == "darwin" else "fsync; the drive must keep its word"
    return ok("durability", f"full: on disk before it is answered ({how})")


def _rights(looked: Books) -> Iterator[Finding]:
    if os.name != "posix":
        yield note("file rights", "not looked at on this system")
        return
    beside = [looked.path, looked.key, *(looked.path.with_name(f"{looked.path.name}-{end}") for end in ("wal", "shm"))]
    open_files = [path for path in beside if path.exists() and _shared(path)]
    for path in open_files:
        yield problem("file rights", f"{path} is {_mode(path)}: others can read it", f"chmod 600 {path}")
    folder = looked.path.parent
    if _shared(folder) & 0o022:
        yield problem("file rights", f"{folder} is {_mode(folder)}: others can swap its files", f"chmod 700 {folder}")
    elif _shared(folder):
        yield note(
            "file rights",
            f"{folder} is {_mode(folder)}: others can list it",
            f"chmod 700 {folder}, if it is no project's",
        )
    elif not open_files:
        yield ok("file rights", "folder 0700, files 0600")


def _shared(path: Path) -> int:
    """What a group and others may do."""
    return stat.S_IMODE(path.stat().st_mode) & 0o077


def _mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def _content(looked: Books, found: inspection.Inspection) -> Iterator[Finding]:
    if not found.is_current:
        yield _of_another_version(found)
        return
    if not found.whole:
        yield problem("ledger", f"{looked.path} lacks tables or columns", "restore it from a backup")
        return
    yield ok("ledger", f"{looked.path}: schema {found.version}, can be read")
    yield from _key(looked, found)
    yield _chain(found)
    yield _waiting(found)
    yield from _holds(found)
    yield from _time(found)
    yield _log(looked)
    yield from _processes(found)


def _of_another_version(found: inspection.Inspection) -> Finding:
    if found.version == 0:
        return note("ledger", "an empty file: the ledger will be made in it at first start")
    said = f"schema {found.version}; this version writes {found.latest}"
    return note("ledger", f"{said} and brings it forward at its next start", "or now: counterfoil ledger migrate")


def _key(looked: Books, found: inspection.Inspection) -> Iterator[Finding]:
    if looked.key.is_file():
        yield ok("ledger key", f"{looked.key} is there; back it up with the ledger")
    elif found.sealed:
        yield problem(
            "ledger key", f"{looked.key} is missing; {found.sealed} payloads need it", "put it back from a backup"
        )
    else:
        yield note("ledger key", f"{looked.key} will be made at first start")


def _chain(found: inspection.Inspection) -> Finding:
    if found.broken:
        return problem("chain", f"the newest chain is broken: {found.broken}", "see: counterfoil ledger verify")
    return ok("chain", "the newest one holds; all of them: counterfoil ledger verify")


def _waiting(found: inspection.Inspection) -> Finding:
    said = f"{found.pending} for a decision, {found.unresolved} unresolved"
    if found.pending or found.unresolved:
        return note("waiting", said, "see: counterfoil status")
    return ok("waiting", said)


def _holds(found: inspection.Inspection) -> Iterator[Finding]:
    """What an operator has stopped: whoever wonders why nothing goes on finds it here."""
    for hold in found.holds:
        what = f"{hold.kind} {hold.name}".rstrip()
        why = f": {hold.reason}" if hold.reason else ""
        said = f"{what} is held by {hold.by} since {rfc3339(hold.at)}{why}"
        yield note("holds", said, f"to let it be sent again: counterfoil release {what}")
    if not found.holds:
        yield ok("holds", "nothing is held")


def _time(found: inspection.Inspection) -> Iterator[Finding]:
    """Nothing was recorded later than now."""
    if found.newest is None:
        return
    ahead_s = (found.newest.at - SystemClock().now()) / 1_000_000
    if ahead_s > AHEAD_S:
        said = f"the newest event is of {rfc3339(found.newest.at)}, {ahead_s:.0f} s ahead of this clock"
        yield problem("clock", said, "set the clock: approvals and keys expire by it")


def _log(looked: Books) -> Finding:
    wal = looked.path.with_name(f"{looked.path.name}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    said = f"{size // 1000:,} kB"
    if size > inspection.LARGE_LOG_BYTES:
        return note(
            "write-ahead log", f"{said}: a reader keeps it from being folded back", "end long readers of the file"
        )
    return ok("write-ahead log", said)


def _processes(found: inspection.Inspection) -> Iterator[Finding]:
    lines = {True: "has it open", None: "entered itself, and may be alive", False: "is gone, and was not signed off"}
    for process in found.processes:
        since = rfc3339(process.started_at)
        said = f"process {process.pid} on {process.host}, since {since}: {lines[process.lives]}"
        level = Level.OK if process.lives else Level.NOTE
        yield Finding("processes", level, said, "" if process.lives else "the next server takes over what it left")
    if not found.processes:
        yield ok("processes", "nobody has it open")
