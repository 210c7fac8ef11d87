"""APR-06: approvals inside runs: each decision names its own proposal, and what waits for it holds up nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.kit.bench import OPERATOR
from tests.kit.chains import View, becomes, chained, decide, of, plan, ran, started, states, step, until
from tests.kit.clock import START, SetClock
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
TWO = plan(
    step("x", "kit_delete", {"ref": "x"}),
    step("y", "kit_delete", {"ref": "y", "amount": 3}),
    step("behind", "kit_write", {"ref": "behind"}, after=["y"]),
)


def both_pend(view: View) -> bool:
    return view["status"] == "awaiting_approval" and {one["step"] for one in view["pending"]} == {"x", "y"}


@pytest.mark.promise("APR-06")
async def test_two_pending_steps_are_decided_each_by_its_own_name_in_any_order(shop: Workshop) -> None:
    async with chained(shop) as (at, ask):
        run_id = (await started(ask, TWO))["run_id"]
        view = await until(ask, run_id, both_pend)
        assert (view["status"], states(view)["behind"]) == ("awaiting_approval", "waiting")
        (asked,) = [one for one in view["pending"] if one["step"] == "y"]
        assert (asked["tool"], asked["arguments"]) == ("kit_delete", {"ref": "y", "amount": 3})
        shown = await ask("confirm", approval_id=asked["approval_id"])
        assert (shown["run_id"], shown["step"], shown["digest"]) == (run_id, "y", asked["digest"])
        await decide(at.app, view, "y", "approve")
        await until(ask, run_id, lambda one: states(one)["behind"] == "succeeded")
        view = await becomes(ask, run_id, "awaiting_approval")
        assert [at.world.count(ref) for ref in ("x", "y")] == [0, 1]
        await decide(at.app, view, "x", "reject")
        done = await becomes(ask, run_id)
        assert (done["status"], states(done)) == ("failed", {"x": "rejected", "y": "succeeded", "behind": "succeeded"})
        assert of(done, "x")["error"]["code"] == "approval_rejected"
    assert [shop.world.count(ref) for ref in ("x", "y", "behind")] == [0, 1, 1]


@pytest.mark.promise("APR-06")
async def test_a_decision_without_a_name_is_refused_with_the_list_while_more_than_one_is_pending(
    shop: Workshop,
) -> None:
    async with chained(shop, principals_local='scopes = ["*", "approve"]') as (at, ask):
        run_id = (await started(ask, TWO))["run_id"]
        view = await until(ask, run_id, both_pend)
        refused = await ask("confirm", run_id=run_id, decision="approve")
        assert refused["error"]["code"] == "invalid_arguments"
        told = str(refused["error"])
        assert all(one["approval_id"] in told for one in view["pending"])
        assert both_pend(await ask("status", run_id=run_id, wait_s=0))
        assert [at.world.count(ref) for ref in ("x", "y")] == [0, 0]


@pytest.mark.promise("APR-06")
async def test_the_command_line_decides_about_a_step_and_the_server_goes_on_by_itself(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        run_id = (await started(ask, TWO))["run_id"]
        view = await until(ask, run_id, both_pend)
        (asked,) = [one for one in view["pending"] if one["step"] == "y"]
        said = await shop.command("approvals", "approve", asked["approval_id"], "--digest", asked["digest"])
        assert said.code in {0, 3}, said.stderr
        await until(ask, run_id, lambda one: states(one)["behind"] == "succeeded")
    assert [shop.world.count(ref) for ref in ("x", "y", "behind")] == [0, 1, 1]


@pytest.mark.promise("APR-06")
async def test_a_proposal_that_nobody_decided_in_time_is_a_rejected_step(shop: Workshop) -> None:
    clock = SetClock()
    async with chained(shop, clock=clock, approvals="valid_s = 600") as (_, ask):
        run_id = (await started(ask, TWO))["run_id"]
        await until(ask, run_id, both_pend)
        clock.at = START + timedelta(minutes=11)
        done = await becomes(ask, run_id)
        assert (done["status"], states(done)) == ("failed", {"x": "rejected", "y": "rejected", "behind": "not_run"})
        assert {of(done, name)["error"]["code"] for name in "xy"} == {"approval_expired"}
    assert [shop.world.count(ref) for ref in ("x", "y", "behind")] == [0, 0, 0]


@pytest.mark.promise("APR-06")
async def test_pending_steps_survive_a_restart_under_the_same_names(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        run_id = (await started(ask, TWO))["run_id"]
        before = await until(ask, run_id, both_pend)
    async with chained(shop) as (at, ask):
        view = await ask("status", run_id=run_id, wait_s=0)
        assert (view["status"], view["pending"]) == ("awaiting_approval", before["pending"])
        for name in "xy":
            await decide(at.app, view, name, "approve")
        assert (await becomes(ask, run_id))["status"] == "succeeded"
    assert [shop.world.count(ref) for ref in ("x", "y", "behind")] == [1, 1, 1]


@pytest.mark.promise("APR-06")
async def test_one_proposal_is_decided_once_and_a_decided_one_keeps_its_decision(shop: Workshop) -> None:
    async with chained(shop) as (at, ask):
        view = await ran(ask, plan(step("x", "kit_delete", {"ref": "x"})), "awaiting_approval")
        (asked,) = view["pending"]
        await decide(at.app, view, "x", "approve")
        for decision in ("reject", "approve"):
            late: View = (await at.app.runtime.decide(asked["approval_id"], decision, decider=OPERATOR)).wire()
            assert late["error"]["code"] == "approval_invalid"
        assert (await becomes(ask, view["run_id"]))["status"] == "succeeded"
    assert shop.world.count("x") == 1


@pytest.mark.promise("APR-06")
async def test_the_items_of_a_step_are_asked_about_at_once_and_one_no_is_about_all_of_them(shop: Workshop) -> None:
    document = plan(step("each", "kit_delete", {"ref": "${item}"}, for_each=["p", "q"]))
    async with chained(shop) as (at, ask):
        view = await ran(ask, document, "awaiting_approval")
        (asked,) = view["pending"]
        assert [arguments["ref"] for arguments in asked["arguments"]] == ["p", "q"]
        assert len({item["call_id"] for item in of(view, "each")["items"]}) == 2
        decided = await at.app.runtime.decide(asked["approval_id"], "reject", decider=OPERATOR)
        assert decided.wire().get("error") is None
        view = await becomes(ask, view["run_id"])
        assert (view["status"], of(view, "each")["state"]) == ("failed", "rejected")
    assert [shop.world.count(ref) for ref in ("p", "q")] == [0, 0]
