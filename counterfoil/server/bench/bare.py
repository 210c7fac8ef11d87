"""The reference of a call and of a start: the SDK's own low-level server, with one tool that does nothing.

It imports nothing of this package, so that it can be run by its path as a program with nothing else in it.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from mcp.server import Server, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

NAME: Final = "noop"
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}, "note": {"type": "string"}},
    "required": ["order_id", "amount", "note"],
    "additionalProperties": False,
}


async def noop(order_id: str, amount: float, note: str) -> Any:  # noqa: ANN401, ARG001 (a tool's output; it does nothing)
    """Do nothing with an order."""
    return {"order_id": order_id, "done": True}


def bare_server() -> Server[Any]:
    """A server with this one tool: no checks, no record."""
    return Server("bare", version="1", on_list_tools=_list, on_call_tool=_call)


async def _list(_ctx: ServerRequestContext[Any, Any], _params: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name=NAME, description=noop.__doc__, input_schema=_SCHEMA)])


async def _call(_ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    output = await noop(**(params.arguments or {}))
    text = json.dumps(output, separators=(",", ":"))
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=output)


async def _serve() -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 (only the program speaks over stdio)

    server = bare_server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_serve())
