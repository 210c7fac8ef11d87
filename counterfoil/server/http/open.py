"""Which requests are open: their number, whose streams they are, whose clients have gone, which one is cancelled.

The SDK's older sessions keep their streams by the text of a request's id, so a second request under an open id would
take the first one's answer. It is refused here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from ...registry.principal import Principal
from ..surface.exchange import Exchange

REQUESTS: Final = 1_100
"""Open requests of all clients; a little more than the calls that may be open, which are refused in band."""
STREAMS: Final = 32
"""Open streams of one principal: subscriptions, and sessions that listen."""
RESERVED_ID: Final = "_GET_stream"
"""The name under which the SDK keeps a session's own stream among those of its requests."""
LEAVING_S: Final = 5.0
"""How long a request may take to end once its client has gone, in seconds, before a new one is refused for it."""
Id = str | int


class Line(Protocol):
    """The connection of a request."""

    @property
    def gone(self) -> bool:
        """True once its far end has hung up, whether or not anybody has noticed."""
        ...

    def cut(self) -> None:
        """End it now."""
        ...


@dataclass(frozen=True, eq=False)
class _Open:
    """A request that is being answered; `over` once the runtime knows whether its answer was written."""

    exchange: Exchange
    line: Line
    over: asyncio.Event = field(default_factory=asyncio.Event)


class OpenRequests:
    """The open requests of one server."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], set[_Open]] = {}
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._streams: Counter[Principal] = Counter()
        self._in_session: dict[tuple[str, str], _Open] = {}
        self._alone: dict[tuple[Principal, Id], list[Exchange]] = {}

    @property
    def full(self) -> bool:
        """True while no further request can be taken."""
        return self._count >= REQUESTS

    async def idle(self) -> None:
        """Wait until no request is open; streams do not count."""
        await self._idle.wait()

    async def takes(self, session: str | None, request_id: Id) -> bool:
        """False if a session has this id open already; one whose answer is out already is waited for."""
        if session is None:
            return True
        place = (session, str(request_id))
        held = self._in_session.get(place)
        if held is not None and held.exchange.answered:
            await held.over.wait()
        return place not in self._in_session and place[1] != RESERVED_ID

    async def departed(self, principal: Principal) -> bool:
        """Let each open request of this subject whose client has hung up leave; False if one does not end.

        What such a client asks again must find it gone: else the same write would be a second intent.
        """
        try:
            async with asyncio.timeout(LEAVING_S):
                while gone := [one for one in self._open.get(_subject(principal), ()) if one.line.gone]:
                    for one in gone:
                        one.exchange.leave()
                        one.line.cut()
                    await asyncio.gather(*(one.over.wait() for one in gone))
        except TimeoutError:
            return False
        return True

    @contextmanager
    def request(self, exchange: Exchange, line: Line, session: str | None, request_id: Id | None) -> Generator[None]:
        """One message is being answered; `request_id` is None for what is no request."""
        self._count += 1
        self._idle.clear()
        whose, mine = _subject(exchange.principal), _Open(exchange, line)
        self._open.setdefault(whose, set()).add(mine)
        place = None if session is None or request_id is None else (session, str(request_id))
        key = None if session is not None or request_id is None else (exchange.principal, request_id)
        if place is not None:
            self._in_session[place] = mine
        if key is not None:
            self._alone.setdefault(key, []).append(exchange)
        try:
            yield
        finally:
            mine.over.set()
            self._open[whose].discard(mine)
            if not self._open[whose]:
                del self._open[whose]
            if place is not None:
                del self._in_session[place]
            if key is not None:
                self._forget(key, exchange)
            self._count -= 1
            if not self._count:
                self._idle.set()

    @contextmanager
    def stream(self, principal: Principal) -> Generator[bool]:
        """One stream that lasts; False if this principal has too many."""
        if self._streams[principal] >= STREAMS:
            yield False
            return
        self._streams[principal] += 1
        try:
            yield True
        finally:
            self._streams[principal] -= 1
            if not self._streams[principal]:
                del self._streams[principal]

    def cancel(self, principal: Principal, request_id: Id) -> None:
        """Cancel this principal's one open request of that id outside sessions; nothing if it is not clear which."""
        meant = self._alone.get((principal, request_id), [])
        if len(meant) == 1:
            meant[0].cancel()

    def _forget(self, key: tuple[Principal, Id], exchange: Exchange) -> None:
        self._alone[key].remove(exchange)
        if not self._alone[key]:
            del self._alone[key]


def _subject(principal: Principal) -> tuple[str, str]:
    """Whose calls are one another's repeats: two clients of one subject are no two people."""
    return principal.tenant, principal.subject
