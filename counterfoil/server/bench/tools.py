"""The tools that the bench calls: the reference's function, governed as a read and as a write."""

from __future__ import annotations

from typing import Final

from ...tools.decorator import tool
from .bare import noop

READ: Final = "noop_read"
WRITE: Final = "noop_write"

noop_read = tool(name=READ, effect="read", open_world=False, visibility="base")(noop)
noop_write = tool(name=WRITE, effect="write", visibility="base")(noop)
