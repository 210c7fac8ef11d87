"""APR-09: what waits for a person survives a restart, and a decision about what is no longer there is not swallowed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from counterfoil.ledger.approving import Decision, decide
from tests.kit.bench import OPERATOR, bench, furnish
from tests.kit.clock import SetClock
from tests.kit.seat import View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


@pytest.mark.promise("APR-09")
async def test_proposals_survive_a_restart_with_their_ids_and_can_be_decided(shop: Workshop) -> None:
    async with bench(shop) as at:
        before = [await at.seat.call("kit_delete", {"ref": ref}) for ref in ("yes", "no", "left")]
    ids = [view["approval"]["approval_id"] for view in before]
    async with bench(shop) as at:
        assert sorted(one.approval_id for one in await at.app.runtime.approvals()) == sorted(ids)
        await at.app.runtime.decide(ids[0], "approve", decider=OPERATOR)
        await at.app.runtime.decide(ids[1], "reject", decider=OPERATOR)
        ends = [await at.seat.ask("status", call_id=view["call_id"], wait_s=20) for view in before[:2]]
        assert [end["state"] for end in ends] == ["settled", "refused"]
        (left,) = await at.app.runtime.approvals()
        assert left.approval_id == ids[2]
    assert [shop.world.count(ref) for ref in ("yes", "no", "left")] == [1, 0, 0]


@pytest.mark.promise("APR-09")
async def test_a_decision_about_a_tool_that_is_gone_is_recorded_and_its_call_says_what_it_waits_for(
    shop: Workshop,
) -> None:
    async with bench(shop) as at:
        waiting = await at.seat.call("kit_delete", {"ref": "r"})
    named = waiting["approval"]["approval_id"]
    furnish(shop, python='modules = ["tests.kit.more_tools"]')
    async with shop.open(role="serve") as app:
        decided: View = (await app.runtime.decide(named, "approve", decider=OPERATOR)).wire()
        assert (decided["state"], decided["decided"]["by"]) == ("approved", OPERATOR.by)
        shown: View = (await app.runtime.status(app.local, call_id=waiting["call_id"])).wire()
        assert (shown["state"], shown["sent"]) == ("queued", "no")
        assert "once a server that has this tool takes it up" in shown["next"]["text"]
        assert [event["type"] for event in shown["events"]] == ["proposed", "decided"]
    async with bench(shop) as at:  # the tool is back, inside the window
        assert (await at.seat.ask("status", call_id=waiting["call_id"], wait_s=20))["state"] == "settled"
    assert shop.world.count("r") == 1


@pytest.mark.promise("APR-09")
async def test_a_decision_that_no_server_carried_out_in_time_is_asked_for_again(shop: Workshop) -> None:
    async with bench(shop) as at:
        waiting = await at.seat.call("kit_delete", {"ref": "r"})
        named, at_once = waiting["approval"]["approval_id"], at.app.ledger.now()
        at.app.runtime.begin_stop(0)
        said = Decision(approve=True, by="os:carol", strength="same_user", via="cli", at=at_once)
        await at.app.ledger.record(lambda: decide(named, said))
        row = (await at.app.runtime.approval(named)).wire()
        assert row["state"] == "approved"
    furnish(shop)
    async with shop.open(role="serve", clock=SetClock(datetime.fromtimestamp(at_once / 1_000_000 + 901, UTC))) as app:
        async with asyncio.timeout(20):
            while not (pending := await app.runtime.approvals()):
                await asyncio.sleep(0.02)
        view: View = pending[0].wire()
        assert (view["call_id"], view["approval_id"] != named) == (waiting["call_id"], True)
        assert "not carried out in its window" in view["rule"]["reason"]
    assert shop.world.count("r") == 0
