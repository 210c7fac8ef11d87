"""How the play asks: a base tool through a real MCP client, and again until an answer says what the play waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp import Client, MCPError

from ..cli.answer import View
from .stage import PlayError

SCENE_LIMIT_S: Final = 40.0
POLL_S: Final = 0.1


async def ask(client: Client, base_tool: str, /, **arguments: Any) -> View:  # noqa: ANN401 (a tool's arguments)
    """Call a base tool; its view.

    Raises:
        PlayError: no answer in time, or one without a view.
    """
    try:
        async with asyncio.timeout(SCENE_LIMIT_S):
            result = await client.call_tool(base_tool, arguments)
    except (TimeoutError, MCPError) as error:
        raise PlayError(f"{base_tool} was not answered: {error!r}") from error
    view: View | None = result.structured_content
    if view is None:
        raise PlayError(f"{base_tool} answered without structured content: {result.content}")
    return view


async def until(client: Client, run_id: str, status: str) -> View:
    """Follow a run until it has this status.

    Raises:
        PlayError: it has not, within the limit of a scene.
    """
    seen: list[View] = []

    async def reached() -> bool:
        seen[:] = [await ask(client, "status", run_id=run_id)]
        return seen[0].get("status") == status

    await wait_for(reached, lambda: f"{run_id} is {seen and seen[0].get('status')}, not {status}")
    return seen[0]


async def wait_for(reached: Callable[[], Awaitable[bool]], otherwise: Callable[[], str]) -> None:
    """Look again until it is so.

    Raises:
        PlayError: it is not, within the limit of a scene.
    """
    try:
        async with asyncio.timeout(SCENE_LIMIT_S):
            while not await reached():  # noqa: ASYNC110 (it waits for other processes)
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise PlayError(f"{otherwise()}, after {SCENE_LIMIT_S:.0f} s") from None
