"""The order service's own database: orders, refunds, messages, and every request for one of these that ever arrived.

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
from typing import Any, Final, NamedTuple

from .order_facts import FACTS, ORDERS, POLICIES, SHIPMENTS

LOCK_WAIT_S: Final = 5.0

_SCHEMA: Final = """
create table orders (order_id text primary key, body text not null, total_cents integer not null);
create table policies (topic text primary key, text text not null);
create table facts (kind text not null, id text not null, body text not null, primary key (kind, id));
create table refunds (
  refund_id integer primary key, order_id text not null, cents integer not null, note text, key text unique
);
create table withdrawals (refund_id integer primary key);
create table messages (message_id integer primary key, recipient text not null, text text not null, key text unique);
create table requests (n integer primary key, kind text not null, about text not null, key text);
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


@dataclass(frozen=True, slots=True)
class Message:
    """One message to a contact, as the service sent it."""

    message_id: str
    to: str
    text: str


class Count(NamedTuple):
    """How many of something were made, and how many requests for one ever arrived."""

    made: int
    asked: int


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
            facts += [("shipment", name, json.dumps({"shipment_id": name, **body})) for name, body in SHIPMENTS.items()]
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

    def note_request(self, kind: str, about: str, key: str | None) -> None:
        """Remember that a refund or a message was asked for, whatever comes of it."""
        with self._transaction() as connection:
            connection.execute("insert into requests (kind, about, key) values (?, ?, ?)", (kind, about, key))

    def refund(self, order_id: str, amount: float, note: str | None, key: str | None) -> Refund:
        """Make a refund; one key makes one.

        Raises:
            RefusedError: no such order, or too much.
        """
        with self._transaction() as connection:
            known = _refund_by_key(connection, key)
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
            known = _refund_by_key(connection, key)
        return [] if known is None else [known]

    def withdraw(self, refund_id: str) -> Refund:
        """Take a refund back from the customer; one that is taken back already stays so.

        Raises:
            RefusedError: there is no such refund.
        """
        number = refund_id.removeprefix("rf_")
        with self._transaction() as connection:
            row = connection.execute("select order_id, cents from refunds where refund_id = ?", (number,)).fetchone()
            if row is None:
                raise RefusedError(f"no refund {refund_id}")
            connection.execute("insert or ignore into withdrawals values (?)", (number,))
            return Refund(refund_id, row[0], row[1] / 100, None, "withdrawn")

    def replace(self, order_id: str) -> None:
        """Send the article of an order once more. This shop never has it.

        Raises:
            RefusedError: it is out of stock, or there is no such order.
        """
        order = self.order(order_id)
        if order is None:
            raise RefusedError(f"no order {order_id}")
        raise RefusedError(f"no {order['article']!r} in stock")

    def message(self, to: str, text: str, key: str | None) -> Message:
        """Send a message; one key sends one."""
        with self._transaction() as connection:
            known = _message_by_key(connection, key)
            if known is not None:
                return known
            made = connection.execute("insert into messages (recipient, text, key) values (?, ?, ?)", (to, text, key))
            return Message(f"msg_{made.lastrowid}", to, text)

    def messages_by_key(self, key: str) -> list[Message]:
        """The message that a key sent, if there is one."""
        with self._transaction() as connection:
            known = _message_by_key(connection, key)
        return [] if known is None else [known]

    def refunds(self, order_id: str) -> Count:
        """The refunds of an order."""
        return self._count(
            "select count(*) from refunds where order_id = :about",
            "select count(*) from requests where kind = 'refund' and about = :about",
            about=order_id,
        )

    def withdrawals(self, order_id: str) -> Count:
        """The refunds of an order that were taken back."""
        return self._count(
            "select count(*) from withdrawals join refunds using (refund_id) where order_id = :about",
            "select count(*) from requests where kind = 'withdrawal' and about in "
            "(select 'rf_' || refund_id from refunds where order_id = :about)",
            about=order_id,
        )

    def messages(self) -> Count:
        """The messages to anybody."""
        return self._count("select count(*) from messages", "select count(*) from requests where kind = 'message'")

    def _count(self, made: str, asked: str, **about: str) -> Count:
        with self._transaction() as connection:
            return Count(*(int(connection.execute(query, about).fetchone()[0]) for query in (made, asked)))


def _refunded(connection: sqlite3.Connection, order_id: str) -> int:
    row = connection.execute(
        "select coalesce(sum(cents), 0) from refunds "
        "where order_id = ? and refund_id not in (select refund_id from withdrawals)", (order_id,),
    ).fetchone()  # fmt: skip
    return int(row[0])


def _refund_by_key(connection: sqlite3.Connection, key: str | None) -> Refund | None:
    row = connection.execute("select refund_id, order_id, cents, note from refunds where key = ?", (key,)).fetchone()
    return None if row is None else Refund(f"rf_{row[0]}", row[1], row[2] / 100, row[3])


def _message_by_key(connection: sqlite3.Connection, key: str | None) -> Message | None:
    row = connection.execute("select message_id, recipient, text from messages where key = ?", (key,)).fetchone()
    return None if row is None else Message(f"msg_{row[0]}", row[1], row[2])
