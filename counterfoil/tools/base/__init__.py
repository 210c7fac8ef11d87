"""The base tools: the constant list that a fresh client sees. They check, ask the desk or the shelf, and answer.

Nothing here knows MCP, and nothing here reaches an adapter.
"""

from __future__ import annotations

from .answer import Answer, Asked
from .calls import tool_call, tool_read
from .chain import plan, run
from .desk import Desk, View
from .follow import cancel, confirm, reconcile, status
from .instructions import instructions
from .search import tool_search
from .shelf import Found, Hit, Shelf
from .spec import Annotations, BaseTool

__all__ = [
    "Annotations",
    "Answer",
    "Asked",
    "BaseTool",
    "Desk",
    "Found",
    "Hit",
    "Shelf",
    "View",
    "base_tools",
    "instructions",
]


def base_tools(desk: Desk, shelf: Shelf, *, show_locked: bool = False) -> tuple[BaseTool, ...]:
    """All base tools, in the order in which they are listed."""
    search = tool_search(shelf, show_locked=show_locked)
    calls = (search, tool_read(desk), tool_call(desk))
    return (*calls, plan(desk), run(desk), confirm(desk), reconcile(desk), status(desk), cancel(desk))
