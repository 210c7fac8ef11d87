"""The order service's own database: orders, refunds, and every refund request that ever arrived.

It belongs to the other side of the play. The only thing of ours that looks into it is the play's last count, which
must not believe anything that we recorded ourselves.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .order_facts import FACTS, ORDERS, POLICIES

LOCK_WAIT_S: Final = 5.0

_SCHEMA: Final = """
create table orders (order_id text primary key, body text not null, total_cents integer not null);
create table policies (topic text primary key, text text not null);
create table facts (kind text not null, id text not null, body text not null, primary key (kind, id));
create table refunds (
  refund_id integer primary key, order_id text not null, cents integer not null, note text, key text unique
);
create table refund_requests (n integer primary key, order_id text not null, key text);
"""


class RefusedError(Exception):
    """The order service says no: there is no such order, or the amount is more than is left of it."""


@dataclass(frozen=True, slots=True)
class Refund:
    """One refund as the service made it."""

    refund_id: str
    order_id: str
    amount: float
    note: str | None
    state: str = "done"


class OrderStore:
    """One SQLite file; each operation is one transaction on a connection of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection, None, None]:
        with closing(sqlite3.connect(self.path, timeout=LOCK_WAIT_S, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            try:
                yield connection
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")

    def create(self) -> None:
        """Make the tables and fill them."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(_SCHEMA)
        with self._transaction() as connection:
            orders = [(name, json.dumps(body), round(body["total"] * 100)) for name, body in ORDERS.items()]
            facts = [(kind, name, json.dumps(body)) for kind, of in FACTS.items() for name, body in of.items()]
            connection.executemany("insert into orders values (?, ?, ?)", orders)
            connection.executemany("insert into policies values (?, ?)", POLICIES.items())
            connection.executemany("insert into facts values (?, ?, ?)", facts)

    def order(self, order_id: str) -> dict[str, Any] | None:
        """One order with what was refunded of it."""
        with self._transaction() as connection:
            row = connection.execute("select body from orders where order_id = ?", (order_id,)).fetchone()
            if row is None:
                return None
            return {"order_id": order_id, **json.loads(row[0]), "refunded": _refunded(connection, order_id) / 100}

    def policies(self, topic: str) -> list[dict[str, str]]:
        """House rules whose topic or text has a word of what is asked."""
        with self._transaction() as connection:
            rows = connection.execute("select topic, text from policies order by topic").fetchall()
        words = topic.lower().split()
        return [
            {"topic": name, "text": text}
            for name, text in rows
            if any(word in f"{name} {text}".lower() for word in words)
        ]

    def fact(self, kind: str, identity: str) -> Any:  # noqa: ANN401 (any JSON value)
        """One fact, or None."""
        with self._transaction() as connection:
            row = connection.execute("select body from facts where kind = ? and id = ?", (kind, identity)).fetchone()
        return None if row is None else json.loads(row[0])

    def note_request(self, order_id: str, key: str | None) -> None:
        """Remember that a refund was asked for, whatever comes of it."""
        with self._transaction() as connection:
            connection.execute("insert into refund_requests (order_id, key) values (?, ?)", (order_id, key))

    def refund(self, order_id: str, amount: float, note: str | None, key: str | None) -> Refund:
        """Make a refund; one key makes one.

        Raises:
            RefusedError: no such order, or too much.
        """
        with self._transaction() as connection:
            known = _by_key(connection, key)
            if known is not None:
                return known
            row = connection.execute("select total_cents from orders where order_id = ?", (order_id,)).fetchone()
            if row is None:
                raise RefusedError(f"no order {order_id}")
            cents = round(amount * 100)
            left = row[0] - _refunded(connection, order_id)
            if not 0 < cents <= left:
                raise RefusedError(f"{amount} is not between 0.01 and {left / 100}")
            made = connection.execute(
                "insert into refunds (order_id, cents, note, key) values (?, ?, ?, ?)", (order_id, cents, note, key)
            )
            return Refund(f"rf_{made.lastrowid}", order_id, cents / 100, note)

    def refunds_by_key(self, key: str) -> list[Refund]:
        """The refund that a key made, if there is one."""
        with self._transaction() as connection:
            known = _by_key(connection, key)
        return [] if known is None else [known]

    def count(self, order_id: str) -> tuple[int, int]:
        """How many refunds of an order exist, and how many requests for one ever arrived."""
        with self._transaction() as connection:
            made = connection.execute("select count(*) from refunds where order_id = ?", (order_id,)).fetchone()
            asked = connection.execute(
                "select count(*) from refund_requests where order_id = ?", (order_id,)
            ).fetchone()
        return made[0], asked[0]


def _refunded(connection: sqlite3.Connection, order_id: str) -> int:
    row = connection.execute("select coalesce(sum(cents), 0) from refunds where order_id = ?", (order_id,)).fetchone()
    return int(row[0])


def _by_key(connection: sqlite3.Connection, key: str | None) -> Refund | None:
    row = connection.execute("select refund_id, order_id, cents, note from refunds where key = ?", (key,)).fetchone()
    return None if row is None else Refund(f"rf_{row[0]}", row[1], row[2] / 100, row[3])
