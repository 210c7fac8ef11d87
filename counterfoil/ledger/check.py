"""Checking the invariants that hold between the tables of a ledger (see `rules`), each with the rows that break it.

Chains are `verify`'s. A problem here is a fault of this program, of the disk, or of somebody's hand; nothing is
repaired, because every repair would be a guess.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import literal, select

from .evidence import contradicts, happened_after_all, late_of, took_effect
from .migrations import is_whole
from .place import connect_read_only
from .rows import AttemptRow
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


class _Settled(NamedTuple):
    call_id: str
    effect: str
    outcome: str | None
    sent: str
    details: str | None


_a, _c = attempts.c, calls.c
_reported_late = select(literal(1)).where(_a.call_id == _c.call_id, _a.late.is_not(None)).exists()
SELECT_SETTLED = Sql(
    select(_c.call_id, _c.effect, _c.outcome, _c.sent, _c.details).where(ENDED_CALL, _reported_late), _Settled
)
SELECT_CROSSINGS = Sql(
    select(*[_a[name] for name in AttemptRow._fields])
    .where(_a.call_id.in_(select(_c.call_id).where(ENDED_CALL, _reported_late)))
    .order_by(_a.call_id, _a.generation),
    AttemptRow,
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
    """Settled calls of which an attempt reported the opposite afterwards."""
    crossings: defaultdict[str, list[AttemptRow]] = defaultdict(list)
    for crossing in run(connection, fetch(SELECT_CROSSINGS)):
        crossings[crossing.call_id].append(crossing)
    breaches: list[Breach] = []
    for row in run(connection, fetch(SELECT_SETTLED)):
        mine = crossings[row.call_id]
        said = [(crossing.generation, _against(row, crossing, mine)) for crossing in mine]
        breaches += [
            Breach(
                "late_agrees", "attempts", f"{row.call_id}/{number}",
                f"the call is settled as {row.outcome} and its late settlement says {outcome}",
            )
            for number, outcome in said if outcome is not None
        ]  # fmt: skip
        breaches += [
            Breach(
                "effect_once", "attempts", f"{row.call_id}/{crossing.generation}",
                "it was said to have had no effect, the call was sent again, and its late settlement says that it had "
                "one: look whether it happened twice",
            )
            for crossing in mine if _happened_after_all(crossing, mine)
        ]  # fmt: skip
    return breaches[:ROWS]


def _happened_after_all(crossing: AttemptRow, crossings: list[AttemptRow]) -> bool:
    try:
        return happened_after_all(crossing, crossings)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False  # told as unreadable by its own rule


def _against(row: _Settled, crossing: AttemptRow, crossings: list[AttemptRow]) -> str | None:
    """What a late settlement says against the call's own; None if nothing."""
    is_read = row.effect == "read"
    try:
        stated = took_effect(row.outcome, row.sent, is_read=is_read)
        if stated is None and json.loads(row.details or "{}").get("effect") == "none":
            stated = False
        late = late_of(crossing)
        return (
            str(late["outcome"]) if late and contradicts(crossing, crossings, stated=stated, is_read=is_read) else None
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return "unreadable"
