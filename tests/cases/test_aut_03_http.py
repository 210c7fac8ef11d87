"""AUT-03, over HTTP: an answer goes to the request that it belongs to, though every client counts from 1."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.kit.bench import furnish
from tests.kit.raw import Raw, raw
from tests.kit.web import answer_of, legacy, modern, open_session, shown, web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CLIENTS = 50
CALLS = 40
AUTH = (
    '[auth]\nmode = "tokens"\n'
    '[[auth.tokens]]\ntoken = "env:NORTH"\nsubject = "n"\ntenant = "north"\nscopes = ["*"]\n'
    '[[auth.tokens]]\ntoken = "env:SOUTH"\nsubject = "s"\ntenant = "south"\nscopes = ["*"]\n'
)
TOKENS = {"NORTH": "token-of-the-north", "SOUTH": "token-of-the-south"}


async def echoed(client: Raw, tag: str, *, recorded: bool) -> str:
    """What comes back for a tag: every fifth time of a recorded call, else of a search, which costs less."""
    name, arguments = ("kit_echo", {"value": tag}) if recorded else ("tool_search", {"names": [tag]})
    answer = await client.ask("tools/call", 1, name=name, arguments=arguments)
    assert answer["id"] == 1
    body = answer["result"]["structuredContent"]
    return str(body["result"] if recorded else body["unmatched_terms"][0])


@pytest.mark.promise("AUT-03")
async def test_two_thousand_answers_under_one_id_reach_their_own_clients(shop: Workshop) -> None:
    order = random.Random(3)
    shop = furnish(shop, AUTH, server='visibility = "all"')
    async with web(shop, env=TOKENS) as (_, there):

        async def talk(number: int) -> list[tuple[str, str]]:
            tenant = ("NORTH", "SOUTH")[number % 2]
            found: list[tuple[str, str]] = []
            async with raw(there.url, TOKENS[tenant]) as client:
                for count in range(CALLS):
                    tag = f"{tenant}-{number}-{count}"
                    await asyncio.sleep(order.random() * 0.02)
                    found.append((tag, await echoed(client, tag, recorded=count % 5 == 0)))
            return found

        answers = [pair for pairs in await asyncio.gather(*map(talk, range(CLIENTS))) for pair in pairs]
    assert len(answers) == CLIENTS * CALLS
    assert [pair for pair in answers if pair[0] != pair[1]] == []


@pytest.mark.promise("AUT-03")
async def test_in_one_session_a_second_request_under_an_open_id_is_refused_and_a_sent_write_is_not_repeated(
    shop: Workshop,
) -> None:
    shop = furnish(shop, server='visibility = "all"')
    shop.world.arm("r", hold="before")
    meta = {"counterfoil/idempotency_key": "K"}
    async with web(shop) as (_, there), there.http() as http:
        session = await open_session(http, there.url)
        body, headers = legacy("tools/call", 7, session, name="kit_write", arguments={"ref": "r"}, _meta=meta)
        first = asyncio.create_task(http.post(there.url, content=body, headers=headers))
        await shop.world.reached("r", "asked")
        second = await http.post(there.url, content=body, headers=headers)
        assert (second.status_code, answer_of(second)["error"]["code"]) == (400, -32600)
        shop.world.release("r")
        done = shown(await first)
        again = shown(await http.post(there.url, content=body, headers=headers))
    assert done == again
    assert shop.world.count("r") == 1


@pytest.mark.promise("AUT-03")
@pytest.mark.parametrize("era", ["2026", "2025"])
async def test_a_write_whose_client_left_goes_on_and_the_same_words_join_it(shop: Workshop, era: str) -> None:
    shop = furnish(shop, server='visibility = "all"')
    shop.world.arm("r", hold="before")
    async with web(shop) as (_, there), there.client() as other:
        async with there.http() as http:
            session = await open_session(http, there.url) if era == "2025" else ""
            call: dict[str, Any] = {"name": "kit_write", "arguments": {"ref": "r"}}
            body, headers = legacy("tools/call", 2, session, **call) if session else modern("tools/call", 2, **call)
            asking = asyncio.create_task(http.post(there.url, content=body, headers=headers))
            await shop.world.reached("r", "asked")
            asking.cancel()
            await asyncio.wait({asking})
        joining = asyncio.create_task(other.call_tool("kit_write", {"ref": "r"}))
        await other.call_tool("status", {})
        shop.world.release("r")
        view = ((await joining).meta or {})["counterfoil/call"]
    assert (view["outcome"], view["replayed"], shop.world.count("r")) == ("success", True, 1)


@pytest.mark.promise("AUT-03")
async def test_they_join_it_though_the_server_was_not_reading_when_its_client_left(shop: Workshop) -> None:
    shop = furnish(shop, server='visibility = "all"')
    shop.world.arm("r", hold="before")
    call: dict[str, Any] = {"name": "kit_write", "arguments": {"ref": "r"}}
    async with web(shop) as (_, there), there.http() as http:
        async with raw(there.url, there.token) as gone:
            await gone.say("tools/call", **call)
            await shop.world.reached("r", "asked")
            gone.writer.write(b"POST /mcp HTTP/1.1\r\n")  # while a request is open, no more than this is read
        body, headers = modern("tools/call", 2, **call)
        joining = asyncio.create_task(http.post(there.url, content=body, headers=headers))
        async with raw(there.url, there.token) as other:
            await other.ask("tools/call", name="status", arguments={})
        shop.world.release("r")
        view = answer_of(await joining)["result"]["_meta"]["counterfoil/call"]
    assert (view["outcome"], view["replayed"], shop.world.count("r")) == ("success", True, 1)
