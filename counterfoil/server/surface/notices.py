"""How one listener is told that a run of its own has changed: each resource once at a time, and not too often.

A notice says only that something changed; whoever gets it reads. So a second one for the same resource is worth nothing
while the first still waits, and a client that does not read makes nothing grow.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol, cast

from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.types import (
    RequestId,
    ResourceUpdatedNotification,
    ServerNotification,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from ...registry.principal import Principal

PAUSE_S: Final = 0.1
"""The least time between two notices of one resource to one listener."""
TOLD_WITHIN_S: Final = 1.0
"""How long one session may take to be told: a client that does not read holds up nobody else."""
_RUN: Final = re.compile(r"counterfoil://runs/run_[A-Za-z0-9_-]{1,128}(?:/events)?")
_log = logging.getLogger(__name__)


def run_uris(run_id: str) -> tuple[str, str]:
    """What can be read, and so subscribed to, of one run."""
    return f"counterfoil://runs/{run_id}", f"counterfoil://runs/{run_id}/events"


def may_change(uri: str) -> bool:
    """Whether notices can ever come for this address: it is a run's, whoever's that is and whether or not it exists."""
    return _RUN.fullmatch(uri) is not None


class Listener(Protocol):
    """Whoever subscribed."""

    @property
    def principal(self) -> Principal:
        """For whom it listens."""
        ...

    def changed(self, uri: str) -> None:
        """Something to which it subscribed has changed. Waits for nothing."""
        ...


class Notices:
    """What one listener was not told yet."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._last: dict[str, float] = {}

    def add(self, uri: str) -> bool:
        """Note a change; False if a notice of it waits already."""
        if uri in self._waiting:
            return False
        self._waiting.add(uri)
        return True

    async def due(self, uri: str) -> None:
        """Wait until it may be told; what changes from then on is another notice."""
        now = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._last.get(uri, 0.0) + PAUSE_S - now()))
        self._last[uri] = now()
        self._waiting.discard(uri)

    def forget(self, uri: str) -> None:
        """Nobody wants to be told of it any more."""
        self._waiting.discard(uri)
        self._last.pop(uri, None)


class Bus:
    """The SDK's way into one subscription. Whoever tells waits for nobody."""

    def __init__(self) -> None:
        self._listener: Callable[[ServerEvent], None] | None = None

    def tell(self, event: ServerEvent) -> None:
        """Pass on what happened."""
        if self._listener is not None:
            self._listener(event)

    async def publish(self, event: ServerEvent) -> None:
        """As `tell`, in the SDK's form."""
        self.tell(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Take the one listener; gives what ends that."""
        self._listener = listener

        def unsubscribe() -> None:
            self._listener = None

        return unsubscribe


class Stream:
    """One subscription of the 2026 protocol."""

    def __init__(self, principal: Principal, params: SubscriptionsListenRequestParams) -> None:
        self.principal = principal
        self.uris = frozenset(filter(may_change, params.notifications.resource_subscriptions or ()))
        self.bus = Bus()
        self._handler = ListenHandler(self.bus)
        self._notices = Notices()

    async def serve(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Until its client goes or `close`."""
        session = cast("ServerSession", _Paced(ctx.session, self._notices))
        return await self._handler(replace(ctx, session=session), params)

    def changed(self, uri: str) -> None:
        """Something to which it subscribed has changed."""
        if self._notices.add(uri):
            self.bus.tell(ResourceUpdated(uri))

    def close(self) -> None:
        """End it in order."""
        self._handler.close()


class _Paced:
    """The session of a subscription, as far as the SDK's handler uses it, which writes no notice before it is due."""

    def __init__(self, session: ServerSession, notices: Notices) -> None:
        self._session = session
        self._notices = notices

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        if isinstance(notification, ResourceUpdatedNotification):
            await self._notices.due(str(notification.params.uri))
        await self._session.send_notification(notification, related_request_id=related_request_id)


class Session:
    """One session of the older protocols, with what it subscribed to."""

    def __init__(self, principal: Principal, session: ServerSession) -> None:
        self.principal = principal
        self.session = session
        self.uris: set[str] = set()
        self._queue: deque[str] = deque()
        self._notices = Notices()
        self._telling: asyncio.Task[None] | None = None

    def changed(self, uri: str) -> None:
        """Something to which it subscribed has changed."""
        if not self._notices.add(uri):
            return
        self._queue.append(uri)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    def forget(self, uri: str) -> None:
        """It wants to be told of this no more."""
        self.uris.discard(uri)
        self._notices.forget(uri)

    def close(self) -> None:
        """It has ended."""
        if self._telling is not None:
            self._telling.cancel()

    async def _tell(self) -> None:
        while self._queue:
            uri = self._queue.popleft()
            await self._notices.due(uri)
            if uri not in self.uris:
                continue
            try:
                await asyncio.wait_for(self.session.send_resource_updated(uri), TOLD_WITHIN_S)
            except TimeoutError:
                _log.info("a session that does not read was not told that a run has changed")
