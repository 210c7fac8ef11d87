"""A module of tools as an author writes it, with annotations that are objects and not text."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from counterfoil import Call, Outcome, Probe, tool
from counterfoil.tools.decorator import tools_of

pytestmark = pytest.mark.anyio


class Refund(BaseModel):
    refund_id: str
    amount: float


@tool(effect="read", scopes=["orders:read"], tags=["orders"])
async def order_status(order_id: Annotated[str, Field(description="Order number, such as ord_17")]) -> dict[str, str]:
    """Look up the state of one order."""
    return {"order_id": order_id, "state": "delayed"}


@tool(
    name="refund_order",
    version="1",
    effect="destructive",
    idempotency="none",
    scopes=["orders:refund"],
    resources=["order:{order_id}"],
    timeout_s=10,
    approval="operator",
)
async def refund(order_id: str, amount: float, call: Call) -> Refund:
    """Refund an order."""
    await call.progress(1, 2, "asking the order service")
    await call.guard()
    return Refund(refund_id=call.action_id, amount=amount)


@refund.probe(timeout_s=5)
async def refund_happened(order_id: str, amount: float, call: Call) -> Probe:
    """What happened to an earlier dispatch of this call."""
    return Probe.unknown()


@refund.compensation(effect="write", idempotency="keyed", timeout_s=10)
async def undo_refund(order_id: str, amount: float, output: Refund, call: Call) -> None:
    """Undo it."""


@tool(effect="read")
def classify(text: str) -> Outcome[list[str]]:
    """Run in a worker thread."""
    return Outcome.no_result()  # pyright: ignore[reportUnknownVariableType] # as authors write it


async def test_a_module_of_tools_works_as_written(make_call: Callable[..., Call], progress: list[Any]) -> None:
    found = tools_of(sys.modules[__name__])
    adapters = {contract.name: adapter for made in found for contract, adapter in made.registrations()}
    assert list(adapters) == ["order_status", "refund_order", "refund_order__probe", "refund_order__undo", "classify"]

    call = make_call()
    arguments: dict[str, Any] = {"order_id": "o", "amount": 2}
    refunded = await adapters["refund_order"].invoke(arguments, call, {})
    assert (refunded.kind, refunded.output) == ("success", {"refund_id": "act_1", "amount": 2.0})
    assert progress == [(1, 2, "asking the order service")]
    assert (await adapters["refund_order__probe"].invoke(arguments, call, {})).output == Probe.unknown()
    undone = await adapters["refund_order__undo"].invoke(arguments, call, {"output": refunded.output})
    assert (undone.kind, undone.output) == ("success", None)
    assert (await adapters["classify"].invoke({"text": "x"}, call, {})).kind == "no_result"
