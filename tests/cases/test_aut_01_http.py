"""AUT-01, over HTTP: two principals of one server, each of whom gets what a server for it alone would answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from counterfoil.registry.principal import Principal
from counterfoil.registry.strict_json import Bounds
from counterfoil.server.http.doorman import Doorman
from counterfoil.server.http.edge import exchange_of
from counterfoil.server.http.place import listen
from counterfoil.server.http.serving import serve
from counterfoil.server.serve import surface_of
from tests.kit.raw import Raw, raw
from tests.kit.two_desks import WORDS
from tests.kit.web import LIMIT_S, Stop
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
QUESTIONS = 1_000
DESKS = ("north", "south")
POLICY = "".join(
    f'[[policy]]\nid = "{mine}-only"\ntool = "{other}_*"\nsubject = "{mine}"\nverdict = "deny"\n'
    for mine, other in (DESKS, DESKS[::-1])
)
LOOKS_ONLY = (None, "tool_search")
"""What records nothing, and says the same each time."""
Question = tuple[str, dict[str, Any]]


@asynccontextmanager
async def server(folder: Path, *desks: str) -> AsyncGenerator[str]:
    """A server with the tools of these desks; its address."""
    folder.mkdir()
    modules = ", ".join(f'"tests.kit.{desk}_tools"' for desk in desks)
    shop = Workshop.new(folder, POLICY, head={"python": f"modules = [{modules}]", "server": 'visibility = "all"'})
    known = {desk: Principal("t", desk, "http", frozenset({f"{desk}:read"})) for desk in DESKS}
    doorman = Doorman(tuple((hashlib.sha256(desk.encode()).digest(), who) for desk, who in known.items()))
    stop = Stop()
    async with shop.open(role="serve") as app:
        listener, place = listen("127.0.0.1", 0)
        serving = asyncio.create_task(serve(surface_of(app, exchange_of), listener, place, doorman, stop, Bounds()))
        try:
            yield place.url
        finally:
            stop.asked.set()
            assert await asyncio.wait_for(serving, LIMIT_S) == 0
            listener.close()


def question(order: random.Random) -> Question:
    """Something that either may ask, about what either has."""
    desk, word = order.choice(DESKS), order.choice(WORDS)
    name = order.choice([f"{desk}_{word}_look", f"{desk}_{word}_loo", word])
    arguments = order.choice([{"ref": "r"}, {"ref": 1}, {}, {"ref": "r", "count": order.randrange(9)}])
    search = order.choice(
        [
            {"query": f"{word} {order.choice(WORDS)}", "limit": order.choice([1, 12])},
            {"query": f"{desk} {word}", "detail": "full"},
            {"names": [name, f"{order.choice(DESKS)}_{word}_look"]},
            {"category": order.choice(["desk", f"{desk}-{word[0]}"]), "limit": 20},
            {},
        ]
    )
    asked: list[Question] = [
        *[("tools/call", {"name": "tool_search", "arguments": search})] * 4,
        ("tools/call", {"name": "tool_read", "arguments": {"name": name, "arguments": arguments}}),
        ("tools/call", {"name": name, "arguments": arguments}),
        ("tools/call", {"name": "status", "arguments": {"call_id": f"call_{word}"}}),
        ("resources/read", {"uri": f"counterfoil://tools/{name}"}),
        ("tools/list", {}),
        ("server/discover", {}),
    ]
    return order.choice(asked)


def told(answer: dict[str, Any]) -> str:
    """An answer without ids and times."""
    text = json.dumps(answer, sort_keys=True)
    text = re.sub(r"(call|act)_[A-Za-z0-9_-]{16,}", r"\1_", text)
    return re.sub(
        r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+ s\b|\\\"retry_after_s\\\":[\d.]+|\"retry_after_s\": [\d.]+", "T", text
    )


@pytest.mark.promise("AUT-01")
async def test_each_of_two_principals_gets_what_a_server_for_it_alone_would_say(tmp_path: Path) -> None:
    order = random.Random(11)
    async with AsyncExitStack() as stack:
        both = await stack.enter_async_context(server(tmp_path / "both", *DESKS))
        pairs: dict[str, tuple[Raw, Raw]] = {}
        for desk in DESKS:
            own = await stack.enter_async_context(server(tmp_path / desk, desk))
            shared = await stack.enter_async_context(raw(both, desk))
            pairs[desk] = shared, await stack.enter_async_context(raw(own, desk))
        said: dict[str, str] = {}
        for _ in range(QUESTIONS):
            desk = order.choice(DESKS)
            method, asked = question(order)
            here, alone = pairs[desk]
            key = json.dumps([desk, method, asked])
            if key not in said or asked.get("name") not in LOOKS_ONLY:
                said[key] = told(await alone.ask(method, **asked))
            assert told(await here.ask(method, **asked)) == said[key], key
