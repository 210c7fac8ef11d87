"""A far side that says exactly the bytes it is told, for what no HTTP server would say. It counts its requests."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

LIMIT_S: Final = 20.0
_RESET: Final = struct.pack("ii", 1, 0)


@dataclass
class RawFarSide:
    """`says` are the bytes of every answer; after them the connection ends, by a reset if `resets`.

    With `deaf` the connection is reset as soon as it stands, before anything is read.
    """

    port: int = 0
    says: bytes = b""
    resets: bool = False
    deaf: bool = False
    requests: list[bytes] = field(default_factory=list[bytes])

    def script(self, says: bytes = b"", *, resets: bool = False, deaf: bool = False) -> None:
        """What comes from now on; the count begins anew."""
        self.says, self.resets, self.deaf, self.requests = says, resets, deaf, []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        if self.deaf:
            self.requests.append(b"")
        else:
            async with asyncio.timeout(LIMIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head)
                await reader.readexactly(_length(head))
            writer.write(self.says)
            await writer.drain()
        if self.resets or self.deaf:
            own: socket.socket = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        writer.close()


@asynccontextmanager
async def raw_far_side() -> AsyncGenerator[RawFarSide]:
    """One for as long as the block runs."""
    far = RawFarSide()
    async with await asyncio.start_server(far.answer, "127.0.0.1", 0) as server:
        far.port = server.sockets[0].getsockname()[1]
        yield far


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
