"""Runs beside several servers, dead ones and lapsed authority: whoever lives goes on, once, or says why not."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from typing import Any

import pytest

from tests.kit.bench import furnish
from tests.kit.chains import (
    LIMIT_S,
    MODULES,
    View,
    becomes,
    chained,
    decide,
    following,
    of,
    plan,
    ran,
    started,
    states,
    step,
    until,
)
from tests.kit.clock import START, SetClock
from tests.kit.served import view_of
from tests.kit.web import web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CHAIN = plan(
    step("s", "kit_write_idem", {"ref": "s"}),
    step("read", "kit_read", {"ref": "s"}, after=["s"]),
    step("behind", "kit_write", {"ref": "behind"}, after=["s"]),
)


@pytest.mark.promise("OPS-03")
async def test_a_server_that_lives_takes_over_the_run_of_one_that_was_killed_without_being_asked(
    shop: Workshop,
) -> None:
    shop.configure(head={"python": MODULES})
    shop.world.arm("s", hold="before")
    async with shop.serve() as living:
        async with shop.serve() as dying:
            run_id = (await dying.base("run", plan=CHAIN, wait_s=0))["run_id"]
            await shop.world.reached("s", "asked")
            await dying.kill()
        shop.world.release("s")
        await shop.world.reached("behind", "done")
        done = await becomes(living.base, run_id)
        assert (done["status"], done["unresolved"]) == ("succeeded", [])
    assert [shop.world.count(ref) for ref in ("s", "behind")] == [1, 1]


@pytest.mark.promise("OPS-03")
async def test_any_server_shows_stops_and_decides_about_a_run_that_another_one_drives(shop: Workshop) -> None:
    asks = step("asks", "kit_delete", {"ref": "asks"}, after=["behind"])
    shop.world.arm("s", hold="before")
    async with chained(shop) as (_, here), chained(shop) as (there_at, there):
        run_id = (await started(here, CHAIN | {"steps": [*CHAIN["steps"], asks]}))["run_id"]
        await shop.world.reached("s", "asked")
        seen = await there("status", run_id=run_id, wait_s=0)
        assert (seen["status"], states(seen)["s"]) == ("running", "running")
        waiting = asyncio.create_task(there("status", run_id=run_id, wait_s=20))
        shop.world.release("s")
        assert (await waiting)["status"] == "awaiting_approval"
        view = await becomes(there, run_id, "awaiting_approval")
        await decide(there_at.app, view, "asks", "approve")
        assert (await becomes(here, run_id))["status"] == "succeeded"

        shop.world.arm("t", hold="before")
        other = plan(step("t", "kit_write", {"ref": "t"}), step("u", "kit_write", {"ref": "u"}, after=["t"]))
        run_id = (await started(here, other))["run_id"]
        await shop.world.reached("t", "asked")
        assert (await there("cancel", run_id=run_id, reason="from there"))["cancel_requested_at"] is not None
        shop.world.release("t")
        done = await becomes(here, run_id)
        assert (done["status"], of(done, "t")["state"]) == ("cancelled", "succeeded")
    assert [shop.world.count(ref) for ref in ("s", "behind", "asks", "t", "u")] == [1, 1, 1, 1, 0]


@pytest.mark.promise("DUP-03")
async def test_a_plan_that_is_run_at_two_servers_at_once_is_one_run(shop: Workshop) -> None:
    async with chained(shop) as (_, here), chained(shop) as (_, there):
        for number in range(5):
            document = CHAIN | {"goal": f"Number {number}"}
            views = await asyncio.gather(*(ask("run", plan=document, wait_s=20) for ask in (here, there) * 2))
            assert len({view["run_id"] for view in views}) == 1
            assert [view["replayed"] for view in views].count(False) == 1
            assert (await becomes(here, views[0]["run_id"]))["status"] == "succeeded"
    assert shop.world.count("behind") == 5
    assert len(shop.book.rows("SELECT * FROM runs")) == 5


@pytest.mark.promise("OPS-03")
async def test_a_run_whose_authority_has_lapsed_waits_for_its_subject_and_says_so(shop: Workshop) -> None:
    clock = SetClock()
    document = plan(
        step("asks", "kit_delete", {"ref": "asks"}), step("behind", "kit_write", {"ref": "behind"}, after=["asks"])
    )
    async with chained(shop, clock=clock, runs="authority_s = 600") as (at, ask):
        view = await ran(ask, document, "awaiting_approval")
        clock.at = START + timedelta(minutes=11)
        await decide(at.app, view, "asks", "approve")
        lapsed = await until(ask, view["run_id"], lambda one: one["reason"] == "authority_expired")
        assert (lapsed["status"], lapsed["finished_at"]) == ("queued", None)
        assert lapsed["next"]["arguments"]["run_id"] == view["run_id"]
        assert [at.world.count(ref) for ref in ("asks", "behind")] == [0, 0]
        await ask("run", run_id=view["run_id"], wait_s=0)
        done = await becomes(ask, view["run_id"])
        assert done["status"] == "succeeded"
    assert [shop.world.count(ref) for ref in ("asks", "behind")] == [1, 1]


@pytest.mark.promise("CHAIN-SAFE")
async def test_a_runs_own_budget_is_kept_and_its_end_is_final(shop: Workshop) -> None:
    each = step("each", "kit_write", {"ref": "r"}, for_each="${order.contacts}")
    document = plan(
        step("order", "chain_order", {"order_id": "o", "people": 4}), each,
        step("behind", "kit_write", {"ref": "behind"}, after=["each"]), budget={"writes": 2}, max_parallel=1,
    )  # fmt: skip
    async with chained(shop) as (at, ask):
        done = await ran(ask, document)
        assert (done["status"], at.world.count("r"), at.world.count("behind")) == ("budget_exhausted", 2, 0)
        assert (await ask("run", run_id=done["run_id"], wait_s=0))["status"] == "budget_exhausted"


@pytest.mark.promise("OPS-03")
async def test_a_client_whose_connection_closes_stops_nothing_and_finds_its_run_again(shop: Workshop) -> None:
    shop.world.arm("s", hold="before")
    furnish(shop, python=MODULES)
    async with web(shop) as (_, there):
        async with there.http() as http:
            asking = asyncio.create_task(
                there.post(http, "tools/call", name="run", arguments={"plan": CHAIN, "wait_s": 45})
            )
            await shop.world.reached("s", "asked")
            asking.cancel()
            await asyncio.wait({asking})
        shop.world.release("s")
        await shop.world.reached("behind", "done")
        async with there.client() as client:

            async def ask(tool: str, **arguments: Any) -> View:
                return view_of(await client.call_tool(tool, arguments))

            again = await ask("run", plan=CHAIN, wait_s=LIMIT_S)
            assert (again["replayed"], again["status"]) == (True, "succeeded")
    assert [shop.world.count(ref) for ref in ("s", "behind")] == [1, 1]


@pytest.mark.promise("OPS-03")
@pytest.mark.parametrize("how", ["the end of stdin", "SIGTERM", "SIGINT"])
async def test_a_server_that_stops_while_somebody_waits_leaves_a_run_that_the_next_one_takes_to_its_end(
    shop: Workshop, how: str
) -> None:
    furnish(shop, python=MODULES)
    shop.world.arm("s", hold="after")
    async with shop.serve() as served:
        asking = asyncio.create_task(served.base("run", plan=CHAIN, wait_s=25))
        await shop.world.reached("s", "done")
        if how == "the end of stdin":
            served.close_input()
        else:
            served.terminate(signal.Signals[how])
        shop.world.release("s")
        await served.ended()
        asking.cancel()
        await asyncio.wait({asking})
    (row,) = shop.book.rows("SELECT run_id, stopped_at, status FROM runs")
    assert (row["stopped_at"], row["status"] in {"queued", "running", "succeeded"}) == (None, True)
    async with shop.serve() as served:
        done = await becomes(served.base, row["run_id"])
        assert done["status"] == "succeeded"
    assert [shop.world.count(ref) for ref in ("s", "behind")] == [1, 1]


@pytest.mark.promise("OPS-03")
async def test_events_are_gapless_by_their_numbers_across_reconnects_and_restarts(shop: Workshop) -> None:
    document = plan(
        *(step(f"s{n}", "kit_write", {"ref": f"s{n}"}, **({"after": [f"s{n - 1}"]} if n else {})) for n in range(6)),
        step("asks", "kit_delete", {"ref": "asks"}, after=["s5"]),
    )
    seen: list[View] = []
    shop.world.arm("s3", hold="before")
    async with chained(shop) as (at, ask):
        run_id = (await started(ask, document))["run_id"]
        await at.world.reached("s3", "asked")
        seen += await following(ask, run_id, 0)
        at.world.release("s3")
        await becomes(ask, run_id, "awaiting_approval")
        seen += await following(ask, run_id, seen[-1]["seq"])
    async with chained(shop) as (at, ask):
        view = await becomes(ask, run_id, "awaiting_approval")
        await decide(at.app, view, "asks", "approve")
        done = await becomes(ask, run_id)
        seen += await following(ask, run_id, seen[-1]["seq"])
        whole = await following(ask, run_id, 0)
        assert await following(ask, run_id, seen[-1]["seq"]) == []
    assert seen == whole
    assert [one["seq"] for one in whole] == list(range(whole[0]["seq"], whole[0]["seq"] + len(whole)))
    assert (whole[0]["seq"], whole[-1]["seq"]) == (1, done["seq"])
    assert [one["type"] for one in whole].count("dispatched") == 7
    verified = await shop.command("ledger", "verify")
    assert (verified.code, verified.answer["problems"]) == (0, [])


@pytest.mark.promise("OPS-03")
async def test_status_waits_for_the_next_event_and_gives_it(shop: Workshop) -> None:
    shop.world.arm("s", hold="before")
    async with chained(shop) as (at, ask):
        run_id = (await started(ask, CHAIN))["run_id"]
        await at.world.reached("s", "asked")
        view = await ask("status", run_id=run_id, wait_s=0)
        waiting = asyncio.create_task(ask("status", run_id=run_id, after_seq=view["seq"], wait_s=20))
        at.world.release("s")
        news = await asyncio.wait_for(waiting, LIMIT_S)
        assert news["events"]
        assert news["events"][0]["seq"] == view["seq"] + 1
        await becomes(ask, run_id)
