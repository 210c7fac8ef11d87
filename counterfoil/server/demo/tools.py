"""The demo's tools, written as anybody would write them: five that matter, and twenty that make a search worth it.

The address of the order service comes from the environment. The client is the loopback's: it takes no proxy from the
environment and never retries, since retries belong to the runtime alone.
"""

from __future__ import annotations

import os
from http import HTTPStatus
from typing import Annotated, Any

import httpx2
from pydantic import BaseModel, Field

from counterfoil import Call, Outcome, Probe, tool
from counterfoil.server.demo.order_facts import ORDERS_URL

READ_S = 5.0
EFFECT_S = 20.0

OrderId = Annotated[str, Field(description="Order number, such as ord_17")]
ShipmentId = Annotated[str, Field(description="Shipment number, such as shp_5")]
Sku = Annotated[str, Field(description="Article number, such as lamp_b")]


class Contact(BaseModel):
    """Somebody who hears of an order."""

    name: str
    email: str


class Order(BaseModel):
    """An order as the service tells it."""

    order_id: str
    state: str
    days_late: int
    article: str
    sku: str
    total: float
    refunded: float
    contacts: list[Contact]
    shipment_id: str


class Shipment(BaseModel):
    """Where a shipment is."""

    shipment_id: str
    late: bool
    carrier: str
    place: str


class Refund(BaseModel):
    """A refund that was made."""

    refund_id: str
    order_id: str
    amount: float
    state: str
    note: str | None = None


class Message(BaseModel):
    """A message that was sent."""

    message_id: str
    to: str
    text: str


class Rule(BaseModel):
    """One of the house's rules."""

    topic: str
    text: str


def _client(timeout_s: float) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=os.environ[ORDERS_URL], timeout=timeout_s, trust_env=False)


async def _get(path: str, **query: str) -> httpx2.Response:
    async with _client(READ_S) as client:
        return await client.get(path, params=query)


async def _post(path: str, body: dict[str, Any], call: Call) -> httpx2.Response:
    """One effect, under the call's own key. `ConnectError` alone says that not a byte of it was sent."""
    async with _client(EFFECT_S) as client:
        await call.guard()
        return await client.post(path, json=body, headers={"Idempotency-Key": call.action_id})


@tool(effect="read", tags=["orders"], timeout_s=READ_S)
async def orders_get(order_id: OrderId) -> Outcome[Order]:
    """Look up one order: its state, how late it is, its total, whom to tell, and what was refunded of it."""
    reply = await _get(f"/orders/{order_id}")
    if reply.status_code == HTTPStatus.NOT_FOUND:
        return Outcome.no_result()
    return Outcome.success(Order.model_validate(reply.raise_for_status().json()))


@tool(effect="read", tags=["shipments"], timeout_s=READ_S)
async def shipments_get(shipment_id: ShipmentId) -> Outcome[Shipment]:
    """Look up one shipment: whether it is late, who has it and where it is."""
    reply = await _get(f"/shipments/{shipment_id}")
    if reply.status_code == HTTPStatus.NOT_FOUND:
        return Outcome.no_result()
    return Outcome.success(Shipment.model_validate(reply.raise_for_status().json()))


@tool(effect="read", tags=["policies"], timeout_s=READ_S)
async def policy_find(topic: Annotated[str, Field(description="Such as: late delivery")]) -> list[Rule]:
    """Find the house's rules about a topic, such as what a late delivery entitles a customer to."""
    reply = await _get("/policies", topic=topic)
    return [Rule.model_validate(rule) for rule in reply.raise_for_status().json()]


@tool(
    effect="destructive",
    idempotency="keyed",
    tags=["orders", "money"],
    resources=["order:{order_id}"],
    timeout_s=EFFECT_S,
)
async def orders_refund(
    order_id: OrderId,
    amount: Annotated[float, Field(gt=0, description="In the order's currency")],
    call: Call,
    note: Annotated[str | None, Field(description="Why; the customer reads it")] = None,
) -> Outcome[Refund]:
    """Refund an order, in full or in part. Pays money back to the customer."""
    try:
        reply = await _post(f"/orders/{order_id}/refunds", {"amount": amount, "note": note}, call)
    except httpx2.ConnectError as error:
        return Outcome.unavailable(f"the order service cannot be reached: {error}")
    if reply.status_code == HTTPStatus.CONFLICT:
        return Outcome.permanent(str(reply.json()["error"]))
    refund = Refund.model_validate(reply.raise_for_status().json())
    return Outcome.success(refund, evidence={"external_reference": refund.refund_id})


@orders_refund.probe(timeout_s=READ_S)
async def refund_happened(call: Call) -> Probe:
    """Ask for the refund that carries this call's key."""
    reply = await _get("/refunds", key=call.action_id)
    found = reply.raise_for_status().json()
    if not found:
        return Probe.absent()
    refund = Refund.model_validate(found[0])
    return Probe.happened(refund.model_dump(), evidence={"external_reference": refund.refund_id})


@orders_refund.compensation(idempotency="keyed", timeout_s=EFFECT_S)
async def refund_withdrawn(output: Refund, call: Call) -> Outcome[Refund]:
    """Take this very refund back from the customer. That is no less grave than the refund was: a person decides."""
    try:
        reply = await _post(f"/refunds/{output.refund_id}/withdrawals", {}, call)
    except httpx2.ConnectError as error:
        return Outcome.unavailable(f"the order service cannot be reached: {error}")
    refund = Refund.model_validate(reply.raise_for_status().json())
    return Outcome.success(refund, evidence={"external_reference": refund.refund_id})


@tool(effect="write", tags=["orders"], resources=["order:{order_id}"], timeout_s=EFFECT_S)
async def orders_replace(order_id: OrderId, call: Call) -> Outcome[None]:
    """Send the article of an order once more, in place of one that is lost or late."""
    try:
        reply = await _post(f"/orders/{order_id}/replacements", {}, call)
    except httpx2.ConnectError as error:
        return Outcome.unavailable(f"the order service cannot be reached: {error}")
    if reply.status_code == HTTPStatus.CONFLICT:
        return Outcome.permanent(str(reply.json()["error"]))
    reply.raise_for_status()
    return Outcome.no_result()


@tool(effect="write", idempotency="keyed", tags=["customers"], timeout_s=EFFECT_S)
async def notify_send(
    to: Annotated[str, Field(description="Mail address")],
    text: Annotated[str, Field(description="What to say")],
    call: Call,
) -> Outcome[Message]:
    """Send a message to a customer or to another contact of an order."""
    try:
        reply = await _post("/messages", {"to": to, "text": text}, call)
    except httpx2.ConnectError as error:
        return Outcome.unavailable(f"the order service cannot be reached: {error}")
    message = Message.model_validate(reply.raise_for_status().json())
    return Outcome.success(message, evidence={"external_reference": message.message_id})


@notify_send.probe(timeout_s=READ_S)
async def message_sent(call: Call) -> Probe:
    """Ask for the message that carries this call's key."""
    reply = await _get("/messages", key=call.action_id)
    found = reply.raise_for_status().json()
    if not found:
        return Probe.absent()
    message = Message.model_validate(found[0])
    return Probe.happened(message.model_dump(), evidence={"external_reference": message.message_id})


async def _fact(kind: str, identity: str) -> Outcome[Any]:
    reply = await _get(f"/facts/{kind}/{identity}")
    if reply.status_code == HTTPStatus.NOT_FOUND:
        return Outcome.no_result()
    return Outcome.success(reply.raise_for_status().json())


def _of_order(name: str, kind: str, description: str) -> Any:  # noqa: ANN401 (what the decorator gives)
    async def look_up(order_id: OrderId) -> Outcome[Any]:
        return await _fact(kind, order_id)

    return tool(name=name, effect="read", open_world=False, tags=["orders"], description=description, timeout_s=READ_S)(
        look_up
    )


def _of_shipment(name: str, kind: str, description: str) -> Any:  # noqa: ANN401
    async def look_up(shipment_id: ShipmentId) -> Outcome[Any]:
        return await _fact(kind, shipment_id)

    return tool(
        name=name, effect="read", open_world=False, tags=["shipments"], description=description, timeout_s=READ_S
    )(look_up)


def _of_article(name: str, kind: str, description: str) -> Any:  # noqa: ANN401
    async def look_up(sku: Sku) -> Outcome[Any]:
        return await _fact(kind, sku)

    return tool(
        name=name, effect="read", open_world=False, tags=["articles"], description=description, timeout_s=READ_S
    )(look_up)


order_items = _of_order("order_items", "items", "List the articles and units in an order.")
order_address = _of_order("order_address", "address", "Where an order is to be delivered.")
order_history = _of_order("order_history", "history", "What happened to an order so far, step by step.")
order_invoice = _of_order("order_invoice", "invoice", "The invoice number of an order.")
order_payment = _of_order("order_payment", "payment", "How an order was paid.")
order_contact = _of_order("order_contact", "contact", "The mail address of an order's customer.")
order_language = _of_order("order_language", "language", "The language to write to an order's customer in.")
order_is_gift = _of_order("order_is_gift", "gift", "Whether an order is wrapped as a gift.")
shipment_carrier = _of_shipment("shipment_carrier", "carrier", "Which carrier has a shipment.")
shipment_place = _of_shipment("shipment_place", "place", "Where a shipment was last seen.")
shipment_promise = _of_shipment("shipment_promise", "promise", "The day that a shipment was promised for.")
shipment_weight = _of_shipment("shipment_weight", "weight", "The weight of a shipment in kilograms.")
shipment_signature = _of_shipment("shipment_signature", "signature", "Whether a shipment must be signed for.")
shipment_customs = _of_shipment("shipment_customs", "customs", "The customs state of a shipment.")
article_stock = _of_article("article_stock", "stock", "Units of an article in stock.")
article_price = _of_article("article_price", "price", "The price of an article today.")
article_size = _of_article("article_size", "size", "The measures of an article.")
article_material = _of_article("article_material", "material", "What an article is made of.")
article_warranty = _of_article("article_warranty", "warranty", "How long an article is under warranty.")
article_supplier = _of_article("article_supplier", "supplier", "Who supplies an article.")
