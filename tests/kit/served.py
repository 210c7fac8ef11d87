"""A real server in a child process, and a real MCP client over its stdin and stdout; the child is in the test's hands.

The SDK's own transport hides the process; this one keeps every line that the server wrote, its stderr and its exit.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, TextContent, jsonrpc_message_adapter

from tests.kit.process import END_LIMIT_S, Started

ANSWER_LIMIT_S: Final = 30.0
LONGEST_WAIT_S: Final = 25.0
Mode = Literal["auto", "legacy"]


@dataclass(slots=True)
class Served:
    """One server and its client."""

    process: Started
    log: Path
    lines: list[bytes] = field(default_factory=list[bytes])
    connected: asyncio.Future[Client] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _digests: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def client(self) -> Client:
        """The SDK's client."""
        return self.connected.result()

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, patience_s: float = ANSWER_LIMIT_S,
        wait_s: float = LONGEST_WAIT_S, **more: object,
    ) -> dict[str, Any]:  # fmt: skip
        """`tool_call` with the digest that a search gives; the call view."""
        if tool not in self._digests:
            found = (await self.base("tool_search", {"names": [tool], "detail": "brief"}))["matches"]
            self._digests[tool] = found[0]["schema_digest"] if found else "00000000"
        stated = {"name": tool, "arguments": dict(arguments or {}), "schema_digest": self._digests[tool]}
        return await self.base("tool_call", stated, patience_s=patience_s, wait_s=wait_s, **more)

    async def base(
        self, base_tool: str, arguments: Mapping[str, Any] | None = None, /, *, patience_s: float = ANSWER_LIMIT_S,
        **more: object,
    ) -> dict[str, Any]:  # fmt: skip
        """Call a base tool; its structured content. `patience_s` is the client's own time-out, when it cancels."""
        stated = {**(arguments or {}), **more}
        return view_of(await self.client.call_tool(base_tool, stated, read_timeout_seconds=patience_s))

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone: no handler runs, nothing is flushed."""
        self.process.signal(signal.SIGKILL)
        await self.process.ended()

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.signal(number)

    def close_input(self) -> None:
        """The end of its stdin."""
        self.process.stdin.close()

    async def ended(self, limit_s: float = END_LIMIT_S) -> int:
        """Wait until the process is gone; its exit code."""
        try:
            return await self.process.ended(limit_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it said: {self.stderr}") from None

    @property
    def stderr(self) -> str:
        """What it wrote to stderr so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def view_of(result: CallToolResult) -> dict[str, Any]:
    """The structured content of a result; it says the same as the text block."""
    content = cast("object", result.structured_content)
    assert isinstance(content, dict), result
    first = result.content[0]
    assert isinstance(first, TextContent), result
    assert json.loads(first.text) == content
    return cast("dict[str, Any]", content)


@asynccontextmanager
async def serving(
    process: Started, log: Path, *, mode: Mode = "auto", person: ElicitationFnT | None = None
) -> AsyncGenerator[Served, None]:
    """Connect to a server that was started; at the end its stdin is closed, and it is killed if that is not its end."""
    served = Served(process, log)
    over = asyncio.Event()
    holding = asyncio.create_task(_hold(served, mode, over, person))
    try:
        either: list[asyncio.Future[Any]] = [holding, served.connected]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not served.connected.done():
            await served.ended()
            raise AssertionError(f"the server did not start: {served.stderr}") from holding.exception()
        yield served
    finally:
        over.set()
        await asyncio.wait([holding], timeout=END_LIMIT_S)
        holding.cancel()
        await _end(served)


async def _hold(served: Served, mode: Mode, over: asyncio.Event, person: ElicitationFnT | None) -> None:
    """Keep the client open in a task of its own, so that a test's failure is not wrapped in the SDK's groups."""
    transport = _transport(served)
    async with Client(transport, read_timeout_seconds=ANSWER_LIMIT_S, mode=mode, elicitation_callback=person) as client:
        served.connected.set_result(client)
        await over.wait()


@asynccontextmanager
async def _transport(served: Served) -> AsyncGenerator[Any, None]:
    into, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, out_of = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group, read_stream, write_stream:
        group.start_soon(_read, served, into)
        group.start_soon(_write, served, out_of)
        yield read_stream, write_stream
        group.cancel_scope.cancel()


async def _read(served: Served, into: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    async with into:
        while line := await served.process.stdout.readline():
            served.lines.append(line)
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError as error:
                await into.send(error)
            else:
                await into.send(SessionMessage(message))


async def _write(served: Served, out_of: MemoryObjectReceiveStream[SessionMessage]) -> None:
    stdin = served.process.stdin
    async with out_of:
        async for item in out_of:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            with suppress(ConnectionError):  # a server that is gone is seen at its stdout
                stdin.write(line.encode() + b"\n")
                await stdin.drain()


async def _end(served: Served) -> None:
    served.close_input()
    try:
        await served.ended()
    except TimeoutError:
        await served.kill()
        raise
