"""The chains that the demo plays, as a model hands them over: data, and no word of them runs anything."""

from __future__ import annotations

from typing import Final

from ...canonical import JsonObject
from .order_facts import LATE_ORDER, OTHER_ORDER

PLAN: Final[JsonObject] = {
    "goal": "Make good for a late order",
    "input": {"order_id": LATE_ORDER},
    "steps": [
        {"id": "order", "tool": "orders_get", "args": {"order_id": "${input.order_id}"}},
        {"id": "policy", "tool": "policy_find", "args": {"topic": "${order.state} delivery"}},
        {"id": "shipment", "tool": "shipments_get", "args": {"shipment_id": "${order.shipment_id}"}},
        {
            "id": "refund",
            "tool": "orders_refund",
            "when": "${shipment.late}",
            "args": {"order_id": "${input.order_id}", "amount": "${order.total}", "note": "${policy[0].text}"},
        },
        {
            "id": "tell",
            "tool": "notify_send",
            "for_each": "${order.contacts}",
            "args": {
                "to": "${item.email}",
                "text": "${item.name}: ${refund.amount} for ${input.order_id} is paid back.",
            },
        },
    ],
    "max_parallel": 2,
    "budget": {"destructive": 1},
}

FAILING: Final[JsonObject] = {
    "goal": "Pay back a late order and send it once more",
    "input": {"order_id": OTHER_ORDER},
    "steps": [
        {"id": "order", "tool": "orders_get", "args": {"order_id": "${input.order_id}"}},
        {
            "id": "refund",
            "tool": "orders_refund",
            "args": {"order_id": "${input.order_id}", "amount": "${order.total}", "note": "It comes too late."},
        },
        {
            "id": "again",
            "tool": "orders_replace",
            "args": {"order_id": "${input.order_id}"},
            "depends_on": ["refund"],
        },
    ],
    "on_failure": "compensate",
}
"""Its last step fails, for nobody knows beforehand that the shelf is out of stock: the refund is to be undone."""
