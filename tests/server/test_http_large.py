"""A body that is too large gets its answer: 413 and the end of the connection, and no reset that hides it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import pytest
from mcp.shared.exceptions import MCPError

from counterfoil.registry.strict_json import Bounds
from tests.kit.web import LIMIT_S
from tests.server import kit
from tests.server.http_kit import Site, site

pytestmark = pytest.mark.anyio
LARGE = [1_200_000, 5_000_000, 20_000_000]
PIECE = b" " * 65_536


@pytest.fixture
async def here() -> AsyncGenerator[Site]:
    async with site(kit.Desk(), bounds=Bounds(bytes=1_064_000, depth=68)) as served:
        yield served


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("chunked", [False, True])
async def test_whoever_sends_all_of_a_body_that_is_too_large_reads_why_it_is_refused(
    here: Site, size: int, chunked: bool
) -> None:
    answer = await asyncio.wait_for(sent(here, size, chunked=chunked), LIMIT_S)
    head, _, said = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head.lower()
    assert said == b"Expected at most 1,064,000 bytes."


async def test_whoever_asks_before_sending_is_told_at_once(here: Site) -> None:
    answer = await asyncio.wait_for(sent(here, 5_000_000, "Expect: 100-continue\r\n", pieces=0), LIMIT_S)
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_would_never_end_is_not_read_for_ever(here: Site) -> None:
    answer = await asyncio.wait_for(sent(here, 10**12, pieces=0), LIMIT_S)
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_real_client_gets_an_answer_too_and_goes_on(here: Site, mode: str) -> None:
    async with here.web.client(mode=mode) as client:  # type: ignore[arg-type] # one of the two words
        with pytest.raises(MCPError, match="Server returned an error response"):
            await client.call_tool("echo", {"a": "x" * 5_000_000})
        assert (await client.call_tool("echo", {"a": 1})).structured_content == {"a": 1}


async def sent(here: Site, size: int, more: str = "", *, chunked: bool = False, pieces: int | None = None) -> bytes:
    """Everything that comes back on a connection of its own."""
    place = urlsplit(here.web.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    writer.write(
        f"POST /mcp HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {here.web.token}\r\n"
        f"Content-Type: application/json\r\n{length}\r\n{more}\r\n".encode()
    )
    for at in range(0, size if pieces is None else 0, len(PIECE)):
        piece = PIECE[: size - at]
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        await writer.drain()
    if chunked:
        writer.write(b"0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer
