"""What a measurement stands on: a temporary folder with a configuration, and real parts opened on it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from mcp import Client
from mcp.server import Server
from mcp.types import CallToolResult

from ...canonical import JsonObject
from ..app import App, open_app
from ..serve import surface_of
from ..surface.answers import CALL_META
from .rounds import Sample, at_once
from .tools import READ

CONFIG: Final = "counterfoil.toml"
LEDGER: Final = "bench.db"
_NOTE: Final = "delivered six days late; the customer asks for the money back and keeps the goods " * 2
_CONFIGURATION: Final = f"""\
# Made by `counterfoil bench`.
[server]
name = "counterfoil-bench"

[ledger]
url = "sqlite+aiosqlite:///{LEDGER}"
durability = "full"

[principals.local]
subject = "me"
tenant = "local"
scopes = ["*"]

[policy_defaults]
write = "allow"

[python]
modules = ["counterfoil.server.bench.tools"]
"""


@contextmanager
def folder() -> Generator[Path]:
    """An empty folder with the configuration in it; gone at the end."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-bench-") as name:
        path = Path(name)
        (path / CONFIG).write_text(_CONFIGURATION, encoding="utf-8")
        yield path


@asynccontextmanager
async def governed(path: Path) -> AsyncGenerator[tuple[App, Caller]]:
    """Our server on this folder, in this process, and a client of it."""
    async with open_app(path / CONFIG, role="serve") as app, Client(surface_of(app).server) as client:

        async def written(tool: str, result: CallToolResult) -> None:
            if tool == READ:  # what a read answers need not be known to have arrived
                return
            call_id = (result.meta or {})[CALL_META]["call_id"]
            await app.runtime.delivered([call_id], app.local)

        yield app, Caller(client, written)


@asynccontextmanager
async def bare(server: Server[Any]) -> AsyncGenerator[Caller]:
    """The reference in this process, and a client of it."""
    async with Client(server) as client:
        yield Caller(client)


class Caller:
    """One client, whose every call has arguments of its own: none is the duplicate of another.

    `written` is told of each answer, as a transport tells the runtime what it has written.
    """

    def __init__(self, client: Client, written: Callable[[str, CallToolResult], Awaitable[None]] | None = None) -> None:
        self._client = client
        self._written = written
        self._calls = 0

    async def calls(self, tool: str, concurrency: int, count: int) -> Sample:
        """What one of so many calls of this tool cost.

        Raises:
            RuntimeError: a call that did not end well, so that nothing was measured.
        """

        async def call(_number: int) -> None:
            result = await self._client.call_tool(tool, self._arguments())
            if result.is_error:
                raise RuntimeError(f"{tool}: expected its output, got {result.structured_content}")
            if self._written is not None:
                await self._written(tool, result)

        return await at_once(call, concurrency, count)

    def _arguments(self) -> JsonObject:
        self._calls += 1
        return {"order_id": f"ord_{self._calls:08d}", "amount": 49.9, "note": _NOTE}
