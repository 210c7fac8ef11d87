"""A copy of a ledger while servers write to it.

The key file is no part of it: without that file, or the configured keys, payloads in the copy cannot be opened.
Keep both, apart.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from .errors import CannotRecordError, Reason
from .place import connect_read_only, publish


def backup(path: Path, target: Path) -> int:
    """Copy the database to a new file, private to its owner; its size in bytes. The name appears once it is whole.

    It is copied in one step: in several, each write of a server in between would start it anew.

    Raises:
        FileExistsError: there is a file of that name; nothing was changed.
        CannotRecordError: it could not be read or written.
    """
    if target.exists():
        raise FileExistsError(f"{target} exists; a backup never replaces a file")

    def fill(draft: Path) -> None:
        with closing(connect_read_only(path)) as source, closing(sqlite3.connect(draft)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it; opening a ledger sets WAL again

    try:
        written = publish(target, fill)
    except (sqlite3.Error, OSError) as error:
        raise CannotRecordError(Reason.IO, f"{path} could not be copied to {target}: {error}") from error
    if not written:
        raise FileExistsError(f"{target} exists; a backup never replaces a file")
    return target.stat().st_size
