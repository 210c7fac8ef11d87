"""The ledger's events as JSON Lines, to be kept elsewhere and checked there without this program's database.

A line is {run_id, seq, type, at, prev, hash, body}, ordered by run and place; hashes are hexadecimal and `body` is
the very text that was hashed. Payloads are never exported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

from .chain import Event, rfc3339
from .place import reading
from .walk import all_events


def export(path: Path, out: BinaryIO) -> int:
    """Write every event; how many there were. Damaged rows are written as they are, for `verify` to name.

    Raises:
        DamagedLedgerError, LedgerLockedError, CannotRecordError: see `place.reading`.
    """
    count = 0
    with reading(path) as connection:
        for event in all_events(connection):
            out.write(line_of(event))
            count += 1
    return count


def line_of(event: Event) -> bytes:
    """One event as a line."""
    line: dict[str, Any] = {
        "run_id": event.run_id, "seq": event.seq, "type": event.type, "at": _time(event.at),
        "prev": _hex(event.prev), "hash": _hex(event.hash), "body": event.body,
    }  # fmt: skip
    return (
        json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=repr).encode(errors="backslashreplace")
        + b"\n"
    )


def _time(at: Any) -> Any:  # noqa: ANN401 (a damaged row may hold anything)
    return rfc3339(at) if isinstance(at, int) and abs(at) < 1 << 57 else at


def _hex(value: Any) -> Any:  # noqa: ANN401 (as above)
    return value.hex() if isinstance(value, bytes) else value
