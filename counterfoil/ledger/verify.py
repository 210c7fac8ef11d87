"""Checking chains: over the database, over one run, over an exported file without any database.

A bad row is a problem of its run and names it; the rows after it are still checked, and so is every other run.
A chain shows edits, gaps and changed order by itself; that its end was cut is seen where the state names that end.
Nothing here repairs anything.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from sqlalchemy import Select, and_, bindparam, func, select

from .chain import Event, first_prev, link, rfc3339
from .errors import DamagedChainError
from .place import connect_read_only
from .sql import Fact, Sql, fetch, run
from .tables import calls, events, runs
from .walk import PAGE, all_events, events_of

PROBLEMS: Final = 1000  # a report's list; further ones are counted
LINE_BYTES: Final = 64 * 1024 * 1024
_MEMBERS: Final = {"run_id", "seq", "type", "at", "prev", "hash", "body"}


@dataclass(frozen=True, slots=True)
class Problem:
    """One bad row. `seq` is None where the row does not even say where it belongs."""

    run_id: str | None
    seq: int | None
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a check of chains found."""

    ok: bool
    events: int
    runs: int
    problems: tuple[Problem, ...]
    omitted: int = 0  # problems beyond the list's limit


@dataclass(frozen=True, slots=True)
class Row:
    """An event as it was found, with whatever types a damaged row may have; `claims` is what its body must say."""

    run_id: Any
    seq: Any
    prev: Any
    hash: Any
    body: Any
    claims: dict[str, Any]


class _Checker:
    """Follows any number of chains at once: rows of one run must come in order, runs may be mixed."""

    def __init__(self) -> None:
        self.events = 0
        self.omitted = 0
        self.problems: list[Problem] = []
        self._ends: dict[str, tuple[int, bytes]] = {}

    def feed(self, row: Row) -> None:
        self.events += 1
        if not isinstance(row.run_id, str) or not isinstance(row.seq, int):
            self.report(None, None, f"a row with run {row.run_id!r} and place {row.seq!r}")
            return
        seq, prev = self._ends.get(row.run_id) or (0, first_prev(row.run_id))
        what = _fault(row, seq + 1, prev)
        if what is not None:
            self.report(row.run_id, row.seq, what)
        self._ends[row.run_id] = (row.seq, row.hash if isinstance(row.hash, bytes) else prev)

    def report(self, run_id: str | None, seq: int | None, what: str) -> None:
        if len(self.problems) < PROBLEMS:
            self.problems.append(Problem(run_id, seq, what))
        else:
            self.omitted += 1

    def result(self) -> VerifyReport:
        problems = tuple(self.problems)
        return VerifyReport(not problems, self.events, len(self._ends), problems, self.omitted)


def _fault(row: Row, seq: int, prev: bytes) -> str | None:  # noqa: PLR0911 (one for each fault)
    """What is wrong with a row that should be at `seq` after `prev`."""
    if not (isinstance(row.prev, bytes) and isinstance(row.hash, bytes) and isinstance(row.body, str)):
        return "a column has another type"
    if row.seq != seq:
        return f"expected event {seq} here: one is missing or out of order"
    if row.prev != prev:
        return "it is not linked to the event before it"
    if link(row.prev, row.body.encode(errors="surrogatepass")) != row.hash:
        return "its body does not match its hash"
    try:
        said = _object(row.body)
    except (ValueError, RecursionError):
        return "its body is not a JSON object"
    for name, value in row.claims.items():
        if said.get(name) != value:
            return f"its {name} differs from its body"
    return None


def _row(event: Event) -> Row:
    at = rfc3339(event.at) if isinstance(event.at, int) and abs(event.at) < 1 << 57 else repr(event.at)  # pyright: ignore[reportUnnecessaryIsInstance] (a damaged row)
    claims = {
        "run_id": event.run_id, "seq": event.seq, "type": event.type, "at": at,
        "call_id": event.call_id, "tenant": event.tenant,
    }  # fmt: skip
    return Row(event.run_id, event.seq, event.prev, event.hash, event.body, claims)


# The ends of chains, as the state of calls and runs names them.


class _End(NamedTuple):
    call_id: str
    run_id: str
    seq: int
    head: bytes
    found: bytes | None
    last: int | None


def _ends() -> Select[*tuple[Any, ...]]:
    c, e = calls.c, events.alias("e")
    last = select(func.max(events.c.seq)).where(events.c.run_id == c.run_id).scalar_subquery()
    return (
        select(c.call_id, c.run_id, c.seq, c.head, e.c.hash, last)
        .select_from(calls.outerjoin(e, and_(e.c.run_id == c.run_id, e.c.seq == c.seq)))
        .where(c.seq > 0)
        .order_by(c.call_id)
    )


def _run_ends() -> Select[*tuple[Any, ...]]:
    r, e = runs.c, events.alias("e")
    last = select(func.max(events.c.seq)).where(events.c.run_id == r.run_id).scalar_subquery()
    return (
        select(r.run_id, r.run_id, r.seq, r.head, e.c.hash, last)
        .select_from(runs.outerjoin(e, and_(e.c.run_id == r.run_id, e.c.seq == r.seq)))
        .order_by(r.run_id)
    )


SELECT_ENDS = Sql(_ends().where(calls.c.call_id > bindparam("after", type_=calls.c.call_id.type)).limit(PAGE), _End)
SELECT_ENDS_OF = Sql(_ends().where(calls.c.run_id == bindparam("run", type_=calls.c.run_id.type)).limit(PAGE), _End)
SELECT_RUN_ENDS = Sql(_run_ends().where(runs.c.run_id > bindparam("after", type_=runs.c.run_id.type)).limit(PAGE), _End)
SELECT_RUN_END = Sql(_run_ends().where(runs.c.run_id == bindparam("run", type_=runs.c.run_id.type)), _End)


def _end_fault(end: _End) -> str | None:
    if end.found is None:
        return "the last event that the state names is missing"
    if end.found != end.head:
        return "the state names another event here"
    if end.run_id == end.call_id and end.last != end.seq:
        return "there are events after the one that the state names as last"
    return None


def verify_database(path: Path) -> VerifyReport:
    """Check every chain of a database, beside whatever servers write to it.

    Raises:
        sqlite3.OperationalError: there is no such file.
    """
    checker = _Checker()
    with closing(connect_read_only(path)) as connection:
        try:
            for event in all_events(connection):
                checker.feed(_row(event))
            for end in chain(_all_ends(connection, SELECT_ENDS), _all_ends(connection, SELECT_RUN_ENDS)):
                if (what := _end_fault(end)) is not None:
                    checker.report(end.run_id, end.seq, what)
        except sqlite3.DatabaseError as error:
            checker.report(None, None, f"the database cannot be read on after {checker.events} events: {error}")
    return checker.result()


def _all_ends(connection: sqlite3.Connection, sql: Sql[_End]) -> Iterator[_End]:
    after = ""
    while page := run(connection, fetch(sql, after=after)):
        yield from page
        after = page[-1].call_id


def chain_problem(run_id: str) -> Fact[Problem | None]:
    """The first problem of one run, or None."""
    checker, after, page = _Checker(), 0, None
    while page is None or len(page) == PAGE:
        page = yield from events_of(run_id, after)
        for event in page:
            checker.feed(_row(event))
        if checker.problems:
            return checker.problems[0]
        after += PAGE
    ends = [*(yield from fetch(SELECT_RUN_END, run=run_id)), *(yield from fetch(SELECT_ENDS_OF, run=run_id))]
    for end in ends:
        if (what := _end_fault(end)) is not None:
            return Problem(run_id, end.seq, what)
    return None


def sound(run_id: str) -> Fact[None]:
    """Check one run before anything is said about it.

    Raises:
        DamagedChainError: it is broken; the message names the row.
    """
    problem = yield from chain_problem(run_id)
    if problem is not None:
        raise DamagedChainError(run_id, problem.seq or 0, problem.what)


def verify_export(lines: BinaryIO) -> VerifyReport:
    """Check an export, line by line, with nothing but the file. Absent runs, or ends of runs, cannot be seen in it."""
    checker, number = _Checker(), 0
    while line := lines.readline(LINE_BYTES):
        number += 1
        found = _parse(line)
        if isinstance(found, str):
            checker.report(None, None, f"line {number} {found}")
        else:
            checker.feed(found)
    return checker.result()


def _object(text: str | bytes) -> dict[str, Any]:
    said: Any = json.loads(text)
    if not isinstance(said, dict):
        raise ValueError("not an object")  # noqa: TRY004 (as json.loads has it)
    return cast("dict[str, Any]", said)


def _parse(line: bytes) -> Row | str:
    try:
        said = _object(line)
    except (ValueError, RecursionError):
        return "is not a JSON object"
    if said.keys() != _MEMBERS:
        return f"is not an event with the members {', '.join(sorted(_MEMBERS))}"
    try:
        prev, digest = bytes.fromhex(said["prev"]), bytes.fromhex(said["hash"])
    except (ValueError, TypeError):
        return "has a hash that is not hexadecimal"
    claims = {name: said[name] for name in ("run_id", "seq", "type", "at")}
    return Row(said["run_id"], said["seq"], prev, digest, said["body"], claims)
