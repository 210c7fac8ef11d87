"""HTTP by hand over one kept connection, for many requests at little cost: answers with a length, no streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.kit.rules import strictly
from tests.kit.web import ACCEPT, LIMIT_S, modern


@dataclass(slots=True)
class Raw:
    """One connection of one client."""

    host: str
    token: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, method: str, request_id: int | str = 1, **params: Any) -> dict[str, Any]:
        """One request of the 2026 protocol; its answer."""
        await self.say(method, request_id, **params)
        async with asyncio.timeout(LIMIT_S):
            said = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            length = int(said.split(b"content-length: ")[1].split(b"\r\n")[0])
            found: dict[str, Any] = strictly(await self.reader.readexactly(length))
        return found

    async def say(self, method: str, request_id: int | str = 1, **params: Any) -> None:
        """One request, and no wait for its answer."""
        body, headers = modern(method, request_id, **params)
        stated = {"Host": self.host, "Authorization": f"Bearer {self.token}", "Accept": ACCEPT} | headers
        head = "".join(f"{name}: {value}\r\n" for name, value in stated.items())
        self.writer.write(f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()


@asynccontextmanager
async def raw(url: str, token: str) -> AsyncGenerator[Raw]:
    """Connect, and hang up at the end."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield Raw(place.netloc, token, reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()
