"""Why a run starts nothing more is known to whoever drives it next, and decides what it ends as."""

from __future__ import annotations

import asyncio

import pytest

from counterfoil import Outcome
from counterfoil.ledger.run_rows import RunRow
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import LIMIT_S, Runs, step
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio


def ended(row: RunRow) -> bool:
    return row.finished_at is not None


async def test_a_run_past_its_deadline_has_failed_also_if_its_last_outcome_is_learnt_later(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    stage.then("book", lose)
    begun, go = stage.hold("note")
    run_id = await runs.start(step("a"), step("b", "note"), step("c", depends_on=["a", "b"]), deadline_s=60)
    await runs.until_state(run_id, "a", "awaiting_reconciliation")
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    clock.pass_(61)
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, await runs.states(run_id)) == (
        "awaiting_reconciliation",
        {"a": "awaiting_reconciliation", "b": "succeeded", "c": "not_run"},
    )
    await runs.say(run_id, "a", "happened")
    row = await runs.until(run_id, ended)
    assert (row.status, row.reason, row.code) == ("failed", "deadline_exceeded", "deadline_exceeded")


async def test_a_run_that_was_cancelled_before_its_last_outcome_was_learnt_is_cancelled(
    runs: Runs, stage: Stage
) -> None:
    stage.then("book", lose)
    row, _ = await runs.end(step("a"))
    await runs.cancel(row.run_id)
    assert (await runs.rest(row.run_id)).status == "awaiting_reconciliation"
    await runs.say(row.run_id, "a", "happened")
    row = await runs.until(row.run_id, ended)
    assert (row.status, row.reason) == ("cancelled", "cancelled")


async def test_a_run_over_its_budget_ends_so_also_if_an_outcome_is_learnt_later(runs: Runs, stage: Stage) -> None:
    stage.then("book", lose)
    stage.then("give", lambda _: ["x", "y"])
    row, states = await runs.end(
        step("a"),
        step("list", "give"),
        step("each", "note", for_each="${list}", args={"ref": "${item}"}),
        step("last", "note", depends_on=["a"]),
        budget={"writes": 2},
        max_parallel=1,
    )
    assert (row.status, states["last"]) == ("awaiting_reconciliation", "not_run")
    await runs.say(row.run_id, "a", "happened")
    row = await runs.until(row.run_id, ended)
    assert (row.status, row.reason, stage.count("note")) == ("budget_exhausted", "budget", 1)


async def test_a_decided_call_that_the_runs_budget_does_not_allow_ends_the_run_as_over_its_budget(
    runs: Runs, stage: Stage
) -> None:
    stage.then("give", lambda _: ["x", "y"])
    row, _ = await runs.end(
        step("list", "give"),
        step("each", "refund", for_each="${list}", args={"ref": "${item}"}),
        step("last", "note", depends_on=["each"], needs="settled"),
        budget={"destructive": 1},
    )
    assert row.status == "awaiting_approval"
    await runs.decide(row.run_id, "each", item=0)
    row = await runs.until(row.run_id, ended)
    assert (row.status, stage.count("refund"), stage.count("note")) == ("budget_exhausted", 1, 0)


async def test_a_rejection_lets_nothing_further_have_an_effect_under_compensate(runs: Runs, stage: Stage) -> None:
    row, states = await runs.end(step("bad", "refund"), step("pay", "refund"), on_failure="compensate")
    assert (row.status, states) == ("awaiting_approval", {"bad": "awaiting_approval", "pay": "awaiting_approval"})
    await runs.decide(row.run_id, "bad", "reject")
    row = await runs.until(row.run_id, ended)
    assert (row.status, row.reason) == ("failed", "bad: rejected")
    assert await runs.states(row.run_id) == {"bad": "rejected", "pay": "cancelled"}
    assert stage.count("refund") == 0


@pytest.mark.parametrize("name", ["cancelled", "budget", "deadline_exceeded"])
async def test_the_name_of_a_failed_step_is_no_word_about_the_run(runs: Runs, stage: Stage, name: str) -> None:
    stage.then("book", lambda _: Outcome.permanent("no"))
    row, _ = await runs.end(step(name), step("b", "note", depends_on=[name]), on_failure="compensate")
    assert (row.status, row.reason) == ("failed", f"{name}: failed")
