"""A run that waits for a person, for time, for its subject or for a call elsewhere: what it costs, how it goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from counterfoil import Outcome
from counterfoil.ledger.run_finding import list_due_runs
from counterfoil.registry.vocabulary import Idempotency
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import HOUR, LIMIT_S, Runs, step
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import say

pytestmark = pytest.mark.anyio


async def test_a_step_that_waits_for_a_person_holds_up_nothing_else_and_goes_on_when_decided(
    runs: Runs, stage: Stage
) -> None:
    row, states = await runs.end(step("pay", "refund"), step("tell", "note", depends_on=["pay"]), step("other"))
    assert (row.status, row.reason, row.owner_id) == ("awaiting_approval", None, None)
    assert states == {"pay": "awaiting_approval", "tell": "waiting", "other": "succeeded"}
    assert row.paused_at is not None
    await runs.decide(row.run_id, "pay")
    row = await runs.rest(row.run_id)
    assert (row.status, stage.effects[1:]) == ("succeeded", [("refund", "pay"), ("note", "tell")])


async def test_a_rejected_step_is_a_failure(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(step("pay", "refund"), step("tell", "note", depends_on=["pay"]))
    await runs.decide(row.run_id, "pay", "reject")
    row = await runs.rest(row.run_id)
    assert (row.status, row.reason, row.code) == ("failed", "pay: rejected", "approval_rejected")
    assert await runs.states(row.run_id) == {"pay": "rejected", "tell": "not_run"}
    assert stage.calls == []


async def test_a_proposal_that_expires_rejects_its_step(runs: Runs, clock: HandClock) -> None:
    run_id = await runs.start(step("pay", "refund"), changes={"grant_expires_at": clock.now() + 1_000 * HOUR})
    await runs.rest(run_id)
    await runs.woken(run_id)
    clock.pass_(86_401)
    row = await runs.rest(run_id)
    assert (row.status, row.code) == ("failed", "approval_expired")


async def test_a_stopped_run_sends_no_further_effect_until_it_is_taken_up_and_its_reads_go_on(
    runs: Runs, stage: Stage
) -> None:
    begun, go = stage.hold("book")
    run_id = await runs.start(step("a"), step("b", depends_on=["a"]), step("r", "peek", depends_on=["a"]))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    await runs.stop(run_id)
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.reason, row.finished_at) == ("queued", "stopped", None)
    assert await runs.states(run_id) == {"a": "succeeded", "b": "ready", "r": "succeeded"}
    await runs.take_up(run_id)
    assert (await runs.rest(run_id)).status == "succeeded"
    assert stage.count("book") == 2


async def test_a_lapsed_grant_parks_until_its_subject_renews_it(runs: Runs, stage: Stage, clock: HandClock) -> None:
    run_id = await runs.start(step("a", "refund"), changes={"grant_expires_at": clock.now() + 60_000_000})
    await runs.rest(run_id)
    clock.pass_(61)
    await runs.decide(run_id, "a")
    row = await runs.rest(run_id)
    assert (row.status, row.reason, stage.calls) == ("queued", "authority_expired", [])
    await runs.take_up(run_id)
    assert ((await runs.rest(run_id)).status, stage.effects) == ("succeeded", [("refund", "a")])


async def test_a_tool_called_too_often_is_tried_again_when_it_may_and_costs_nothing_until_then(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    run_id = await runs.start(*[step(f"s{n}", "paced", args={"ref": f"r{n}", "n": n}) for n in range(4)])
    row = await runs.rest(run_id)
    assert (row.status, row.reason, stage.count("paced")) == ("queued", "unavailable", 3)
    assert row.due_at is not None
    assert row.due_at > clock.now()
    assert row.paused_at is None
    await runs.woken(run_id)
    due_at = row.due_at
    assert await runs.app.ledger.record(lambda: list_due_runs(due_at)) == [run_id]
    clock.ahead_s = 60
    clock.pass_(60)
    row = await runs.rest(run_id)
    assert (row.status, stage.count("paced")) == ("succeeded", 4)


async def test_a_step_held_up_by_an_unresolved_call_elsewhere_waits_for_its_settlement_and_holds_nothing(
    runs: Runs, stage: Stage
) -> None:
    stage.then("book", lose)
    lost = await runs.app.call("book", {"ref": "x"})
    assert lost.state == "awaiting_reconciliation"
    row, states = await runs.end(step("a", args={"ref": "x"}), step("c", "note"))
    assert (row.status, row.waits_for) == ("awaiting_reconciliation", lost.call_id)
    assert states["c"] == "succeeded"
    await runs.woken(row.run_id)
    await say(runs.app, lost.call_id, "happened")
    row = await runs.rest(row.run_id)
    assert (row.status, stage.count("book")) == ("succeeded", 2)


async def test_a_cancelled_run_withdraws_what_was_not_sent_and_follows_what_was(runs: Runs, stage: Stage) -> None:
    begun, go = stage.hold("book")
    run_id = await runs.start(step("a"), step("b", depends_on=["a"]), step("pay", "refund"))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    await runs.until_state(run_id, "pay", "awaiting_approval")
    await runs.cancel(run_id)
    await runs.until_state(run_id, "pay", "settled")
    assert (await runs.row(run_id)).finished_at is None
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.compensation) == ("cancelled", "none")
    assert await runs.states(run_id) == {"a": "succeeded", "b": "cancelled", "pay": "cancelled"}
    assert stage.effects == [("book", "a")]


async def test_a_cancelled_run_is_not_cancelled_while_an_outcome_is_not_known(runs: Runs, stage: Stage) -> None:
    stage.then("book", lose)
    row, _ = await runs.end(step("a"), step("b", depends_on=["a"]))
    await runs.cancel(row.run_id)
    row = await runs.rest(row.run_id)
    assert (row.status, row.finished_at) == ("awaiting_reconciliation", None)
    await runs.say(row.run_id, "a", "happened")
    row = await runs.rest(row.run_id)
    assert row.status == "cancelled"
    assert await runs.states(row.run_id) == {"a": "succeeded", "b": "cancelled"}


async def test_a_cancelled_run_stops_its_reads(runs: Runs, stage: Stage) -> None:
    begun, _ = stage.hold("look")
    run_id = await runs.start(step("a", "look"))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    await runs.cancel(run_id)
    row = await runs.rest(run_id)
    assert (row.status, stage.effects) == ("cancelled", [])


async def test_past_its_deadline_nothing_starts_and_what_runs_is_followed_to_its_end(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    begun, go = stage.hold("book")
    run_id = await runs.start(step("a"), step("b", depends_on=["a"]), deadline_s=60)
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    clock.pass_(61)
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.code) == ("failed", "deadline_exceeded")
    assert await runs.states(run_id) == {"a": "succeeded", "b": "not_run"}
    assert stage.effects == [("book", "a")]


async def test_a_deadline_rings_while_a_step_runs(runs: Runs, stage: Stage) -> None:
    begun, go = stage.hold("book")
    run_id = await runs.start(step("a"), step("b", "note", needs="settled", depends_on=["a"]), deadline_s=0.05)
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    go.set()
    row = await runs.rest(run_id)
    assert row.finished_at is not None


async def test_a_deadline_stands_still_while_a_run_only_waits_for_people(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    row, _ = await runs.end(step("pay", "refund"), step("tell", "note", depends_on=["pay"]), deadline_s=60)
    clock.pass_(600)
    await runs.decide(row.run_id, "pay")
    row = await runs.rest(row.run_id)
    assert (row.status, stage.effects) == ("succeeded", [("refund", "pay"), ("note", "tell")])


async def test_after_a_failure_a_plan_that_compensates_has_no_further_effect_and_reads_on(
    runs: Runs, stage: Stage
) -> None:
    begun, go = stage.hold("keyed")
    stage.then("book", lambda _: Outcome.permanent("no"))
    run_id = await runs.start(
        step("first", "keyed"),
        step("pay", "refund"),
        step("bad", depends_on=["read0"]),
        step("read0", "peek"),
        step("later", "note", depends_on=["first"]),
        step("read1", "peek", depends_on=["first"]),
        on_failure="compensate",
    )
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    await runs.until_state(run_id, "pay", "settled")
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.reason, row.compensation) == ("failed", "bad: failed", "incomplete")
    assert await runs.states(run_id) == {
        "first": "succeeded",
        "pay": "cancelled",
        "bad": "failed",
        "read0": "succeeded",
        "later": "not_run",
        "read1": "succeeded",
    }
    assert (await runs.notes(run_id))["later", -1].reason == "bad"


async def test_a_plan_whose_tool_has_changed_stops_as_stale_at_that_step(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    runs = Runs(app)
    row, _ = await runs.end(step("pay", "refund"), step("a", depends_on=["pay"]), step("n", "note", depends_on=["pay"]))
    known = app.catalogue.get("book")
    assert known is not None
    app.catalogue.remove("book")
    other = replace(known.contract, recovery=replace(known.contract.recovery, idempotency=Idempotency.NATURAL))
    app.catalogue.register(other, known.adapter)
    await runs.decide(row.run_id, "pay")
    row = await runs.rest(row.run_id)
    assert (row.status, row.code) == ("failed", "plan_stale")
    assert await runs.states(row.run_id) == {"pay": "succeeded", "a": "failed", "n": "succeeded"}
    assert stage.count("book") == 0


async def test_a_run_whose_tool_is_gone_is_left_to_a_server_that_has_it(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    runs = Runs(app)
    row, _ = await runs.end(step("pay", "refund"), step("a", depends_on=["pay"]))
    known = app.catalogue.get("book")
    assert known is not None
    app.catalogue.remove("book")
    await runs.decide(row.run_id, "pay")
    await app.runtime.driver.sweep()
    await runs.idle()
    assert ((await runs.row(row.run_id)).status, stage.calls) == ("awaiting_approval", [])
    app.catalogue.register(known.contract, known.adapter)
    assert (await runs.rest(row.run_id)).status == "succeeded"


async def test_changes_and_progress_are_told_to_whoever_asked(runs: Runs) -> None:
    await runs.end(step("a"), step("b", depends_on=["a"]))
    assert runs.told == [(1, 2, "a: succeeded"), (2, 2, "b: succeeded")]
