"""What a desk is told of a `run` whose request ends: a client that cancels means it, one that is gone does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from counterfoil.registry.request import NOBODY_WAITS
from counterfoil.server.surface.ending import told_why
from tests.kit.web import Web, legacy, modern, open_session
from tests.server import runs_kit
from tests.server.http_kit import site
from tests.server.runs_kit import LIMIT_S, Desk, opened, piped, until

pytestmark = pytest.mark.anyio
CALL: dict[str, Any] = {"name": "run", "arguments": {"plan_id": "plan_1"}}
ERAS = pytest.mark.parametrize("is_modern", [True, False], ids=["modern", "legacy"])


@pytest.fixture
def desk() -> Desk:
    return Desk()


@asynccontextmanager
async def running_over_http(desk: Desk, *, is_modern: bool) -> AsyncGenerator[tuple[Web, httpx2.AsyncClient, str, Any]]:
    """A run that is asked for over HTTP and has reached the desk."""
    async with site(desk, base_tools=runs_kit.tools(desk)) as here, here.web.http() as http:
        session = "" if is_modern else await open_session(http, here.web.url)
        body, headers = modern("tools/call", 7, **CALL) if is_modern else legacy("tools/call", 7, session, **CALL)
        asking = asyncio.create_task(http.post(here.web.url, content=body, headers=headers))
        await until(lambda: desk.ran)
        yield here.web, http, session, asking
        asking.cancel()
        await asyncio.wait({asking})


@ERAS
async def test_over_stdio_a_cancelled_request_is_an_explicit_cancellation(desk: Desk, is_modern: bool) -> None:
    async with piped(runs_kit.surface(desk)) as client:
        await opened(client, modern=is_modern)
        client.say("tools/call", 7, modern=is_modern, **CALL)
        await until(lambda: desk.ran)
        client.say("notifications/cancelled", modern=is_modern, requestId=7, reason="whatever its cause")
        await until(lambda: desk.ends)
        assert desk.ends == [("cancelled",)]


@ERAS
async def test_over_stdio_an_input_that_ends_is_not(desk: Desk, is_modern: bool) -> None:
    async with piped(runs_kit.surface(desk)) as client:
        await opened(client, modern=is_modern)
        client.say("tools/call", 7, modern=is_modern, **CALL)
        await until(lambda: desk.ran)
        client.hang_up()
        await until(lambda: desk.ends)
    assert desk.ends == [(NOBODY_WAITS,)]


@ERAS
async def test_over_http_a_cancelled_request_is_an_explicit_cancellation(desk: Desk, is_modern: bool) -> None:
    async with running_over_http(desk, is_modern=is_modern) as (web, http, session, _):
        name, params = "notifications/cancelled", {"requestId": 7}
        body, headers = modern(name, None, **params) if is_modern else legacy(name, None, session, **params)
        assert (await http.post(web.url, content=body, headers=headers)).status_code == 202
        await until(lambda: desk.ends)
    assert desk.ends == [("cancelled",)]


@ERAS
async def test_over_http_a_stream_that_closes_is_not(desk: Desk, is_modern: bool) -> None:
    async with running_over_http(desk, is_modern=is_modern) as (_, _, _, asking):
        asking.cancel()
        await until(lambda: desk.ends)
    assert desk.ends == [(NOBODY_WAITS,)]


async def test_over_http_a_session_that_ends_is_not(desk: Desk) -> None:
    async with running_over_http(desk, is_modern=False) as (web, http, session, _):
        gone = await http.delete(web.url, headers={"Mcp-Session-Id": session})
        assert gone.status_code == 200
        await until(lambda: desk.ends)
    assert desk.ends == [(NOBODY_WAITS,)]


async def test_a_request_is_over_only_when_its_desk_has_recorded_why() -> None:
    recorded, begun = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await recorded.wait()

    asking = asyncio.create_task(told_why(work(), lambda: False))
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    for _ in range(3):  # the SDK cancels again and again until a request has ended
        asking.cancel()
        await asyncio.sleep(0)
    assert not asking.done()
    recorded.set()
    await asyncio.wait({asking}, timeout=LIMIT_S)
    assert asking.cancelled()


async def test_a_run_shows_progress_and_waits_longer_where_its_client_asked_for_it(desk: Desk) -> None:
    async with piped(runs_kit.surface(desk, heartbeat_s=0.02)) as client:
        await opened(client, modern=False)
        client.say("tools/call", 7, modern=False, **CALL, _meta={"progressToken": "t"})
        heard = [(await client.heard())["params"] for _ in range(3)]
        desk.gate.set()
        answer = await client.answer(7)
    assert [(one["progressToken"], one["message"]) for one in heard] == [
        ("t", "order"), ("t", "still working"), ("t", "still working")
    ]  # fmt: skip
    assert answer["result"]["structuredContent"]["waited_s"] == 20.0


@ERAS
async def test_a_run_without_progress_waits_as_a_call_does(desk: Desk, is_modern: bool) -> None:
    desk.gate.set()
    async with piped(runs_kit.surface(desk)) as client:
        await opened(client, modern=is_modern)
        client.say("tools/call", 7, modern=is_modern, **CALL)
        short = await client.answer(7)
        client.say("tools/call", 8, modern=is_modern, name="run", arguments={"plan_id": "p", "wait_s": 45})
        long = await client.answer(8)
    assert [one["result"]["structuredContent"]["waited_s"] for one in (short, long)] == [4.0, 45]


async def test_a_stopping_server_takes_no_new_run_and_no_plan(desk: Desk) -> None:
    served = runs_kit.surface(desk)
    served.refuse_calls()
    async with piped(served) as client:
        for number, (name, arguments) in enumerate(
            {"run": {"plan_id": "p"}, "plan": {"goal": "g", "steps": []}}.items()
        ):
            client.say("tools/call", number, modern=True, name=name, arguments=arguments)
            body = (await client.answer(number))["result"]["structuredContent"]
            assert (body["error"]["code"], body["sent"], "call_id" in body) == ("unavailable", "no", False)
    assert desk.ran == []
