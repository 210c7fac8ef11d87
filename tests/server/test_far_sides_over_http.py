"""A far side that answers 202 and calls back, over real sockets: it is asked, its word alone settles nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from counterfoil.ledger.verify import verify_database
from counterfoil.server.app import App, open_app
from counterfoil.server.http.doorman import Doorman
from counterfoil.server.http.edge import exchange_of
from counterfoil.server.http.place import listen
from counterfoil.server.http.serving import serve
from counterfoil.server.serve import surface_of
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.web import LIMIT_S, Stop
from tests.runtime.bench import HandClock
from tests.runtime.talk import until
from tests.server.http_kit import BOUNDS

pytestmark = pytest.mark.anyio
WISH_S: Final = 90
TEXT: Final = """
[server]
public_url = "{public}"
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
durability = "normal"
[policy_defaults]
write = "allow"
[http]
allow_hosts = ["{far}"]
[tools.ship]
description = "Ship an order."
effect = "write"
resources = ["order:{{order}}"]
input = {{ order = "string" }}
[tools.ship.http]
method = "POST"
url = "http://{far}/jobs"
json = {{ tell = "{{call.callback}}", reference = "{{call.action_id}}" }}
accepted_status = [202]
evidence = {{ external_reference = "/job" }}
[tools.ship.probe]
url = "http://{far}/jobs?reference={{call.action_id}}"
happened = {{ path = "/state", eq = "done" }}
pending = {{ path = "/state", eq = "working" }}
absent = {{ path = "/state", eq = "none" }}
"""
TAKEN: Final = Answer(202, '{"job": "j7"}', {"Retry-After": str(WISH_S)})
WORKING: Final = Answer(200, '{"state": "working"}', {"Retry-After": "200"})
DONE: Final = Answer(200, '{"state": "done"}')


@dataclass(frozen=True)
class Scene:
    """An application that is served over HTTP, and the far side of its tool."""

    app: App
    far: FarSide
    clock: HandClock

    async def ship(self, *states: Answer) -> tuple[str, str]:
        """Ship an order, which is accepted; its call and where the far side may call back."""
        self.far.script("POST /jobs", TAKEN)
        self.far.script("GET /jobs", *states)
        view = await self.app.call("ship", {"order": "17"})
        assert view.call_id is not None
        assert (view.state, view.evidence and view.evidence["external_reference"]) == ("awaiting_external", "j7")
        return view.call_id, str(json.loads(self.far.seen[0].body)["tell"])

    def asked(self) -> int:
        return sum(1 for one in self.far.seen if one.method == "GET")

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while self.asked() < times:
                await asyncio.sleep(0.01)

    async def pass_(self) -> None:
        """A whole pass of whoever sweeps, after everything that was recorded."""
        await self.app.runtime._sweeper.sweep()  # pyright: ignore[reportPrivateUsage] (now, not at the next tick)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    listener, place = listen("127.0.0.1", 0)
    clock, stop = HandClock(), Stop(0)
    file = tmp_path / "counterfoil.toml"
    with FarSide(tmp_path / "effects.db") as far:
        file.write_text(TEXT.format(public=f"http://127.0.0.1:{place.port}", far=far.host))
        async with open_app(file, role="embedded", clock=clock) as app:
            knock = app.runtime.callbacks.knock
            surface = surface_of(app, exchange_of)
            serving = asyncio.create_task(serve(surface, listener, place, Doorman(()), stop, BOUNDS, knock))
            yield Scene(app, far, clock)
            stop.asked.set()
            assert await asyncio.wait_for(serving, LIMIT_S) == 0
    listener.close()


async def post(url: str, body: bytes = b"", method: str = "POST") -> int:
    async with httpx2.AsyncClient(timeout=LIMIT_S, trust_env=False) as http:
        return (await http.request(method, url, content=body)).status_code


async def test_a_callback_has_the_far_side_asked_whose_answer_decides(scene: Scene) -> None:
    call_id, url = await scene.ship(WORKING, DONE)
    assert await post(url, b'{"state": "done", "refund": 1000000}') == 204
    await scene.pass_()
    await scene.until_asked(1)
    assert (await until(scene.app, call_id, "awaiting_external")).outcome is None
    scene.clock.pass_(6)
    assert await post(url) == 204
    done = await until(scene.app, call_id, "settled")
    assert (done.outcome, done.output) == ("success", {"state": "done"})
    assert scene.asked() == 2
    assert await post(url) == 204  # what is over is not told
    assert verify_database(scene.app.ledger.path).ok


async def test_callbacks_one_after_the_other_have_it_asked_once_in_a_while(scene: Scene) -> None:
    _, url = await scene.ship(WORKING)
    for _ in range(5):
        assert await post(url) == 204
        await scene.pass_()
    await scene.until_asked(1)
    await scene.pass_()
    assert scene.asked() == 1


@pytest.mark.parametrize("change", ["digest", "name", "nothing", "long", "letters"])
async def test_a_token_that_nobody_was_given_is_no_address(scene: Scene, change: str) -> None:
    call_id, url = await scene.ship(DONE)
    start, _, token = url.rpartition("/")
    name, _, digest = token.partition("-")
    wrong: dict[str, str] = {
        "digest": f"{name}-{digest[:-1]}{'0' if digest[-1] != '0' else '1'}",
        "name": f"0{name[1:]}-{digest}" if name[0] != "0" else f"1{name[1:]}-{digest}",
        "nothing": "",
        "long": f"{name}-{digest}" + "0" * 500,
        "letters": f"{name}-{digest[:-1]}%C3%A9",
    }
    assert await post(f"{start}/{wrong[change]}") == 404
    await scene.pass_()
    assert scene.asked() == 0
    assert (await until(scene.app, call_id, "awaiting_external")).outcome is None


async def test_only_a_post_is_a_callback_and_its_body_is_dropped(scene: Scene) -> None:
    _, url = await scene.ship(WORKING)
    assert await post(url, method="GET") == 405
    assert await post(url, b"x" * 50_000) == 204


async def test_what_the_far_side_wishes_is_heeded_without_a_callback(scene: Scene) -> None:
    call_id, _ = await scene.ship(WORKING, DONE)
    for wait_s, times in ((WISH_S - 1, 0), (2, 1), (190, 1), (11, 2)):
        scene.clock.pass_(wait_s)
        await scene.pass_()
        await scene.until_asked(times)
        events: Any = (await scene.app.runtime.status(scene.app.local, call_id=call_id)).wire()
        assert scene.asked() == times, events["next"]
        await settled_down(scene, call_id, times)
    assert (await until(scene.app, call_id, "settled")).outcome == "success"


async def settled_down(scene: Scene, call_id: str, times: int) -> None:
    """Wait until the answers are recorded."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            told: Any = (await scene.app.runtime.status(scene.app.local, call_id=call_id)).wire()
            if [one["type"] for one in told["events"]].count("probed") >= times:
                return
            await asyncio.sleep(0.01)
