"""Example tools for Counterfoil: a small shop whose books are one SQLite file beside this module.

`shop_refund` shows what a tool with an effect states, so that it can never happen twice by accident: what it holds
(`resources`), a key that the far side honours (`idempotency`), how to find out what happened (the probe), and how to
undo it (the compensation). Put your own far side in the place of the file and keep the shape.
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from counterfoil import Call, Outcome, Probe, tool

BOOKS = Path(__file__).with_name("example_shop.db")
OrderId = Annotated[str, Field(description="Order number: ord_1 or ord_2")]
Amount = Annotated[float, Field(gt=0, description="In the order's currency")]


class Order(BaseModel):
    """An order, and what was paid back of it."""

    order_id: str
    total: float
    refunded: float


class Refund(BaseModel):
    """A refund in the books; its id is the key that it was made under."""

    refund_id: str
    order_id: str
    amount: float


@contextmanager
def books() -> Generator[sqlite3.Connection, None, None]:
    """One transaction on the shop's books; the first one opens the shop."""
    with closing(sqlite3.connect(BOOKS, timeout=5)) as connection, connection:
        connection.execute("create table if not exists orders (order_id text primary key, total real not null)")
        connection.execute(
            "create table if not exists entries (key text primary key, order_id text not null, amount real not null)"
        )
        connection.execute("insert or ignore into orders values ('ord_1', 49.9), ('ord_2', 120)")
        yield connection


@tool(effect="read", open_world=False, tags=["shop"])
def shop_order(order_id: OrderId) -> Outcome[Order]:
    """Look up one order: its total and what was refunded of it."""
    with books() as connection:
        row = connection.execute(
            "select total, (select coalesce(sum(amount), 0) from entries e where e.order_id = o.order_id)"
            " from orders o where order_id = ?",
            (order_id,),
        ).fetchone()
    if row is None:
        return Outcome.no_result()
    return Outcome.success(Order(order_id=order_id, total=row[0], refunded=row[1]))


@tool(effect="destructive", idempotency="keyed", resources=["order:{order_id}"], tags=["shop", "money"])
def shop_refund(order_id: OrderId, amount: Amount, call: Call) -> Refund:
    """Refund an order, in full or in part. Pays money back to the customer."""
    call.blocking_guard()  # last instant before the effect: stops if the call was cancelled or has lost its lease
    with books() as connection:
        connection.execute("insert or ignore into entries values (?, ?, ?)", (call.action_id, order_id, amount))
    return Refund(refund_id=call.action_id, order_id=order_id, amount=amount)


@shop_refund.probe()
def shop_refund_happened(order_id: OrderId, call: Call) -> Probe:
    """What happened to an earlier refund whose answer was lost? Its key tells."""
    with books() as connection:
        row = connection.execute("select amount from entries where key = ?", (call.action_id,)).fetchone()
    if row is None:
        return Probe.absent()
    return Probe.happened({"refund_id": call.action_id, "order_id": order_id, "amount": row[0]})


@shop_refund.compensation(effect="write", idempotency="keyed")
def shop_refund_undone(order_id: OrderId, output: Refund, call: Call) -> None:
    """Take a refund back: an entry of the opposite amount, under a key of its own."""
    call.blocking_guard()
    with books() as connection:
        connection.execute("insert or ignore into entries values (?, ?, ?)", (call.action_id, order_id, -output.amount))
