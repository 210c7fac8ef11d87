"""The tools that the worked examples name, registered as anybody's are: a configuration names this module.

Effects are lines of the file that `ORDER_EFFECTS` names, so that a test counts them outside.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel

from counterfoil import tool

EFFECTS = "ORDER_EFFECTS"


class Contact(BaseModel):
    """Somebody who wants to hear of an order."""

    email: str


class Order(BaseModel):
    """One order."""

    order_id: str
    shipment_id: str
    total: float
    contacts: list[Contact]


class Shipment(BaseModel):
    """Where it is."""

    late: bool


class Refund(BaseModel):
    """What was paid back."""

    order_id: str
    amount: float


def _happened(*words: object) -> None:
    with Path(os.environ[EFFECTS]).open("a", encoding="utf-8") as file:
        file.write(" ".join(map(str, words)) + "\n")


@tool(effect="read", open_world=False, tags=["orders"])
async def orders_get(order_id: str) -> Order:
    """Look up one order."""
    contacts = [Contact(email=f"{name}@shop.example") for name in ("ada", "bob")]
    return Order(order_id=order_id, shipment_id="shp_1", total=49.9, contacts=contacts)


@tool(effect="read", open_world=False, tags=["orders"])
async def shipments_get(shipment_id: str) -> Shipment:
    """Look up one shipment."""
    return Shipment(late=shipment_id == "shp_1")


@tool(effect="read", open_world=False, tags=["orders"])
async def policy_find(topic: str) -> list[str]:
    """Find the house's rules about a topic."""
    return [f"On {topic}: refund in full."]


@tool(effect="destructive", resources=["order:{order_id}"], tags=["orders"])
async def orders_refund(order_id: str, amount: float) -> Refund:
    """Refund an order."""
    _happened("refund", order_id, amount)
    return Refund(order_id=order_id, amount=amount)


@tool(effect="write", tags=["orders"])
async def notify_send(to: str, text: str) -> dict[str, str]:
    """Send one message."""
    _happened("notify", to, text)
    return {"to": to}
