"""Walking over all events in the order of their chains, a page at a time.

Between two pages no transaction is open, so a walk over a large ledger neither waits for its writers nor keeps
their log from being folded back. What is added to a run that was passed already is not seen; nothing is seen twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from sqlalchemy import bindparam, select, tuple_

from .chain import COLUMNS, Event
from .sql import Fact, Sql, fetch, run
from .tables import events

PAGE: Final = 500

_run = bindparam("run", type_=events.c.run_id.type)
_seq = bindparam("after_seq", type_=events.c.seq.type)
SELECT_PAGE = Sql(
    select(*COLUMNS)
    .where(tuple_(events.c.run_id, events.c.seq) > tuple_(_run, _seq))
    .order_by(events.c.run_id, events.c.seq)
    .limit(PAGE),
    Event,
)
SELECT_RUN_PAGE = Sql(
    select(*COLUMNS).where(events.c.run_id == _run, events.c.seq > _seq).order_by(events.c.seq).limit(PAGE), Event
)


def all_events(connection: sqlite3.Connection) -> Iterator[Event]:
    """Every event, by run and place."""
    run_id, seq = "", -1
    while page := run(connection, fetch(SELECT_PAGE, run=run_id, after_seq=seq)):
        yield from page
        run_id, seq = page[-1].run_id, page[-1].seq


def events_of(run_id: str, after_seq: int = 0, limit: int = PAGE) -> Fact[list[Event]]:
    """Events of one run after a place, in order; at most a page."""
    page = yield from fetch(SELECT_RUN_PAGE, run=run_id, after_seq=after_seq)
    return page[:limit]
