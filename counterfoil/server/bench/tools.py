"""The tools that the bench calls: the reference's function, governed as a read and as a write; a step of a chain."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from ...tools.decorator import tool
from .bare import noop

READ: Final = "noop_read"
WRITE: Final = "noop_write"
STEP: Final = "noop_step"

noop_read = tool(name=READ, effect="read", open_world=False, visibility="base")(noop)
noop_write = tool(name=WRITE, effect="write", visibility="base")(noop)


class Counted(BaseModel):
    """What a step gives to the next."""

    value: int


@tool(name=STEP, effect="write")
async def noop_step(value: int) -> Counted:
    """Count on by one, as the steps of the other engines do."""
    return Counted(value=value + 1)
