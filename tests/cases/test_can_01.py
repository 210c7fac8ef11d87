"""CAN-01: cancelling a call ends that call and nothing else, however often and whatever is named."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tests.kit.bench import Bench, bench, furnish
from tests.kit.lines import Lines, body_of, by_lines
from tests.kit.seat import View
from tests.kit.workshop import Workshop
from tests.kit.world import World

pytestmark = pytest.mark.anyio
ROUNDS = 20


def gone(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


async def until_gone(process_id: int) -> None:
    async with asyncio.timeout(10):
        while not gone(process_id):
            await asyncio.sleep(0.01)


async def ended(lines: Lines, tool: str, number: int) -> View:
    """The latest call of a tool, with its events, once nothing about it moves."""
    overview = await lines.ask(f"o{number}", "status")
    call_id = next(call["call_id"] for call in overview["calls"] if call["tool"] == tool)
    await lines.ask(f"w{number}", "status", call_id=call_id, wait_s=20)
    return await lines.ask(f"s{number}", "status", call_id=call_id, after_seq=0)


def cancellation(view: View) -> dict[str, Any]:
    """The one event that says who wanted it stopped."""
    (found,) = [event for event in view["events"] if event["type"] == "cancel_requested"]
    return {"at": found["at"], **found["data"]}


@pytest.mark.promise("CAN-01")
async def test_a_cancelled_request_stops_its_read_and_its_child_and_disturbs_no_other(
    shop: Workshop, world: World
) -> None:
    async with by_lines(furnish(shop)) as lines:
        world.arm("beside", hold="before")
        lines.request("beside", "tool_read", name="kit_look", arguments={"ref": "beside"}, wait_s=45)
        for number in range(ROUNDS):
            slow, next_one = f"slow{number}", f"next{number}"
            lines.request(slow, "tool_read", name="more_child", arguments={"ref": slow}, wait_s=45)
            await world.reached(slow, "asked")
            lines.cancel(slow)
            after = await lines.ask(next_one, "tool_read", name="more_tag", arguments={"tag": next_one})
            assert after["output"] == next_one
            await until_gone(world.switches(slow)["child"])
            assert world.marks(slow) == ["asked"]
        stopped = await ended(lines, "more_child", ROUNDS)
        assert (stopped["state"], stopped["outcome"], stopped["attempts"]) == ("settled", "retryable_failure", 1)
        assert stopped["error"]["details"]["reason"] == "cancelled"
        assert cancellation(stopped)["by"] == "alice"
        world.release("beside")
        assert body_of(await lines.answer("beside"))["output"]["ref"] == "beside"
        assert [message.get("id") for message in lines.early] == []


@pytest.mark.promise("CAN-01")
async def test_a_cancellation_of_nothing_of_something_finished_or_said_twice_changes_nothing(
    shop: Workshop, world: World
) -> None:
    async with by_lines(furnish(shop)) as lines:
        assert (await lines.ask("done", "tool_read", name="more_tag", arguments={"tag": "a"}))["output"] == "a"
        lines.request("slow", "tool_read", name="kit_look", arguments={"ref": "slow"}, wait_s=45)
        world.arm("slow", hold="before")
        await world.reached("slow", "asked")
        for request_id in ("done", "nobody", 7, "slow", "slow", "done"):
            lines.cancel(request_id)
        assert (await lines.ask("next", "tool_read", name="more_tag", arguments={"tag": "b"}))["output"] == "b"
        assert cancellation(await ended(lines, "kit_look", 1))["by"] == "alice"
        finished = await ended(lines, "more_tag", 2)
        assert (finished["outcome"], finished.get("cancel_requested_at")) == ("success", None)


@pytest.mark.promise("CAN-01")
async def test_a_cancelled_request_for_a_write_leaves_the_write_to_its_end(shop: Workshop, world: World) -> None:
    async with by_lines(furnish(shop, server='visibility = "all"')) as lines:
        world.arm("r", hold="before")
        lines.request("write", "kit_write", ref="r")
        await world.reached("r", "asked")
        lines.cancel("write")
        assert (await lines.ask("next", "tool_read", name="more_tag", arguments={"tag": "b"}))["output"] == "b"
        world.release("r")
        followed = await ended(lines, "kit_write", 1)
        assert (followed["state"], followed["outcome"], followed["sent"]) == ("settled", "success", "yes")
        assert world.count("r") == 1


async def dispatched(at: Bench, tool: str, ref: str) -> View:
    """A call that is under way."""
    at.world.arm(ref, hold="before")
    view = await at.seat.call(tool, {"ref": ref}, wait_s=0)
    await at.world.reached(ref, "asked")
    return view


@pytest.mark.promise("CAN-01")
async def test_cancel_ends_a_read_that_would_have_been_tried_again(shop: Workshop) -> None:
    async with bench(shop) as at:
        view = await dispatched(at, "kit_look", "r")
        asked = await at.seat.ask("cancel", call_id=view["call_id"], reason="enough")
        assert asked["cancel_requested_at"] is not None
        await at.seat.ask("cancel", call_id=view["call_id"], reason="again")
        await at.seat.ask("status", call_id=view["call_id"], wait_s=20)
        ended_view = await at.seat.ask("status", call_id=view["call_id"], after_seq=0)
        assert (ended_view["state"], ended_view["outcome"], ended_view["attempts"]) == (
            "settled", "retryable_failure", 1,
        )  # fmt: skip
        assert ended_view["error"]["details"]["reason"] == "cancelled"
        said = cancellation(ended_view)
        assert (said["by"], said["reason"], said["at"]) == ("alice", "enough", asked["cancel_requested_at"])
        late = await at.seat.ask("cancel", call_id=view["call_id"])
        assert (late["state"], late["outcome"]) == ("settled", "retryable_failure")
        unknown = await at.seat.ask("cancel", call_id="call_0")
        assert unknown["error"]["code"] == "not_found"


@pytest.mark.promise("CAN-01")
async def test_cancel_before_the_dispatch_settles_as_cancelled_and_nothing_is_sent(shop: Workshop) -> None:
    async with bench(shop) as at:
        waiting = await at.seat.call("kit_delete", {"ref": "r"})
        stopped = await at.seat.ask("cancel", call_id=waiting["call_id"])
        assert (stopped["state"], stopped["error"]["code"], stopped["sent"]) == ("settled", "cancelled", "no")
        proposal = await at.seat.ask("confirm", approval_id=waiting["approval"]["approval_id"])
        assert proposal["state"] == "revoked"
        assert at.world.count("r") == 0


@pytest.mark.promise("CAN-01")
async def test_what_was_asked_to_stop_is_sent_again_only_on_a_persons_word(shop: Workshop) -> None:
    async with bench(shop) as at:
        at.world.arm("r", drop="before", hold="before")
        view = await at.seat.call("kit_write_idem", {"ref": "r"}, wait_s=0)
        await at.world.reached("r", "asked")
        await at.seat.ask("cancel", call_id=view["call_id"])
        at.world.release("r")
        unknown = await at.seat.ask("status", call_id=view["call_id"], wait_s=20)
        assert unknown["state"] == "awaiting_reconciliation"
        at.world.arm("r", drop=None)
        still = await at.seat.ask("reconcile", call_id=view["call_id"])
        assert (still["state"], at.world.count("r")) == ("awaiting_reconciliation", 0)
