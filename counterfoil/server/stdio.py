"""MCP over stdio: strict JSON lines in, answers out, and an orderly end.

A message that breaks a rule is answered under its id and the connection goes on. What a message means is the surface's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server import NotificationOptions, Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from ..registry.strict_json import Bounds
from .stopping import Cause, Stop
from .strict import Broken, error_line, line_of, message_of
from .wire import LineReader, LineWriter, Wire

_log = logging.getLogger(__name__)
PROGRESS: Final = "notifications/progress"
_LAST_WORDS_S: Final = 0.4
"""How long each of the last steps of a stop may take, in seconds; together they stay below `stopping.LATE_S`."""


class Served(Protocol):
    """What the transport needs of the MCP surface."""

    @property
    def server(self) -> Server[Any]:
        """The SDK's server."""
        ...

    def receipt(self) -> Callable[[], None] | None:
        """What to do once the answer that the current task is about to send has been written; asked once for each."""
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


async def serve(surface: Served, wire: Wire, stop: Stop, bounds: Bounds) -> int:
    """Serve one client until its input ends, it goes away or a signal comes; the process's exit code.

    A signal refuses new calls. Calls in flight have `stop.grace_s` and their answers are still written.
    """
    connection = _Connection(surface, wire, stop, bounds)
    running = asyncio.create_task(connection.run())
    asked = asyncio.create_task(stop.wait())
    await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if running.done():
        await running
        return 0
    if stop.cause is Cause.SIGNAL:
        surface.refuse_calls()
    surface.end_streams()
    await _at_most(stop.grace_s, connection.outbox.idle())
    connection.close()
    await asyncio.wait({running}, timeout=_LAST_WORDS_S)
    await _at_most(_LAST_WORDS_S, connection.writer.empty())
    await _at_most(_LAST_WORDS_S, surface.receipts_done())
    if running.done():
        await running
    running.cancel()
    return 0


async def _at_most(limit_s: float, what: Any) -> None:  # noqa: ANN401 (any coroutine)
    with suppress(TimeoutError):
        await asyncio.wait_for(what, limit_s)


class _Connection:
    """The two directions of one client."""

    def __init__(self, surface: Served, wire: Wire, stop: Stop, bounds: Bounds) -> None:
        self._surface = surface
        self._stop = stop
        self._bounds = bounds
        self._reader = LineReader(wire.reader, bounds.bytes)
        self.writer = LineWriter(wire.writer, lambda: stop.ask(Cause.CLIENT_GONE))
        self.outbox = Outbox(self.writer, surface.receipt)
        self._into: MemoryObjectSendStream[SessionMessage | Exception]
        self._into, self._out_of = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def run(self) -> None:
        self._reader.start()
        self.writer.start()
        server = self._surface.server
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        reading = asyncio.create_task(self._read())
        try:
            await server.run(self._out_of, self.outbox, options)
        finally:
            reading.cancel()
            self._into.close()

    def close(self) -> None:
        """End the SDK's input; it cancels whatever still runs there."""
        self._into.close()

    async def _read(self) -> None:
        while (line := await self._reader.next()) is not None:
            if not line.strip():
                continue
            await self.writer.room()
            message = message_of(line, self._bounds)
            if isinstance(message, Broken):
                self.writer.offer(message.answer)
                continue
            try:
                await self._into.send(self.outbox.expected(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
        self._stop.ask(Cause.INPUT_ENDED)


class Outbox:
    """The SDK's write stream: counts what is open, and tells the surface when an answer has really left."""

    def __init__(self, writer: LineWriter, receipt: Callable[[], Callable[[], None] | None]) -> None:
        self._writer = writer
        self._receipt = receipt
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def expected(self, message: JSONRPCMessage) -> SessionMessage:
        """Wrap an incoming message; a request is open until it is answered or settles without an answer."""
        if not isinstance(message, JSONRPCRequest):
            return SessionMessage(message)
        self._open += 1
        self._idle.clear()
        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=self._unanswered))

    async def idle(self) -> None:
        """Wait until no request is open."""
        await self._idle.wait()

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message for the client. Progress for a client that does not read is dropped."""
        message = item.message
        if isinstance(message, JSONRPCNotification) and self._writer.full and message.method == PROGRESS:
            return
        answers = isinstance(message, JSONRPCResponse | JSONRPCError)
        written = self._receipt() if answers else None
        try:
            await self._writer.room()
            line = _encoded(message)
            if line is not None:
                self._writer.offer(line, written)
        finally:
            if answers:
                self._close_one()

    async def aclose(self) -> None:
        """Nothing: the descriptor belongs to the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _unanswered(self) -> None:
        self._close_one()

    def _close_one(self) -> None:
        self._open -= 1
        if self._open <= 0:
            self._idle.set()


def _encoded(message: JSONRPCMessage) -> bytes | None:
    """A message's line; None if it has none and nobody waits for it."""
    try:
        if isinstance(message, JSONRPCResponse):
            return line_of({"jsonrpc": "2.0", "id": message.id, "result": message.result})
        return line_of(message.model_dump(mode="json", by_alias=True, exclude_unset=True))
    except ValueError:
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            _log.error("a %s that is not strict JSON was dropped", message.method)
            return None
        _log.error("a message could not be written as strict JSON: %s", type(message).__name__)
        return error_line(message.id, INTERNAL_ERROR, "Internal error: the answer is not strict JSON")
