"""Who is told that the catalogue or a run has changed: subscriptions of the 2026 protocol, sessions of the older ones.

Each belongs to a principal, and hears only of changes that concern it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ToolsListChanged
from mcp.types import SubscriptionsListenRequestParams, SubscriptionsListenResult

from ...registry.principal import Principal
from .notices import TOLD_WITHIN_S, Listener, Session, Stream, run_uris

SUBSCRIBED_MAX: Final = 1_000
"""To how many resources one session may subscribe."""
Concerns = Callable[[Principal], bool]
_log = logging.getLogger(__name__)


class Listeners:
    """Everybody who listens to one surface."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        self._sessions: dict[Connection, Session] = {}
        self._subscribed: dict[str, set[Listener]] = {}

    async def listen(
        self,
        principal: Principal,
        ctx: ServerRequestContext[Any, Any],
        params: SubscriptionsListenRequestParams,
    ) -> SubscriptionsListenResult:
        """Serve one subscription until its client goes or `close`."""
        stream = Stream(principal, params)
        self._streams.add(stream)
        for uri in stream.uris:
            self._subscribed.setdefault(uri, set()).add(stream)
        try:
            return await stream.serve(ctx, params)
        finally:
            self._streams.discard(stream)
            self._forget(stream, stream.uris)

    def add(self, principal: Principal, session: ServerSession) -> Session:
        """Tell this session, too, until it ends."""
        connection: Connection = session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (the SDK's one way to a session's end)
        known = self._sessions.get(connection)
        if known is None:
            known = self._sessions[connection] = Session(principal, session)
            connection.exit_stack.callback(self._end, connection)
        known.principal, known.session = principal, session
        return known

    def subscribe(self, principal: Principal, session: ServerSession, uri: str) -> bool:
        """Tell this session of one resource; False if it has subscribed to too many already.

        Whether there is such a resource, and whose it is, makes no difference to the answer.
        """
        listener = self.add(principal, session)
        if uri not in listener.uris and len(listener.uris) >= SUBSCRIBED_MAX:
            return False
        listener.uris.add(uri)
        self._subscribed.setdefault(uri, set()).add(listener)
        return True

    def unsubscribe(self, principal: Principal, session: ServerSession, uri: str) -> None:
        """Tell this session of it no more."""
        listener = self.add(principal, session)
        listener.forget(uri)
        self._forget(listener, (uri,))

    def run_changed(self, run_id: str, owner: Principal) -> None:
        """A run has changed: its owner's subscribers hear of it. Waits for nothing."""
        for uri in run_uris(run_id):
            for listener in self._subscribed.get(uri, ()):
                if (listener.principal.tenant, listener.principal.subject) == (owner.tenant, owner.subject):
                    listener.changed(uri)

    async def tell(self, concerns: Concerns) -> None:
        """The tools have changed, and that concerns these principals."""
        for stream in self._streams:
            if concerns(stream.principal):
                stream.bus.tell(ToolsListChanged())
        sessions = [one.session for one in self._sessions.values() if concerns(one.principal)]
        await asyncio.gather(*map(_tell_session, sessions))

    def close(self) -> None:
        """End every subscription in order."""
        for stream in self._streams:
            stream.close()

    def _end(self, connection: Connection) -> None:
        session = self._sessions.pop(connection)
        session.close()
        self._forget(session, tuple(session.uris))

    def _forget(self, listener: Listener, uris: Iterable[str]) -> None:
        for uri in uris:
            listeners = self._subscribed.get(uri, set())
            listeners.discard(listener)
            if not listeners:
                self._subscribed.pop(uri, None)


async def _tell_session(session: ServerSession) -> None:
    try:
        await asyncio.wait_for(session.send_tool_list_changed(), TOLD_WITHIN_S)
    except TimeoutError:
        _log.info("a session that does not read was not told that the tools have changed")
