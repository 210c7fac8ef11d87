"""Runs through the real surface, runtime and ledger: what a client of either era is told, and what another is not.

HTTP is served in this process, for two people of one tenant; one test has a real server at the end of two pipes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.types import TextContent, TextResourceContents

from counterfoil.server.app import App
from counterfoil.server.http.edge import exchange_of
from counterfoil.server.prompts import example
from counterfoil.server.serve import surface_of
from tests.kit import order_tools
from tests.kit.bench import of
from tests.kit.chains import LIMIT_S, View, becomes, decide, following, plan, ran, started, states, step, until
from tests.kit.run_rules import FINAL
from tests.kit.seat import Seat
from tests.kit.web import Web, legacy, modern, open_session
from tests.kit.workshop import Workshop
from tests.server.http_kit import hosted
from tests.server.test_prompts import calls_in

pytestmark = pytest.mark.anyio
Mode = Literal["auto", "legacy"]
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
ANN: Final = "token-of-ann"
BOB: Final = "token-of-bob"
MODULES: Final = 'modules = ["tests.kit.tools", "tests.kit.order_tools"]'
HELD: Final = plan(
    step("s", "kit_write", {"ref": "s"}),
    step("read", "kit_read", {"ref": "s"}, after=["s"]),
    step("behind", "kit_write", {"ref": "behind"}, after=["read"]),
)
"""A chain that a test holds in its first step."""
REFUNDED: Final = [
    "notify ada@shop.example Order ord_17: 49.9 refunded.",
    "notify bob@shop.example Order ord_17: 49.9 refunded.",
    "refund ord_17 49.9",
]


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the order tools' effects are."""
    place = tmp_path / "order-effects"
    monkeypatch.setenv(order_tools.EFFECTS, str(place))
    return place


@pytest.fixture
def shop(tmp_path: Path, effects: Path) -> Workshop:
    return Workshop.new(tmp_path, head={"server": 'visibility = "deferred"', "python": MODULES})


@dataclass(frozen=True)
class House:
    """One application that serves Ann, who is its own principal, and Bob."""

    app: App
    web: Web

    @asynccontextmanager
    async def seat(self, mode: Mode = "auto", token: str = ANN) -> AsyncGenerator[Seat]:
        async with self.web.client(token, mode) as client:
            yield Seat(client)


@asynccontextmanager
async def house(shop: Workshop) -> AsyncGenerator[House]:
    async with shop.open() as app:
        tokens = {ANN: app.local, BOB: of(app, "bob")}
        async with hosted(surface_of(app, exchange_of), tokens) as here:
            yield House(app, here.web)


def within(what: Awaitable[Any]) -> Awaitable[Any]:
    return asyncio.wait_for(what, LIMIT_S)


async def read(client: Client, uri: str) -> View:
    (content,) = (await within(client.read_resource(uri))).contents
    assert isinstance(content, TextResourceContents)
    body: View = json.loads(content.text)
    return body


async def prompted(client: Client, name: str, **arguments: str) -> list[str]:
    """The texts of a prompt."""
    messages = (await within(client.get_prompt(name, arguments))).messages
    return [one.content.text for one in messages if isinstance(one.content, TextContent)]


async def worked_plan(client: Client) -> list[tuple[str, View]]:
    """The calls that `plan_chain` prints."""
    (text,) = await prompted(client, "plan_chain", goal="Refund what is late")
    shown = calls_in(text)
    assert [tool for tool, _ in shown] == ["plan", "run", "status"]
    assert shown[0][1] == example.PLAN
    return shown


@ERAS
async def test_the_worked_plan_of_the_prompt_runs_as_it_is_printed_and_is_read_as_status_tells_it(
    shop: Workshop, effects: Path, mode: Mode
) -> None:
    async with house(shop) as here, here.seat(mode) as seat:
        (_, document), (_, run), (_, status) = await worked_plan(seat.client)
        made = await seat.ask("plan", **document)
        assert made["waves"] == [["order", "policy"], ["shipment"], ["refund"], ["tell"]]
        begun = await seat.ask("run", **run | {"plan_id": made["plan_id"]})
        waits = await seat.ask("status", **status | {"run_id": begun["run_id"]})
        assert (waits["status"], states(waits)["refund"]) == ("awaiting_approval", "awaiting_approval")
        assert not effects.exists()
        await decide(here.app, waits, "refund", "approve")
        done = await becomes(seat.ask, begun["run_id"])
        assert (done["status"], set(states(done).values())) == ("succeeded", {"succeeded"})
        assert sorted(effects.read_text().splitlines()) == REFUNDED
        uri = f"counterfoil://runs/{begun['run_id']}"
        told = await following(seat.ask, begun["run_id"])
        assert await read(seat.client, uri) == {n: v for n, v in done.items() if n not in {"events", "more"}}
        assert (await read(seat.client, f"{uri}/events"))["events"] == told
        late = await read(seat.client, f"{uri}/events?after_seq={told[-2]['seq']}")
        assert late["events"] == told[-1:]


@ERAS
async def test_somebody_elses_run_and_plan_are_answered_as_unknown_ones_are(shop: Workshop, mode: Mode) -> None:
    async with house(shop) as here, here.seat(mode) as ann, here.seat(mode, BOB) as bob:
        view = await ran(ann.ask, example.PLAN, "awaiting_approval")
        for name in ("run_id", "plan_id"):
            foreign, unknown = view[name], view[name][:-3] + "zzz"
            told = [await answers(bob, name, one) for one in (foreign, unknown)]
            assert told[0] == told[1]
        assert {row["run_id"] for row in (await ann.ask("status"))["runs"]} == {view["run_id"]}
        assert (await bob.ask("status"))["runs"] == []
        still = await ann.ask("status", run_id=view["run_id"], wait_s=0)
        assert (still["version"], still["cancel_requested_at"]) == (view["version"], None)


async def answers(seat: Seat, name: str, one: str) -> list[object]:
    """What each door says to this id, without the id."""
    said: list[object] = [await seat.ask("run", **{name: one}, wait_s=0)]
    if name == "run_id":
        said += [await seat.ask(door, run_id=one) for door in ("status", "cancel", "reconcile", "confirm")]
        uris = (f"counterfoil://runs/{one}", f"counterfoil://runs/{one}/events")
        said += [await refused(seat.client.read_resource(uri)) for uri in uris]
        said += [await refused(prompted(seat.client, at, run_id=one)) for at in ("explain_run", "settle_unknown")]
    return json.loads(json.dumps(said).replace(one, "ID"))  # type: ignore[no-any-return]


async def refused(asking: Awaitable[object]) -> object:
    with pytest.raises(MCPError) as caught:
        await within(asking)
    return caught.value.error.model_dump(mode="json")


Hear = Callable[[], Awaitable[str]]


@asynccontextmanager
async def hearing(web: Web, token: str, mode: Mode, *uris: str) -> AsyncGenerator[Hear]:
    """Subscribe to these; what gives the address that the next notice names."""
    if mode == "auto":
        async with web.client(token) as client, client.listen(resource_subscriptions=uris) as events:

            async def hear() -> str:
                return str(getattr(await within(anext(aiter(events))), "uri", "?"))

            yield hear
        return
    async with web.http(token) as http:
        session = await open_session(http, web.url)
        _, headers = legacy("-", None, session)
        async with http.stream("GET", web.url, headers=headers) as stream:
            assert stream.status_code == 200
            lines = stream.aiter_lines()
            for number, uri in enumerate(uris):
                body, headers = legacy("resources/subscribe", number, session, uri=uri)
                assert (await http.post(web.url, content=body, headers=headers)).status_code == 200

            async def hear() -> str:
                while not (line := await within(anext(lines))).startswith("data: {"):
                    pass
                said = json.loads(line.removeprefix("data: "))
                assert said["method"] == "notifications/resources/updated"
                return str(said["params"]["uri"])

            yield hear


@ERAS
async def test_an_owner_who_reads_when_told_sees_a_run_to_its_end_and_nobody_else_is_told(
    shop: Workshop, mode: Mode
) -> None:
    for ref in ("s", "bobs"):
        shop.world.arm(ref, hold="before")
    async with house(shop) as here, here.seat() as ann, here.seat(token=BOB) as bob:
        hers = (await started(ann.ask, HELD))["run_id"]
        his = (await started(bob.ask, plan(step("s", "kit_write", {"ref": "bobs"}))))["run_id"]
        for ref in ("s", "bobs"):
            await shop.world.reached(ref, "asked")
        uris = [f"counterfoil://runs/{run_id}" for run_id in (hers, his)]
        async with (
            hearing(here.web, ANN, mode, *uris, f"{uris[0]}/events") as for_ann,
            hearing(here.web, BOB, mode, *uris) as for_bob,
        ):
            shop.world.release("s")
            assert await told_until_final(for_ann, ann.client, uris[0]) <= {uris[0], f"{uris[0]}/events"}
            shop.world.release("bobs")
            assert await told_until_final(for_bob, bob.client, uris[1]) == {uris[1]}


async def told_until_final(hear: Hear, client: Client, uri: str) -> set[str]:
    """Look only when told, until the run is over; which addresses were told of."""
    told = {await hear()}
    while (await read(client, uri))["status"] not in FINAL:
        told.add(await hear())
    return told


@dataclass(frozen=True)
class Asking:
    """A `run` that was asked for over HTTP and is held in its first step."""

    task: asyncio.Task[httpx2.Response]
    cancel: Callable[[], Awaitable[httpx2.Response]]
    run_id: str


@asynccontextmanager
async def asking(shop: Workshop, here: House, mode: Mode, ann: Seat) -> AsyncGenerator[Asking]:
    shop.world.arm("s", hold="before")
    async with here.web.http() as http:
        session = "" if mode == "auto" else await open_session(http, here.web.url)

        def post(method: str, number: int | None, **params: Any) -> Awaitable[httpx2.Response]:
            written = modern(method, number, **params) if mode == "auto" else legacy(method, number, session, **params)
            return http.post(here.web.url, content=written[0], headers=written[1])

        arguments = {"plan": HELD, "wait_s": 45}
        task = asyncio.ensure_future(post("tools/call", 7, name="run", arguments=arguments))
        await shop.world.reached("s", "asked")
        (row,) = (await ann.ask("status"))["runs"]
        yield Asking(task, lambda: post("notifications/cancelled", None, requestId=7), row["run_id"])


@ERAS
async def test_a_run_whose_request_its_client_cancels_is_stopped_until_it_is_taken_up(
    shop: Workshop, mode: Mode
) -> None:
    async with house(shop) as here, here.seat(mode) as ann, asking(shop, here, mode, ann) as asked:
        assert (await asked.cancel()).status_code == 202
        await within(asyncio.wait({asked.task}))
        shop.world.release("s")
        view = await until(ann.ask, asked.run_id, lambda one: one["status"] != "running")
        assert (view["status"], view["reason"], states(view)["s"]) == ("queued", "stopped", "succeeded")
        assert shop.world.count("behind") == 0
        assert view["next"]["tool"] == "run"
        taken = await ann.ask(view["next"]["tool"], **view["next"]["arguments"])
        done = await becomes(ann.ask, taken["run_id"])
        assert (taken["run_id"], done["status"]) == (asked.run_id, "succeeded")
    assert [shop.world.count(ref) for ref in ("s", "behind")] == [1, 1]


@ERAS
async def test_a_run_whose_request_is_merely_gone_goes_on(shop: Workshop, mode: Mode) -> None:
    async with house(shop) as here, here.seat(mode) as ann:
        async with asking(shop, here, mode, ann) as asked:
            asked.task.cancel()
            with suppress(asyncio.CancelledError):
                await asked.task
        assert (await ann.ask("status", run_id=asked.run_id, wait_s=0))["status"] == "running"
        shop.world.release("s")
        assert (await becomes(ann.ask, asked.run_id))["status"] == "succeeded"
    assert [shop.world.count(ref) for ref in ("s", "behind")] == [1, 1]


@ERAS
async def test_progress_tells_how_many_steps_of_all_have_ended(shop: Workshop, mode: Mode) -> None:
    refs = ("a", "b", "c")
    document = plan(*(step(ref, "kit_write", {"ref": ref}, after=list(refs[:n][-1:])) for n, ref in enumerate(refs)))
    told: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if message != "still working":
            told.append((progress, total))

    for ref in refs:
        shop.world.arm(ref, hold="before")
    async with house(shop) as here, here.seat(mode) as ann:
        wanted = {"plan": document, "wait_s": LIMIT_S}
        running = asyncio.ensure_future(ann.client.call_tool("run", wanted, progress_callback=hear))
        for count, ref in enumerate(refs):
            await shop.world.reached(ref, "asked")
            assert len(told) == count
            shop.world.release(ref)
            await shop.world.until(partial(_more_than, told, count), f"{ref} ended and nobody was told")
        view = (await within(running)).structured_content
    assert (view["status"], told) == ("succeeded", [(1, 3), (2, 3), (3, 3)])


def _more_than(told: Sized, count: int) -> bool:
    return len(told) > count


async def test_nothing_in_a_prompt_about_real_views_suffices_to_approve(shop: Workshop) -> None:
    shop.world.arm("lost", drop="after")
    document = plan(step("lost", "kit_write", {"ref": "lost"}), step("asks", "kit_delete", {"ref": "asks"}))
    async with house(shop) as here, here.seat() as ann:
        await ann.call("kit_purge", {"ref": "all"}, wait_s=0)
        run_id = (await started(ann.ask, document))["run_id"]
        view = await until(ann.ask, run_id, lambda one: bool(one["pending"]) and bool(one["unresolved"]))
        call_id = view["unresolved"][0]["call_id"]
        prompts = [
            await prompted(ann.client, "explain_run", run_id=run_id),
            await prompted(ann.client, "review_pending"),
            await prompted(ann.client, "settle_unknown"),
            await prompted(ann.client, "settle_unknown", run_id=run_id),
            await prompted(ann.client, "settle_unknown", call_id=call_id),
        ]
        secrets = [row["digest"] for row in shop.book.rows("SELECT digest FROM approvals")]
        assert len(secrets) == 2
        said = json.dumps(prompts)
        assert all(approval["approval_id"] in said for approval in (await ann.ask("status"))["pending"])
        assert [code for code in secrets if code.rpartition(":")[2][:6] in said] == []
        for words in prompts:
            assert len(words) == 2
            for tool, arguments in calls_in(words[0]):
                answer = await ann.ask(tool, **arguments)
                assert (answer.get("error") or {"code": "ambiguous"})["code"] == "ambiguous", answer
        after = shop.book.rows("SELECT state FROM approvals")
        assert [row["state"] for row in after] == ["pending", "pending"]
    assert [shop.world.count(ref) for ref in ("lost", "asks", "all")] == [1, 0, 0]


async def test_over_stdio_a_run_is_followed_by_progress_and_notices_to_its_end(shop: Workshop, effects: Path) -> None:
    told: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if message != "still working":
            told.append((progress, total))

    async with shop.serve() as served:
        (_, document), _, _ = await worked_plan(served.client)
        wanted = {"plan": document, "wait_s": LIMIT_S}
        begun = (await within(served.client.call_tool("run", wanted, progress_callback=hear))).structured_content
        assert begun["status"] == "awaiting_approval"
        assert told[-1] == (3, 5)
        uri = f"counterfoil://runs/{begun['run_id']}"
        async with served.client.listen(resource_subscriptions=[uri]) as events:
            (asked,) = begun["pending"]
            await shop.command("approvals", "approve", asked["approval_id"], "--digest", asked["digest"])

            async def notice() -> str:
                return str(getattr(await within(anext(aiter(events))), "uri", "?"))

            assert await told_until_final(notice, served.client, uri) == {uri}
        assert (await read(served.client, uri))["status"] == "succeeded"
    assert sorted(effects.read_text().splitlines()) == REFUNDED
