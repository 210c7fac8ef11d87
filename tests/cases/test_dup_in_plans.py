"""DUP-01, DUP-03 and DUP-04 within plans: a lost reply, an impatient client and a key that comes again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.kit.chains import (
    LIMIT_S,
    MODULES,
    View,
    becomes,
    chained,
    of,
    plan,
    planned,
    ran,
    settle,
    started,
    states,
    step,
    until,
)
from tests.kit.served import Mode
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
BEHIND = step("behind", "kit_write", {"ref": "behind"}, after=["far"])
BESIDE = step("beside", "kit_write_on", {"ref": "beside"})


@pytest.mark.promise("DUP-01")
@pytest.mark.parametrize(("dies", "effects"), [("after", 1), ("before", 0)])
async def test_a_step_whose_far_side_drops_its_reply_is_unresolved_is_not_sent_again_and_parks_its_run(
    shop: Workshop, dies: str, effects: int
) -> None:
    shop.world.arm("far", dies=dies)
    document = plan(step("far", "kit_far_write", {"ref": "far"}), BEHIND, BESIDE)
    async with chained(shop) as (at, ask):
        view = await ran(ask, document, "awaiting_reconciliation")
        assert states(view)["far"] == "awaiting_reconciliation"
        assert (states(view)["beside"], states(view)["behind"]) == ("succeeded", "waiting")
        (lost,) = view["unresolved"]
        assert (lost["step"], lost["tool"], lost["call_id"]) == ("far", "kit_far_write", of(view, "far")["call_id"])
        assert of(view, "far")["outcome"] in {None, "ambiguous"}
        history = at.world.marks("far")
    async with chained(shop) as (at, ask):
        for again in (
            await ask("status", run_id=view["run_id"]),
            await ask("run", run_id=view["run_id"], wait_s=0),
            await ask("run", plan=document, wait_s=0),
        ):
            assert (again["run_id"], again.get("error")) == (view["run_id"], None)
        still = await becomes(ask, view["run_id"], "awaiting_reconciliation")
        assert [one["call_id"] for one in still["unresolved"]] == [lost["call_id"]]
        assert at.world.marks("far") == history == ["asked"]
        assert at.world.count("far") == effects
        word = ("happened",) if effects else ("not_happened", "retry")
        assert (await settle(at.app, lost["call_id"], *word)).get("error") is None
        done = await becomes(ask, view["run_id"])
        assert (done["status"], done["unresolved"]) == ("succeeded", [])
    assert [shop.world.count(ref) for ref in ("far", "behind", "beside")] == [1, 1, 1]


@pytest.mark.promise("DUP-01")
async def test_a_person_who_says_that_it_did_not_happen_and_shall_not_fails_the_step(shop: Workshop) -> None:
    shop.world.arm("far", dies="before")
    async with chained(shop) as (at, ask):
        view = await ran(ask, plan(step("far", "kit_far_write", {"ref": "far"}), BEHIND), "awaiting_reconciliation")
        call_id = of(view, "far")["call_id"]
        early = await settle(at.app, call_id, "not_happened", "fail")
        assert early["error"]["code"] == "in_progress", "its owner lives, and it has no time to settle in"
    async with chained(shop) as (at, ask):
        assert (await settle(at.app, call_id, "not_happened", "fail"))["state"] == "settled"
        done = await becomes(ask, view["run_id"])
    assert (done["status"], states(done)) == ("failed", {"far": "failed", "behind": "not_run"})
    assert [shop.world.count(ref) for ref in ("far", "behind")] == [0, 0]


@pytest.mark.promise("DUP-01")
async def test_a_step_that_can_be_asked_about_is_settled_by_reconcile_on_the_run_which_goes_on(shop: Workshop) -> None:
    shop.world.arm("far", drop="after")
    async with chained(shop) as (at, ask):
        document = plan(step("far", "kit_write_query", {"ref": "far"}), BEHIND)
        view = await ran(ask, document, "awaiting_reconciliation")
        answer = await ask("reconcile", run_id=view["run_id"])
        assert answer["run_id"] == view["run_id"]
        done = await becomes(ask, view["run_id"])
        assert (done["status"], done["outputs"]["far"]) == ("succeeded", {"ref": "far", "number": 1})
        assert at.world.marks("far") == ["asked", "done", "probed"]
    assert [shop.world.count(ref) for ref in ("far", "behind")] == [1, 1]


@pytest.mark.promise("DUP-01")
async def test_a_read_step_whose_far_side_dies_is_sent_once_more_and_succeeds(shop: Workshop) -> None:
    shop.world.arm("far", dies="before")
    async with chained(shop) as (_, ask):
        view = await ran(ask, plan(step("far", "kit_far_read", {"ref": "far"})))
    assert (view["status"], of(view, "far")["attempts"]) == ("succeeded", 2)
    assert shop.world.marks("far") == ["asked", "asked"]


@pytest.mark.promise("DUP-01")
async def test_a_far_sides_own_error_fails_its_step_with_its_words_and_nothing_is_sent_twice(shop: Workshop) -> None:
    shop.world.arm("far", refuse="amount must be positive")
    async with chained(shop) as (_, ask):
        view = await ran(ask, plan(step("far", "kit_far_write", {"ref": "far"}), BEHIND))
    failed = of(view, "far")
    assert (view["status"], failed["state"], failed["outcome"]) == ("failed", "failed", "permanent_failure")
    assert failed["error"]["code"] == "tool_failed"
    assert "amount must be positive" in failed["error"]["message"]
    assert (shop.world.marks("far"), shop.world.count("far")) == (["asked"], 0)


@pytest.mark.promise("DUP-03")
async def test_a_plan_that_is_run_three_times_at_once_is_one_run(shop: Workshop) -> None:
    shop.world.arm("far", hold="after")
    document = plan(step("far", "kit_write", {"ref": "far"}), BEHIND)
    async with chained(shop) as (at, ask):
        plan_id = (await planned(ask, document))["plan_id"]
        sent = [asyncio.create_task(ask("run", plan_id=plan_id, wait_s=20)) for _ in range(3)]
        await at.world.reached("far", "done")
        late = await ask("run", plan_id=plan_id, wait_s=0)
        assert (late["replayed"], late["status"]) == (True, "running")
        at.world.release("far")
        views = await asyncio.gather(*sent)
        assert {view["run_id"] for view in views} == {late["run_id"]}
        assert [view["status"] for view in views] == ["succeeded"] * 3
        assert sorted(view["replayed"] for view in views) == [False, True, True]
        after = await ask("run", plan_id=plan_id)
        assert (after["run_id"], after["replayed"], after["status"]) == (late["run_id"], True, "succeeded")
    assert len(shop.book.rows("SELECT * FROM runs")) == 1
    assert [shop.world.count(ref) for ref in ("far", "behind")] == [1, 1]


@pytest.mark.promise("DUP-03")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_gives_up_twice_and_asks_again_has_one_run_and_each_effect_once(
    shop: Workshop, mode: Mode
) -> None:
    shop.configure(head={"python": MODULES})
    shop.world.arm("far", hold="after")
    document = plan(step("far", "kit_write", {"ref": "far"}), BEHIND)
    async with shop.serve(mode=mode) as served:
        plan_id = (await served.base("plan", document))["plan_id"]
        impatient = asyncio.create_task(served.base("run", plan_id=plan_id, wait_s=25, patience_s=3))
        await shop.world.reached("far", "done")
        with pytest.raises(MCPError):
            await impatient
        with pytest.raises(MCPError):
            await served.base("run", plan_id=plan_id, wait_s=25, patience_s=0.5)
        again = await served.base("run", plan_id=plan_id, wait_s=0)
        assert (again["replayed"], states(again)["far"], again["finished_at"]) == (True, "running", None)
        shop.world.release("far")
        run_id = again["run_id"]
        await until(served.base, run_id, lambda view: states(view)["far"] == "succeeded")
        await served.base("run", run_id=run_id, wait_s=0)
        done = await becomes(served.base, run_id)
        assert (done["status"], done["run_id"]) == ("succeeded", run_id)
        third = await served.base("run", plan_id=plan_id)
        assert (third["run_id"], third["replayed"], third["outputs"]) == (run_id, True, done["outputs"])
    assert len(shop.book.rows("SELECT * FROM runs")) == 1
    assert [shop.world.count(ref) for ref in ("far", "behind")] == [1, 1]


def paying(**given: Any) -> View:
    """A plan with an input of its own."""
    ends = step("end", "kit_write", {"ref": "r", "amount": "${input.amount}"})
    return plan(ends, input={"amount": 10, "note": "n"} | given)


@pytest.mark.promise("DUP-04")
async def test_a_run_with_another_input_under_the_same_key_is_a_conflict_that_is_no_result(shop: Workshop) -> None:
    async with chained(shop) as (at, ask):
        plan_id = (await planned(ask, paying()))["plan_id"]
        first = await ask("run", plan_id=plan_id, wait_s=LIMIT_S)
        assert (first["status"], first["replayed"]) == ("succeeded", False)
        for again in (
            await ask("run", plan_id=plan_id),
            await ask("run", plan_id=plan_id, input={}),
            await ask("run", plan_id=plan_id, input={"note": "n", "amount": 10}),
            await ask("run", plan_id=plan_id, input={"amount": 10.0}),
        ):
            assert (again["run_id"], again["replayed"], again["outputs"]) == (first["run_id"], True, first["outputs"])
        other = await ask("run", plan_id=plan_id, input={"amount": 11})
        assert other["error"]["code"] == "key_conflict"
        assert not other.get("outputs")
        assert at.world.effects("r") == [{"amount": 10, "note": None}]
        fresh = await ask("run", plan_id=plan_id, input={"amount": 11}, request_key="another", wait_s=LIMIT_S)
        assert (fresh["status"], fresh["replayed"]) == ("succeeded", False)
        assert fresh["run_id"] != first["run_id"]
    assert [one["amount"] for one in shop.world.effects("r")] == [10, 11]


@pytest.mark.promise("DUP-04")
async def test_an_inline_plan_is_its_own_key_and_a_stated_one_is_bound_to_its_plan_and_input(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        first = await ran(ask, paying())
        same = await started(ask, dict(reversed(list(paying().items()))))
        assert (same["run_id"], same["replayed"]) == (first["run_id"], True)
        other = await ran(ask, paying(amount=11))
        assert other["run_id"] != first["run_id"]
        over = await ask("run", plan=paying(), input={"amount": 12}, wait_s=LIMIT_S)
        assert (over["run_id"] in {first["run_id"], other["run_id"]}, over["status"]) == (False, "succeeded")

        keyed = await ran(ask, paying(amount=1), request_key="k")
        for conflicting in (
            await ask("run", plan=paying(amount=2), request_key="k"),
            await ask("run", plan=paying(amount=1), input={"amount": 3}, request_key="k"),
            await ask("run", plan=plan(step("e", "kit_echo", {"value": 1})), request_key="k"),
        ):
            assert conflicting["error"]["code"] == "key_conflict"
            assert conflicting.get("run_id") in {None, keyed["run_id"]}
        again = await ask("run", plan=paying(amount=1), request_key="k")
        assert (again["run_id"], again["replayed"]) == (keyed["run_id"], True)
    assert [one["amount"] for one in shop.world.effects("r")] == [10, 11, 12, 1]


@pytest.mark.promise("DUP-04")
async def test_the_steps_and_items_of_one_run_are_distinct_intents_however_alike_they_are(shop: Workshop) -> None:
    document = plan(
        step("one", "kit_write", {"ref": "r"}),
        step("two", "kit_write", {"ref": "r"}),
        step("each", "kit_write", {"ref": "r"}, for_each=[1, 1, 1]),
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert view["status"] == "succeeded"
        assert at.world.count("r") == 5
        second = await ran(ask, document, request_key="again")
        assert (second["status"], at.world.count("r")) == ("succeeded", 10)
