"""The invariants that hold between the tables of a ledger, each with the rows that break it.

Chains are `verify`'s. A problem here is a fault of this program, of the disk, or of somebody's hand; nothing is
repaired, because every repair would be a guess.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, func, literal, or_, select

from .doubts import contradicted
from .migrations import is_whole
from .place import connect_read_only
from .rows import SELECT_ATTEMPTS, AttemptRow, CallRow
from .sql import Sql, fetch, run
from .states import SENT_AND_OPEN, CallState
from .tables import attempts, calls, events, keys, leases, payload_chunks, payloads

ROWS: Final = 100  # of each rule


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


class Found(NamedTuple):
    """The row that a rule's query names."""

    row: str


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant: the query finds the rows that break it."""

    name: str
    table: str
    what: str
    sql: Sql[Found]


_c, _a = calls.c, attempts.c
_settled = _c.state == CallState.SETTLED.value
_refused = _c.state == CallState.REFUSED.value
_sent: ColumnElement[bool] = or_(*(_c.state == state.value for state in sorted(SENT_AND_OPEN)))


def _rule(name: str, table: str, what: str, query: Select[Any]) -> Rule:
    return Rule(name, table, what, Sql(query.limit(ROWS), Found))


def _no(table: Any, *match: Any) -> ColumnElement[bool]:  # noqa: ANN401 (SQLAlchemy's unions of column types)
    return ~select(literal(1)).select_from(table).where(*match).exists()


RULES: Final = (
    _rule(
        "dispatch_recorded", "calls", "it was sent and has no attempt of its generation",
        select(_c.call_id).where(_sent, _no(attempts, _a.call_id == _c.call_id)),
    ),
    _rule(
        "settlement_recorded", "calls", "it is settled and has no outcome or no time of settlement",
        select(_c.call_id).where(_settled, or_(_c.outcome.is_(None), _c.settled_at.is_(None))),
    ),
    _rule(
        "open_has_no_outcome", "calls", "it is open and has an outcome",
        select(_c.call_id).where(_sent, _c.state != CallState.AWAITING_RECONCILIATION.value, _c.outcome.is_not(None)),
    ),
    _rule(
        "generations_gapless", "attempts", "the generations of its attempts have a gap",
        select(_a.call_id)
        .group_by(_a.call_id)
        .having(or_(func.min(_a.generation) != 1, func.max(_a.generation) != func.count())),
    ),
    _rule(
        "attempt_has_call", "attempts", "its call is missing",
        select(_a.call_id).where(_no(calls, _c.call_id == _a.call_id)),
    ),
    _rule(
        "head_recorded", "calls", "its last event is missing or another one",
        select(_c.call_id).where(
            _c.seq > 0,
            _no(events, events.c.run_id == _c.run_id, events.c.seq == _c.seq, events.c.hash == _c.head),
        ),
    ),
    _rule(
        "head_is_last", "calls", "there are events after the one that it names as last",
        select(_c.call_id).where(
            _c.run_id == _c.call_id,
            select(literal(1)).where(events.c.run_id == _c.run_id, events.c.seq > _c.seq).exists(),
        ),
    ),
    _rule(
        "lease_has_open_call", "leases", "its call is missing or has ended",
        select(leases.c.call_id).where(
            _no(
                calls,
                _c.call_id == leases.c.call_id,
                _c.state != CallState.SETTLED.value,
                _c.state != CallState.REFUSED.value,
            )
        ),
    ),
    _rule(
        "key_has_call", "keys", "its call is missing",
        select(keys.c.call_id).where(_no(calls, _c.call_id == keys.c.call_id)),
    ),
    _rule(
        "arguments_kept", "calls", "it is open and its arguments are missing",
        select(_c.call_id).where(_sent, _c.args_payload != "", _no(payloads, payloads.c.payload_id == _c.args_payload)),
    ),
    _rule(
        "output_kept", "calls", "its output is missing",
        select(_c.call_id).where(
            _c.output_payload.is_not(None), _no(payloads, payloads.c.payload_id == _c.output_payload)
        ),
    ),
    _rule(
        "payload_whole", "payloads", "chunks of it are missing",
        select(payloads.c.payload_id)
        .select_from(payloads.outerjoin(payload_chunks, payload_chunks.c.payload_id == payloads.c.payload_id))
        .where(payloads.c.chunks > 1)
        .group_by(payloads.c.payload_id, payloads.c.chunks)
        .having(func.count(payload_chunks.c.n) != payloads.c.chunks - 1),
    ),
)  # fmt: skip


SELECT_LATE: Sql[CallRow] = Sql(
    select(*[_c[name] for name in CallRow._fields]).where(
        or_(_settled, _refused), select(literal(1)).where(_a.call_id == _c.call_id, _a.late.is_not(None)).exists()
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
