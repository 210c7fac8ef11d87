"""Sessions of the older protocols: a subject has so many, and what has ended is forgotten."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from counterfoil.server.surface.listeners import Listeners
from tests.kit.web import answer_of, legacy, modern, open_session
from tests.server import kit
from tests.server.http_kit import Site, site

pytestmark = pytest.mark.anyio


@pytest.fixture
async def here() -> AsyncGenerator[Site]:
    async with site(kit.Desk()) as served:
        yield served


def told(here: Site) -> int:
    listeners: Listeners = here.surface._listeners  # pyright: ignore[reportPrivateUsage] (no door is made for tests alone)
    return len(listeners._sessions)  # pyright: ignore[reportPrivateUsage] (as above)


async def test_a_subject_has_so_many_sessions_and_the_end_of_one_makes_room(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.server.http.sessions.SESSIONS_EACH", 2)
    async with here.web.http() as ann, here.web.http("token-of-bob") as bob:
        first = await open_session(ann, here.web.url)
        await open_session(ann, here.web.url)
        body, headers = legacy("initialize", 5)
        refused = await ann.post(here.web.url, content=body, headers=headers)
        assert (refused.status_code, answer_of(refused)["id"]) == (429, 5)
        await open_session(bob, here.web.url)
        body, headers = modern("tools/list")
        assert (await ann.post(here.web.url, content=body, headers=headers)).status_code == 200
        assert (await ann.delete(here.web.url, headers={"Mcp-Session-Id": first})).status_code == 200
        await open_session(ann, here.web.url)


async def test_a_session_that_has_ended_is_told_nothing_and_one_is_told_once(here: Site) -> None:
    async with here.web.http() as http:
        for _ in range(3):
            session = await open_session(http, here.web.url)
            body, headers = legacy("notifications/initialized", None, session)
            assert (await http.post(here.web.url, content=body, headers=headers)).status_code == 202
            body, headers = legacy("ping", 2, session)
            assert (await http.post(here.web.url, content=body, headers=headers)).status_code == 200
            assert told(here) == 1
            await http.delete(here.web.url, headers={"Mcp-Session-Id": session})
            async with here.web.client(mode="legacy"):
                pass
            assert told(here) == 0
