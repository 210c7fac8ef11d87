"""Why a run starts nothing more is known to whoever drives it next, and decides what it ends as."""

from __future__ import annotations

import pytest

from counterfoil import Outcome
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import Runs, step
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio


async def test_a_run_past_its_deadline_has_failed_also_if_its_last_outcome_is_learnt_later(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    stage.then("book", lose)
    row, _ = await runs.end(step("a"), step("pay", "refund"), step("b", depends_on=["a", "pay"]), deadline_s=60)
    await runs.woken(row.run_id)
    clock.pass_(61)
    runs.app.runtime.driver.wake(row.run_id)
    await runs.until_state(row.run_id, "pay", "settled")
    await runs.rest(row.run_id)
    await runs.say(row.run_id, "a", "happened")
    row = await runs.rest(row.run_id)
    assert (row.status, row.reason, row.code) == ("failed", "deadline_exceeded", "deadline_exceeded")
    assert await runs.states(row.run_id) == {"a": "succeeded", "pay": "cancelled", "b": "not_run"}


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
    row = await runs.rest(row.run_id)
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
    await runs.until_state(row.run_id, "each", "settled", item=0)
    await runs.decide(row.run_id, "each", item=1)
    row = await runs.rest(row.run_id)
    assert (row.status, stage.count("refund"), stage.count("note")) == ("budget_exhausted", 1, 0)


async def test_a_failure_learnt_later_lets_nothing_further_have_an_effect_under_compensate(
    runs: Runs, stage: Stage
) -> None:
    stage.then("book", lose)
    row, states = await runs.end(step("bad"), step("pay", "refund"), on_failure="compensate")
    assert (row.status, states["pay"]) == ("awaiting_reconciliation", "awaiting_approval")
    await runs.say(row.run_id, "bad", "not_happened")
    row = await runs.rest(row.run_id)
    assert (row.status, row.reason) == ("failed", "bad: failed")
    assert await runs.states(row.run_id) == {"bad": "failed", "pay": "cancelled"}
    assert stage.count("refund") == 0


@pytest.mark.parametrize("name", ["cancelled", "budget", "deadline_exceeded"])
async def test_the_name_of_a_failed_step_is_no_word_about_the_run(runs: Runs, stage: Stage, name: str) -> None:
    stage.then("book", lambda _: Outcome.permanent("no"))
    row, _ = await runs.end(step(name), step("b", "note", depends_on=[name]), on_failure="compensate")
    assert (row.status, row.reason) == ("failed", f"{name}: failed")
