"""Runs as resources, and the notices of their changes, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from mcp import Client, MCPError
from mcp.types import TextResourceContents

from counterfoil.registry.principal import Principal
from counterfoil.server.mcp import Surface
from counterfoil.server.surface import listeners, notices
from tests.server import kit, runs_kit
from tests.server.http_kit import ANN, BOB, site
from tests.server.runs_kit import LIMIT_S, Desk, until

pytestmark = pytest.mark.anyio
RUN = "counterfoil://runs/run_mine"
EVENTS = f"{RUN}/events"
MODES = pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
T = TypeVar("T")


def within(what: Awaitable[T]) -> Awaitable[T]:
    return asyncio.wait_for(what, LIMIT_S)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "PAUSE_S", 0.002)


class Heard(list[str]):
    """The addresses that notices named."""

    async def __call__(self, message: object) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            self.append(str(message.params.uri))  # type: ignore[attr-defined]


async def subscribe(client: Client, uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older protocols' own way, which the SDK calls deprecated
        await within(client.subscribe_resource(uri))


async def unsubscribe(client: Client, uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await within(client.unsubscribe_resource(uri))


@asynccontextmanager
async def listening(surface: Surface, mode: str, *uris: str) -> AsyncGenerator[Heard]:
    """A client that has subscribed to these."""
    heard = Heard()
    if mode == "legacy":
        async with Client(surface.server, mode=mode, message_handler=heard) as client:
            for uri in uris:
                await subscribe(client, uri)
            yield heard
        return
    async with Client(surface.server, mode=mode) as client, client.listen(resource_subscriptions=uris) as events:

        async def collect() -> None:
            async for event in events:
                heard.append(getattr(event, "uri", "?"))

        collecting = asyncio.create_task(collect())
        yield heard
        collecting.cancel()


async def read(client: Client, uri: str) -> tuple[dict[str, Any], dict[str, Any]]:
    (content,) = (await within(client.read_resource(uri))).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/json"
    return json.loads(content.text), dict(content.meta or {})


@MODES
async def test_a_run_is_read_as_its_view_and_its_events_page_by_page(desk: Desk, mode: str) -> None:
    async with Client(runs_kit.surface(desk).server, mode=mode) as client:
        view, _ = await read(client, RUN)
        first, more = await read(client, EVENTS)
        rest, end = await read(client, f"{EVENTS}?after_seq={more['counterfoil/next_after_seq']}")
        assert (await within(client.list_resources())).resources == []
    assert view == runs_kit.run_view("run_mine")
    assert first.keys() == {"run_id", "status", "seq", "events", "more"}
    assert [one["seq"] for one in first["events"] + rest["events"]] == [1, 2, 3, 4, 5]
    assert (first["more"], rest["more"], end) == (True, False, {})


@MODES
async def test_a_foreign_run_and_an_unknown_one_get_the_same_answer(desk: Desk, mode: str) -> None:
    errors: list[tuple[int, str, object]] = []
    async with Client(runs_kit.surface(desk).server, mode=mode) as client:
        for run_id in ("run_foreign", "run_unknown", "call_2", "..", "run_mine/"):
            for uri in (f"counterfoil://runs/{run_id}", f"counterfoil://runs/{run_id}/events"):
                with pytest.raises(MCPError) as caught:
                    await within(client.read_resource(uri))
                error = caught.value.error
                errors.append((error.code, error.message, error.data == {"uri": uri}))
    assert set(errors) == {(-32602, "Resource not found", True)}


async def test_reading_a_run_delivers_what_it_shows_and_reading_events_does_not(desk: Desk) -> None:
    async with runs_kit.piped(runs_kit.surface(desk)) as client:
        client.say("resources/read", 1, modern=True, uri=EVENTS)
        await client.answer(1)
        assert desk.told == []
        client.say("resources/read", 2, modern=True, uri=RUN)
        await client.answer(2)
        await asyncio.wait_for(desk.heard.wait(), LIMIT_S)
    assert desk.told == [(("call_1",), kit.ME)]


@MODES
async def test_a_change_is_told_to_who_subscribed_and_owns_the_run(desk: Desk, mode: str) -> None:
    surface = runs_kit.surface(desk)
    foreign = "counterfoil://runs/run_foreign"
    async with listening(surface, mode, RUN, EVENTS, foreign) as heard:
        surface.run_changed("run_foreign", runs_kit.OTHER)
        surface.run_changed("run_mine", Principal("another tenant", kit.ME.subject))
        surface.run_changed("run_more", kit.ME)
        surface.run_changed("run_mine", Principal(kit.ME.tenant, kit.ME.subject, "another client"))
        await until(lambda: len(heard) == 2)
    assert sorted(heard) == [RUN, EVENTS]


@MODES
async def test_many_changes_are_one_notice_until_it_is_told_and_none_is_lost(desk: Desk, mode: str) -> None:
    surface = runs_kit.surface(desk)
    last = "counterfoil://runs/run_last"
    async with listening(surface, mode, RUN, last) as heard:
        surface.run_changed("run_mine", kit.ME)
        await until(lambda: heard)
        for _ in range(1_000):
            surface.run_changed("run_mine", kit.ME)
            await asyncio.sleep(0)
        surface.run_changed("run_last", kit.ME)
        await until(lambda: last in heard)
        assert 2 <= heard.count(RUN) < 100
        told = len(heard)
        surface.run_changed("run_mine", kit.ME)
        await until(lambda: len(heard) > told)


async def test_a_session_that_ends_leaves_no_notice_behind(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def telling() -> list[str]:
        names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
        return [name for name in names if name == "Session._tell"]

    surface = runs_kit.surface(desk)
    async with listening(surface, "legacy", RUN) as heard:
        surface.run_changed("run_mine", kit.ME)
        await until(lambda: heard)
        monkeypatch.setattr(notices, "PAUSE_S", 3_600.0)
        surface.run_changed("run_mine", kit.ME)
        await until(telling)
    await until(lambda: not telling())


async def test_whoever_no_longer_wants_to_hear_is_told_no_more(desk: Desk) -> None:
    surface, heard = runs_kit.surface(desk), Heard()
    async with Client(surface.server, mode="legacy", message_handler=heard) as client:
        await subscribe(client, RUN)
        await subscribe(client, EVENTS)
        await unsubscribe(client, RUN)
        surface.run_changed("run_mine", kit.ME)
        await until(lambda: heard)
        await unsubscribe(client, RUN)
    assert heard == [EVENTS]


async def test_one_session_has_an_end_of_subscriptions_and_only_runs_change(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "SUBSCRIBED_MAX", 2)
    async with Client(runs_kit.surface(desk).server, mode="legacy") as client:
        await subscribe(client, RUN)
        await subscribe(client, EVENTS)
        await subscribe(client, RUN)
        for uri, says in (("counterfoil://runs/run_x", "subscriptions"), ("counterfoil://tools/echo", "not found")):
            with pytest.raises(MCPError, match=says):
                await subscribe(client, uri)


async def test_nothing_is_kept_of_listeners_that_have_gone(desk: Desk) -> None:
    surface = runs_kit.surface(desk)
    for mode in ("legacy", "2026-07-28"):
        async with listening(surface, mode, RUN) as heard:
            surface.run_changed("run_mine", kit.ME)
            await until(lambda heard=heard: heard)
    kept = surface._listeners
    await until(lambda: not (kept._subscribed or kept._sessions or kept._streams))
    surface.run_changed("run_mine", kit.ME)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_capabilities_promise_what_is_told_and_no_more(desk: Desk, mode: str) -> None:
    async with Client(runs_kit.surface(desk).server, mode=mode) as client:
        said = client.server_capabilities
    assert said.resources
    assert said.prompts
    assert said.tools
    assert said.completions is not None
    assert (said.resources.subscribe, said.resources.list_changed) == (True, False)
    assert (said.prompts.list_changed, said.tools.list_changed) == (False, True)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http_each_owner_hears_of_its_own_runs(desk: Desk, mode: Any) -> None:
    async with site(desk, base_tools=runs_kit.tools(desk)) as here:
        anns, bobs = Heard(), Heard()
        async with (
            here.web.client("token-of-ann", mode, anns) as ann,
            here.web.client("token-of-bob", mode, bobs) as bob,
        ):
            if mode == "legacy":
                await subscribe(ann, RUN)
                await subscribe(bob, RUN)
                await tell_until(here.surface, anns)
                await tell_until(here.surface, bobs, BOB)
                return
            async with (
                ann.listen(resource_subscriptions=[RUN]) as for_ann,
                bob.listen(resource_subscriptions=[RUN]) as for_bob,
            ):
                here.surface.run_changed("run_mine", ANN)
                assert (await within(anext(aiter(for_ann)))).uri == RUN  # type: ignore[union-attr]
                waiting = asyncio.ensure_future(anext(aiter(for_bob)))
                here.surface.run_changed("run_mine", ANN)
                await within(anext(aiter(for_ann)))
                assert not waiting.done()
                here.surface.run_changed("run_mine", BOB)
                await within(waiting)


async def tell_until(surface: Surface, heard: Heard, owner: Principal = ANN) -> None:
    """A session's own stream opens when its client likes; what was told before that is lost, as MCP has it."""
    async with asyncio.timeout(LIMIT_S):
        while not heard:
            surface.run_changed("run_mine", owner)
            await asyncio.sleep(0.02)
