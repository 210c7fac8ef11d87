"""The kit's surface over real HTTP in this process, for principals with tokens of their own."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from counterfoil.registry.principal import Principal
from counterfoil.registry.strict_json import Bounds
from counterfoil.server.http.doorman import Doorman
from counterfoil.server.http.edge import exchange_of
from counterfoil.server.http.place import listen
from counterfoil.server.http.serving import serve
from counterfoil.server.mcp import Surface
from tests.kit.web import LIMIT_S, Stop, Web
from tests.server import kit

ANN: Final = Principal("a", "me", "desk", frozenset({"*"}))
BOB: Final = Principal("a", "bob", "desk", frozenset({"number"}))
TOKENS: Final = {"token-of-ann": ANN, "token-of-bob": BOB}
BOUNDS: Final = Bounds(bytes=100_000, depth=16)


@dataclass(frozen=True)
class Site:
    """One server in this process."""

    web: Web
    surface: Surface
    stop: Stop
    serving: asyncio.Task[int]


@asynccontextmanager
async def site(
    desk: kit.Desk, allowed_hosts: tuple[str, ...] = (), grace_s: float = 5.0, bounds: Bounds = BOUNDS, **more: Any
) -> AsyncGenerator[Site]:
    """Serve the kit's surface on a free port until the test ends."""
    surface = kit.surface(
        desk, principal_of=lambda ctx: exchange_of(ctx).principal, exchange_of=exchange_of, heartbeat_s=0.05, **more
    )
    async with hosted(surface, TOKENS, allowed_hosts, grace_s, bounds) as here:
        try:
            yield here
        finally:
            desk.gate.set()


@asynccontextmanager
async def hosted(
    surface: Surface,
    tokens: Mapping[str, Principal],
    allowed_hosts: tuple[str, ...] = (),
    grace_s: float = 5.0,
    bounds: Bounds = BOUNDS,
) -> AsyncGenerator[Site]:
    """Serve any surface on a free port until the test ends; the first of the tokens is the one that is shown."""
    listener, place = listen("127.0.0.1", 0, allowed_hosts)
    doorman = Doorman(tuple((hashlib.sha256(token.encode()).digest(), who) for token, who in tokens.items()))
    stop = Stop(grace_s)
    serving = asyncio.create_task(serve(surface, listener, place, doorman, stop, bounds))
    try:
        yield Site(Web(place.url, next(iter(tokens))), surface, stop, serving)
    finally:
        stop.grace_s = 0
        stop.asked.set()
        assert await asyncio.wait_for(serving, LIMIT_S) == 0
        listener.close()
