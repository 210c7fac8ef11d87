"""Checking the invariants that hold between the tables of a ledger (see `rules`), each with the rows that break it.

Chains are `verify`'s. A problem here is a fault of this program, of the disk, or of somebody's hand; nothing is
repaired, because every repair would be a guess.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import literal, select

from .doubts import contradicted
from .migrations import is_whole
from .place import connect_read_only
from .rows import SELECT_ATTEMPTS, AttemptRow, CallRow
from .rules import ENDED_CALL, ROWS, RULES
from .sql import Sql, fetch, run
from .tables import attempts, calls


@dataclass(frozen=True, slots=True)
class Breach:
    """One row that breaks a rule."""

    rule: str
    table: str
    row: str
    what: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check of the invariants found; at most 100 rows of each rule."""

    ok: bool
    breaches: tuple[Breach, ...]


SELECT_LATE: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields]).where(
        ENDED_CALL,
        select(literal(1)).where(attempts.c.call_id == calls.c.call_id, attempts.c.late.is_not(None)).exists(),
    ),
    CallRow,
)


def check(path: Path) -> CheckReport:
    """Check the invariants, beside whatever servers write.

    Raises:
        sqlite3.OperationalError: there is no such file.
    """
    breaches: list[Breach] = []
    with closing(connect_read_only(path)) as connection:
        breaches += _file(connection)
        try:
            for rule in RULES:
                found = run(connection, fetch(rule.sql))
                breaches += [Breach(rule.name, rule.table, str(row.row), rule.what) for row in found]
            breaches += _contradictions(connection)
        except sqlite3.DatabaseError as error:
            breaches.append(Breach("readable", "database", "", f"it cannot be read on: {error}"))
    return CheckReport(not breaches, tuple(breaches))


def _file(connection: sqlite3.Connection) -> list[Breach]:
    try:
        said = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({ROWS})")]
        whole = is_whole(connection)
    except sqlite3.DatabaseError as error:
        return [Breach("integrity", "database", "", str(error))]
    breaches = [Breach("integrity", "database", "", line) for line in said if line != "ok"]
    if not whole:
        breaches.append(Breach("schema", "database", "", "a table or column is missing"))
    return breaches


def _contradictions(connection: sqlite3.Connection) -> list[Breach]:
    """Ended calls whose late evidence says of the effect what their row denies."""
    breaches: list[Breach] = []
    for row in run(connection, fetch(SELECT_LATE)):
        crossings = run(connection, fetch(SELECT_ATTEMPTS, call_id=row.call_id))
        what = _contradiction(row, crossings)
        if what is not None:
            numbers = [crossing.generation for crossing in crossings if crossing.late is not None]
            breaches.append(Breach("late_agrees", "attempts", f"{row.call_id}/{numbers[-1]}", what))
            if len(breaches) == ROWS:
                break
    return breaches


def _contradiction(row: CallRow, crossings: list[AttemptRow]) -> str | None:
    try:
        if contradicted(row, crossings):
            return f"the call ended as {row.outcome}, and what an attempt reported late says otherwise of its effect"
    except (ValueError, KeyError, AttributeError):
        return "a late settlement cannot be read"
    return None
