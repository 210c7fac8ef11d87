"""A model's seat: an MCP client whose every answer is checked as the strictest client would check it.

It works over any transport. Structured content must fit the advertised output schema, on errors too; the text block
must say the same in strict JSON; `isError` must mean what it says; and a call view must keep the table of codes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, cast

import jsonschema_rs
from mcp import Client
from mcp.types import CallToolResult, RequestParamsMeta, TextContent, Tool

from counterfoil.server.app import App
from counterfoil.server.serve import surface_of
from tests.kit.rules import DRY_RUN, check_call_view, strictly
from tests.kit.run_rules import check_plan_view, check_run_view

CALL_META: Final = "counterfoil/call"
DIGEST_META: Final = "counterfoil/schema_digest"
KEY_META: Final = "counterfoil/idempotency_key"
SHOWS_THE_CALL: Final = frozenset({"tool_call", "tool_read"})
ASKS_ABOUT: Final = frozenset({"status", "cancel", "reconcile"})
WAIT_S: Final = 30.0

View = dict[str, Any]


@dataclass(slots=True)
class Seat:
    """One client. `listed` are its tools, by name, once somebody asked.

    `arrived` is told of each answer that shows a call's end, where no transport notes that it was written.
    """

    client: Client
    listed: dict[str, Tool] = field(default_factory=dict[str, Tool])
    digests: dict[str, str] = field(default_factory=dict[str, str])
    arrived: Callable[[str], Awaitable[None]] | None = None

    async def tools(self) -> dict[str, Tool]:
        """Every tool of tools/list, page by page."""
        if not self.listed:
            cursor: str | None = None
            while True:
                page = await self.client.list_tools(cursor=cursor)
                self.listed |= {tool.name: tool for tool in page.tools}
                cursor = page.next_cursor
                if cursor is None:
                    break
        return self.listed

    async def ask(self, base_tool: str, /, **arguments: Any) -> View:
        """Call a base tool; its body."""
        return body_of(await self.result(base_tool, arguments))

    async def read(self, name: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> View:
        """`tool_read`; the call view."""
        return await self.ask("tool_read", name=name, arguments=dict(arguments or {}), **{"wait_s": WAIT_S} | more)

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> View:
        """`tool_call`, with the digest that a search gives; the call view."""
        if name not in self.digests and "schema_digest" not in more:
            found = (await self.ask("tool_search", names=[name], detail="brief"))["matches"]
            self.digests |= {match["name"]: match["schema_digest"] for match in found if "schema_digest" in match}
        stated = {"schema_digest": self.digests.get(name, "00000000")} | more
        return await self.ask("tool_call", name=name, arguments=dict(arguments or {}), **stated)

    async def direct(self, name: str, arguments: Mapping[str, Any] | None = None, **meta: Any) -> tuple[View, View]:
        """A direct call; what is shown, and the call view, which is the same where there is no output of its own."""
        result = await self.result(name, dict(arguments or {}), meta)
        shown = body_of(result)
        return shown, (result.meta or {}).get(CALL_META, shown)

    async def result(
        self, name: str, arguments: dict[str, Any], meta: Mapping[str, Any] | None = None
    ) -> CallToolResult:
        """One checked result."""
        tools = await self.tools()
        said = cast("RequestParamsMeta", dict(meta)) if meta else None
        result = await self.client.call_tool(name, arguments, read_timeout_seconds=WAIT_S + 10, meta=said)
        check_result(tools.get(name), name, result)
        view = (result.meta or {}).get(CALL_META) or body_of(result)
        if self.arrived is not None and view.get("call_id") and view.get("state") in {"settled", "refused"}:
            await self.arrived(view["call_id"])
        return result


@lru_cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.validator_for(json.loads(schema))


def check_result(tool: Tool | None, name: str, result: CallToolResult) -> None:
    """What every client may rely on."""
    body = body_of(result)
    first = result.content[0]
    assert isinstance(first, TextContent), result
    assert strictly(first.text) == body
    if tool is not None and tool.output_schema is not None:
        problems = [error.message for error in _validator(json.dumps(tool.output_schema)).iter_errors(body)]
        assert not problems, (name, problems)
    own = (result.meta or {}).get(CALL_META)
    if own is not None:
        check_call_view(own)
        assert not result.is_error, result
        return
    error = body.get("error")
    if name in ASKS_ABOUT and "state" in body:
        assert not result.is_error, body
    else:
        assert result.is_error is (error is not None and error["code"] != "in_progress"), body
    if name == "plan":
        check_plan_view(body)
    if body.get("run_id") is not None and "status" in body:
        check_run_view(body)
    shows = name in SHOWS_THE_CALL or (name in ASKS_ABOUT and "attempts" in body) or (tool is None and "state" in body)
    if "dry_run" in body:
        assert body.keys() - {"limits"} == DRY_RUN, body
    elif shows and "tool" in body:
        check_call_view(body)


def body_of(result: CallToolResult) -> View:
    """The structured content, which every result has."""
    body = cast("View | None", result.structured_content)
    assert isinstance(body, dict), result
    return body


@asynccontextmanager
async def seated(app: App, mode: Literal["auto", "legacy"] = "auto") -> AsyncGenerator[Seat]:
    """A seat at an application in this process. The client is kept in a task of its own, so that what fails a test
    comes out of it as it is."""
    connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold() -> None:
        async with Client(surface_of(app).server, mode=mode) as client:
            connected.set_result(client)
            await over.wait()

    holding = asyncio.create_task(hold())
    either: set[asyncio.Future[Any]] = {holding, connected}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        yield Seat(connected.result(), arrived=lambda call_id: app.runtime.delivered([call_id], app.local))
    finally:
        over.set()
        await holding
