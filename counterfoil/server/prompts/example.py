"""The worked example of a plan: what `plan_chain` shows. A test has the plan checker judge it."""

from __future__ import annotations

import json
from typing import Final

from ...canonical import JsonObject

STEPS: Final[tuple[JsonObject, ...]] = (
    {"id": "order", "tool": "orders_get", "args": {"order_id": "${input.order_id}"}},
    {"id": "policy", "tool": "policy_find", "args": {"topic": "late delivery"}},
    {"id": "shipment", "tool": "shipments_get", "args": {"shipment_id": "${order.shipment_id}"}},
    {
        "id": "refund",
        "tool": "orders_refund",
        "args": {"order_id": "${input.order_id}", "amount": "${order.total}"},
        "when": "${shipment.late}",
        "depends_on": ["policy"],
    },
    {
        "id": "tell",
        "tool": "notify_send",
        "for_each": "${order.contacts}",
        "args": {"to": "${item.email}", "text": "Order ${input.order_id}: ${refund.amount} refunded."},
    },
)
PLAN: Final[JsonObject] = {"goal": "Refund a late order", "input": {"order_id": "ord_17"}, "steps": list(STEPS)}


def shown() -> str:
    """The example as JSON, a line for each step."""
    head = {name: value for name, value in PLAN.items() if name != "steps"}
    lines = ",\n ".join(json.dumps(step) for step in STEPS)
    return f'{json.dumps(head)[:-1]}, "steps": [\n {lines}]}}'
