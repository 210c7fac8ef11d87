"""The ledger's file as somebody beside the product sees it: its rows, a lock on it, damage to it. For tests only."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

UNDER_WAY: Final = {"dispatched", "queued"}
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Book:
    """One ledger's file."""

    path: Path

    def calls(self, where: str = "1 = 1") -> list[dict[str, Any]]:
        """The rows of the calls, oldest first."""
        return self.rows(f"SELECT * FROM calls WHERE {where} ORDER BY created_at, call_id")  # noqa: S608 (the test's own)

    def call(self, call_id: str) -> dict[str, Any]:
        """The row of one call."""
        (row,) = self.rows("SELECT * FROM calls WHERE call_id = ?", call_id)
        return row

    def history(self, call_id: str) -> list[str]:
        """The types of a call's events, in order."""
        return [row["type"] for row in self.rows("SELECT type FROM events WHERE run_id = ? ORDER BY seq", call_id)]

    def under_way(self) -> list[str]:
        """The calls that look as if somebody worked on them."""
        return [row["call_id"] for row in self.calls() if row["state"] in UNDER_WAY]

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """Whatever a question finds."""
        with closing(self._connect()) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(statement, values)]

    def change(self, statement: str, *values: object) -> int:
        """Do what only somebody beside the product would do; how many rows it touched."""
        with closing(self._connect()) as connection:
            return connection.execute(statement, values).rowcount

    @contextmanager
    def held(self, how: str = "BEGIN IMMEDIATE") -> Generator[sqlite3.Connection]:
        """A transaction of another process, until the end of the block."""
        with closing(self._connect()) as connection:
            connection.execute(how)
            yield connection
            connection.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_PATIENCE_S, isolation_level=None)
