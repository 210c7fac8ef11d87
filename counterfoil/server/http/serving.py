"""MCP over HTTP from start to orderly end: uvicorn around the edge, the edge around the SDK.

Signals are ours (see `stopping`). A stop refuses new calls, ends subscriptions, and gives open requests their time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from socket import socket
from typing import Any, Final, Protocol

import uvicorn
from mcp.server import Server

from ...registry.strict_json import Bounds
from ..surface.exchange import Exchange
from .callbacks import Knock, nobody
from .doorman import Doorman
from .edge import Edge
from .line import LineProtocol
from .place import Place
from .sessions import SESSION_IDLE_S, SESSIONS, Sessions

CONNECTIONS: Final = 2_048
KEEP_ALIVE_S: Final = 15
_LAST_WORDS_S: Final = 0.6
"""How long each of the last steps of a stop may take, in seconds; together they stay below `stopping.LATE_S`."""


class Stopping(Protocol):
    """When to stop, and how long calls in flight then have."""

    @property
    def grace_s(self) -> float:
        """In seconds."""
        ...

    async def wait(self) -> None:
        """Wait until the process is to stop."""
        ...


class Served(Protocol):
    """What this transport needs of the MCP surface."""

    @property
    def server(self) -> Server[Any]:
        """The SDK's server."""
        ...

    async def answered(self, exchange: Exchange, *, written: bool) -> None:
        """The answer of an exchange has been written to its transport, or never will be."""
        ...

    def refuse_calls(self) -> None:
        """Answer new calls as `unavailable` from now on."""
        ...

    def end_streams(self) -> None:
        """End subscriptions, which otherwise never end."""
        ...

    async def receipts_done(self) -> None:
        """Wait until everything that receipts have started is done."""
        ...


async def serve(
    surface: Served,
    listener: socket,
    place: Place,
    doorman: Doorman,
    stop: Stopping,
    bounds: Bounds,
    knock: Knock = nobody,
) -> int:
    """Serve until a signal comes; the process's exit code. Calls in flight then have `stop.grace_s`."""
    manager = Sessions(
        surface.server,
        session_idle_timeout=SESSION_IDLE_S,
        max_request_body_size=bounds.bytes,
        max_sessions=SESSIONS,
    )
    edge = Edge(place, doorman, bounds, manager, surface.answered, knock)
    server = _Uvicorn(_settings(edge))
    async with manager.run():
        running = asyncio.create_task(server.serve(sockets=[listener]))
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        surface.refuse_calls()
        surface.end_streams()
        await _at_most(stop.grace_s, edge.open.idle())
        server.should_exit = True
    await asyncio.wait({running}, timeout=_LAST_WORDS_S)
    await _at_most(_LAST_WORDS_S, surface.receipts_done())
    if running.done():
        running.result()
    running.cancel()
    return 0


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers of its own."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _settings(edge: Edge) -> uvicorn.Config:
    return uvicorn.Config(
        edge,
        http=LineProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )


async def _at_most(limit_s: float, what: Any) -> None:  # noqa: ANN401 (any coroutine)
    with suppress(TimeoutError):
        await asyncio.wait_for(what, limit_s)
