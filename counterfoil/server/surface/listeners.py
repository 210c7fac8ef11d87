"""Who is told that the catalogue has changed: subscriptions of the 2026 protocol and sessions of the older ones.

Each belongs to a principal, and hears only of changes that concern it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import SubscriptionsListenRequestParams, SubscriptionsListenResult

from ...registry.principal import Principal

TOLD_WITHIN_S: Final = 1.0
"""How long one session may take to be told: a client that does not read holds up nobody else."""
Concerns = Callable[[Principal], bool]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Stream:
    """One subscription."""

    principal: Principal
    bus: InMemorySubscriptionBus
    handler: ListenHandler


class Listeners:
    """Everybody who listens to one surface."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()
        self._sessions: dict[Connection, tuple[Principal, ServerSession]] = {}

    async def listen(
        self,
        principal: Principal,
        ctx: ServerRequestContext[Any, Any],
        params: SubscriptionsListenRequestParams,
    ) -> SubscriptionsListenResult:
        """Serve one subscription until its client goes or `close`."""
        bus = InMemorySubscriptionBus()
        stream = _Stream(principal, bus, ListenHandler(bus))
        self._streams.add(stream)
        try:
            return await stream.handler(ctx, params)
        finally:
            self._streams.discard(stream)

    def add(self, principal: Principal, session: ServerSession) -> None:
        """Tell this session, too, until it ends."""
        connection: Connection = session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (the SDK's one way to a session's end)
        if connection not in self._sessions:
            connection.exit_stack.callback(self._sessions.pop, connection, None)
        self._sessions[connection] = principal, session

    async def tell(self, concerns: Concerns) -> None:
        """The tools have changed, and that concerns these principals."""
        for stream in [stream for stream in self._streams if concerns(stream.principal)]:
            await stream.bus.publish(ToolsListChanged())
        sessions = [session for principal, session in self._sessions.values() if concerns(principal)]
        await asyncio.gather(*map(_tell_session, sessions))

    def close(self) -> None:
        """End every subscription in order."""
        for stream in self._streams:
            stream.handler.close()


async def _tell_session(session: ServerSession) -> None:
    try:
        await asyncio.wait_for(session.send_tool_list_changed(), TOLD_WITHIN_S)
    except TimeoutError:
        _log.info("a session that does not read was not told that the tools have changed")
