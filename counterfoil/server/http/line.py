"""One HTTP connection: uvicorn's protocol, which also tells what was really written, who has gone, who is too slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from .ended import far_end_gone

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

LINE: Final = "counterfoil.line"
HEAD_S: Final = 10.0
"""How long a client may take for the head of a request, in seconds."""


class LineProtocol(H11Protocol):
    """A connection. The application finds it in its scope, as `counterfoil.line`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Every byte that cannot be written at once is known of: the water marks are at the ground."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)
        self._unwritten = False
        self._failed = False
        self._gone = False
        self._too_slow: asyncio.TimerHandle | None = None
        self.when_gone: set[Callable[[], None]] = set()
        inner: Any = self.app

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            self._stop_clock()
            scope[LINE] = self
            await inner(scope, receive, send)

        self.app = application
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Part of a request."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first request, whatever uvicorn's type says
        if cycle is None or cycle.response_complete:
            self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended, by whomever."""
        self._failed = exc is not None
        self._gone = True
        self._stop_clock()
        super().connection_lost(exc)
        for tell in tuple(self.when_gone):
            tell()

    def pause_writing(self) -> None:
        """Something could not be written at once."""
        self._unwritten = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """All of it has been written now."""
        self._unwritten = False
        super().resume_writing()

    @property
    def gone(self) -> bool:
        """True once the connection has ended, whether or not the loop has noticed."""
        return self._gone or far_end_gone(self.transport.get_extra_info("socket"))

    async def all_written(self) -> bool:
        """Wait until what was sent has left this process; False if it never will."""
        await self.flow.drain()
        await asyncio.sleep(0)  # a write that failed at once is told of in the next round of the loop
        return not self._unwritten and not self._failed

    def cut(self) -> None:
        """End the connection, whatever is still to be written."""
        self.transport.abort()

    def _start_clock(self) -> None:
        if self._too_slow is None and not self.transport.is_closing():
            self._too_slow = self.loop.call_later(HEAD_S, self.cut)

    def _stop_clock(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None
