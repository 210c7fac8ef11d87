"""CAN-03: blocking tools take their own threads and nothing else: what is asked meanwhile is answered meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.bench import bench, furnish
from tests.kit.lines import Lines, body_of, by_lines
from tests.kit.workshop import Workshop
from tests.kit.world import World

pytestmark = pytest.mark.anyio
THREADS = 16


async def controls(lines: Lines, number: int, call_id: str | None = None) -> None:
    """What a person or a model asks while others are busy; all of it is answered while they are."""
    found = await lines.ask(f"s{number}", "tool_search", query="tag")
    assert found["matches"]
    overview = await lines.ask(f"o{number}", "status")
    assert overview["server"]["ledger"] == "ok"
    pending = overview["pending"][0]["approval_id"]
    assert (await lines.ask(f"c{number}", "confirm", approval_id=pending))["state"] == "pending"
    assert (await lines.ask(f"t{number}", "tool_read", name="more_tag", arguments={"tag": "t"}))["output"] == "t"
    if call_id is not None:
        assert (await lines.ask(f"x{number}", "status", call_id=call_id))["state"] in {"queued", "dispatched"}


async def with_a_proposal(lines: Lines) -> None:
    proposed = await lines.ask("p", "kit_delete", ref="p")
    assert proposed["state"] == "awaiting_approval"


@pytest.mark.promise("CAN-03")
async def test_one_blocking_tool_keeps_nobody_waiting(shop: Workshop, world: World) -> None:
    async with by_lines(furnish(shop, server='visibility = "all"')) as lines:
        await with_a_proposal(lines)
        world.arm("r", hold="now")
        lines.request("block", "tool_read", name="more_block", arguments={"ref": "r"}, wait_s=45)
        await world.reached("r", "asked")
        for number in range(5):
            await controls(lines, number)
        assert lines.early == []
        world.release("r")
        assert body_of(await lines.answer("block"))["output"] == "r"


@pytest.mark.promise("CAN-03")
async def test_sixty_blocking_calls_queue_visibly_and_starve_neither_controls_nor_the_ledger(
    shop: Workshop, world: World
) -> None:
    async with by_lines(furnish(shop, server='visibility = "all"')) as lines:
        await with_a_proposal(lines)
        world.arm("r", hold="now")
        for number in range(60):
            lines.request(number, "tool_read", name="more_block", arguments={"ref": "r"}, wait_s=0)
        views = [body_of(await lines.answer(number)) for number in range(60)]
        assert {view["state"] for view in views} <= {"queued", "dispatched"}
        await world.reached("r", "asked", times=THREADS)
        stands = [await lines.ask(f"v{number}", "status", call_id=view["call_id"]) for number, view in enumerate(views)]
        assert [view["state"] for view in stands].count("dispatched") == THREADS
        assert [view["state"] for view in stands].count("queued") == 60 - THREADS
        assert world.marks("r").count("asked") == THREADS
        for number in range(5):
            await controls(lines, number, views[-1]["call_id"])
        assert (await lines.ask("w", "kit_write", ref="w"))["number"] == 1
        assert world.marks("r").count("asked") == THREADS
        world.release("r")
        for number, view in enumerate(views):
            await lines.ask(f"e{number}", "status", call_id=view["call_id"], wait_s=20)
        ends = [await lines.ask(f"f{number}", "status", call_id=view["call_id"]) for number, view in enumerate(views)]
        assert {view["outcome"] for view in ends} == {"success"}
        assert world.marks("r").count("asked") == 60


@pytest.mark.promise("CAN-03")
async def test_a_queued_blocking_call_is_cancelled_before_it_ever_starts(shop: Workshop) -> None:
    async with bench(shop, limits="blocking_threads = 1") as at:
        at.world.arm("first", hold="now")
        first = await at.seat.read("more_block", {"ref": "first"}, wait_s=0)
        await at.world.reached("first", "asked")
        second = await at.seat.read("more_block", {"ref": "second"}, wait_s=0)
        stopped = await at.seat.ask("cancel", call_id=second["call_id"])
        assert (stopped["state"], stopped["error"]["code"], stopped["sent"]) == ("settled", "cancelled", "no")
        at.world.release("first")
        done = await at.seat.ask("status", call_id=first["call_id"], wait_s=20)
        assert done["outcome"] == "success"
        third = await asyncio.wait_for(at.seat.read("more_block", {"ref": "third"}), 20)
        assert third["outcome"] == "success"
        assert at.world.marks("second") == []
