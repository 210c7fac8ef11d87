"""A client that writes the lines itself: for what no SDK would send, such as one id twice, a key twice, or 1e400."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tests.kit.rules import strictly
from tests.kit.workshop import Workshop

LIMIT_S: Final = 20.0
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_LONGEST_LINE: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class Lines:
    """One server and the two directions of its wire. `early` are messages that nobody has asked for yet."""

    process: asyncio.subprocess.Process
    early: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def write(self, line: str) -> None:
        """One line, as it is."""
        cast("asyncio.StreamWriter", self.process.stdin).write(line.encode() + b"\n")

    def request(self, request_id: int | str, tool: str, /, **arguments: Any) -> None:
        """Ask for a call of a tool by its name in the list; the answer is not waited for."""
        params = {"name": tool, "arguments": arguments, "_meta": _META}
        self.write(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}))

    def cancel(self, request_id: int | str) -> None:
        """Tell the server that nobody waits for this request any more."""
        params = {"requestId": request_id, "reason": "the person pressed stop", "_meta": _META}
        self.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))

    async def next(self) -> dict[str, Any]:
        """The next message, in strict JSON."""
        if self.early:
            return self.early.pop(0)
        stdout = cast("asyncio.StreamReader", self.process.stdout)
        line = await asyncio.wait_for(stdout.readline(), LIMIT_S)
        assert line, "the server is gone"
        message: dict[str, Any] = strictly(line)
        return message

    async def answer(self, request_id: int | str | None) -> dict[str, Any]:
        """The message with this id; others are kept for later."""
        for message in self.early:
            if message.get("id") == request_id:
                self.early.remove(message)
                return message
        kept, self.early = self.early, []
        try:
            while (message := await self.next()).get("id") != request_id:
                kept.append(message)
            return message
        finally:
            self.early = kept + self.early

    async def ask(self, request_id: int | str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Ask and wait; the structured content."""
        self.request(request_id, tool, **arguments)
        return body_of(await self.answer(request_id))


def body_of(message: dict[str, Any]) -> dict[str, Any]:
    """The structured content of an answer, which its text block repeats."""
    result = message["result"]
    body: dict[str, Any] = result["structuredContent"]
    assert strictly(result["content"][0]["text"]) == body
    return body


@asynccontextmanager
async def by_lines(shop: Workshop) -> AsyncGenerator[Lines]:
    """A server at the other end of two pipes; at the end its stdin is closed, and it ends by itself with 0."""
    with (shop.folder / "server.log").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "counterfoil", "serve", "--config", str(shop.config),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
            cwd=shop.folder, env=os.environ | shop.environment, limit=_LONGEST_LINE,
        )  # fmt: skip
    try:
        yield Lines(process)
        cast("asyncio.StreamWriter", process.stdin).close()
        assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
