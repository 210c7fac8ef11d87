"""Calls that a person decides about, and the reads that show what is at stake: good, slow, failing, forbidden ones."""

from __future__ import annotations

import asyncio
from typing import Any

from counterfoil import Outcome, tool
from tests.kit.world import World

HIDING = "paid\u202e in full"


@tool(effect="read", open_world=False)
async def peek(order_id: str) -> dict[str, Any]:
    """What there is to know of an order."""
    World.here().mark(order_id, "peeked")
    return {
        "order_id": order_id,
        "state": HIDING,
        "api_key": "sk_live_0123456789abcdef0123",
        "much": [f"line {n} of many" for n in range(2_000)],
    }


@tool(effect="read", open_world=False, sensitive=["/note"])
async def peek_note(note: str) -> str:
    """Say a note again."""
    return f"it says {note}"


@tool(effect="read", timeout_s=0.3)
async def peek_slow(order_id: str) -> str:
    """Answer too late."""
    World.here().mark(order_id, "slow")
    await asyncio.Event().wait()
    return order_id


@tool(effect="read")
async def peek_for_long(order_id: str) -> str:
    """Answer much too late for whoever asked."""
    await asyncio.Event().wait()
    return order_id


@tool(effect="read")
async def peek_broken(order_id: str) -> str:
    """Fail."""
    raise RuntimeError(f"no {order_id}\u200b here")


@tool(effect="read")
async def peek_nothing(order_id: str) -> Outcome[str]:
    """Find nothing."""
    return Outcome.no_result()


@tool(effect="read", scopes=["peeking"])
async def peek_scoped(order_id: str) -> str:
    """For those who may."""
    return order_id


@tool(effect="read", approval="operator")
async def peek_decided(order_id: str) -> str:
    """Even to look needs a person."""
    World.here().mark(order_id, "looked")
    return order_id


@tool(effect="destructive", preview="peek")
async def drop(order_id: str, amount: int = 1) -> str:
    """Drop an order."""
    World.here().append(order_id)
    return order_id


@tool(effect="destructive", preview="peek", manual=True)
async def drop_by_hand(order_id: str) -> None:
    """Drop it, as a person does."""


@tool(effect="destructive", preview="peek_note", sensitive=["/note"])
async def drop_note(note: str) -> None:
    """Drop a note."""


@tool(effect="destructive", preview="peek_slow")
async def drop_slow(order_id: str) -> None:
    """Drop it, with a slow preview."""


@tool(effect="destructive", preview="peek_for_long")
async def drop_for_long(order_id: str) -> None:
    """Drop it, with a preview that never comes."""


@tool(effect="destructive", preview="peek_broken")
async def drop_broken(order_id: str) -> None:
    """Drop it, with a preview that fails."""


@tool(effect="destructive", preview="peek_nothing")
async def drop_nothing(order_id: str) -> None:
    """Drop it, with a preview that finds nothing."""


@tool(effect="destructive", preview="peek_scoped")
async def drop_scoped(order_id: str) -> None:
    """Drop it, with a preview that needs a scope."""


@tool(effect="destructive", preview="peek_decided")
async def drop_decided(order_id: str) -> None:
    """Drop it, with a preview that a person would have to decide about."""
