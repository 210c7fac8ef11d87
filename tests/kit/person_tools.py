"""Tools that people perform, and one that follows them up by program; and reads that show what is at stake."""

from __future__ import annotations

from pydantic import BaseModel

from counterfoil import tool
from tests.kit.world import World


class Packed(BaseModel):
    """What whoever packed it says of it."""

    parcel: str
    kilos: int


@tool(effect="write", manual=True, resources=["order:{order_id}"], title="Pack the parcel")
async def hand_pack(order_id: str, kilos: int) -> Packed:
    """Pack an order, and weigh it."""
    raise NotImplementedError


@tool(effect="destructive", manual=True, approval="operator", resources=["order:{order_id}"])
def hand_scrap(order_id: str) -> None:
    """Scrap what was sent back."""


@tool(effect="write", manual=True)
async def hand_note(text: str) -> str:
    """Put a note on somebody's desk."""
    raise NotImplementedError


@tool(effect="write", resources=["order:{order_id}"])
async def hand_label(order_id: str, parcel: str) -> str:
    """Print a label for a parcel."""
    World.here().append(order_id, parcel=parcel)
    return f"{order_id}/{parcel}"
