"""Late evidence against what a person said of a step: the run knows it before it ends, and after."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil import Outcome
from counterfoil.ledger.settling import Settlement, Superseded, settle
from tests.runtime.chain.running import LIMIT_S, Runs, step
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio


async def contradict(runs: Runs, run_id: str, name: str) -> None:
    """What a step's own attempt reports at last: it was refused, and had no effect."""
    call, at = await runs.call(run_id, name), runs.app.ledger.now()
    late = Settlement("permanent_failure", "yes", at, code="tool_failed", details={"effect": "none"})
    assert isinstance(await runs.app.ledger.record(lambda: settle(call.call_id, 1, late)), Superseded)
    assert (await runs.call(run_id, name)).state == "awaiting_reconciliation"


async def test_a_run_does_not_end_while_what_a_person_said_of_a_step_is_contradicted(runs: Runs, stage: Stage) -> None:
    stage.then("book", lose)
    row, _ = await runs.end(step("a"), step("b", "note", depends_on=["a"]))
    begun, go = stage.hold("note")
    await runs.say(row.run_id, "a", "happened")
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    await contradict(runs, row.run_id, "a")
    go.set()
    row = await runs.rest(row.run_id)
    assert (row.status, row.finished_at) == ("awaiting_reconciliation", None)
    assert await runs.states(row.run_id) == {"a": "awaiting_reconciliation", "b": "succeeded"}
    await runs.say(row.run_id, "a", "happened")
    row = await runs.until(row.run_id, lambda found: found.finished_at is not None)
    assert row.status == "succeeded"


async def test_a_finished_run_keeps_its_status_and_says_what_is_contradicted(runs: Runs, stage: Stage) -> None:
    stage.then("book", lose)
    row, _ = await runs.end(step("a"), step("b", "note", depends_on=["a"]))
    await runs.say(row.run_id, "a", "happened")
    row = await runs.rest(row.run_id)
    assert row.status == "succeeded"
    await contradict(runs, row.run_id, "a")
    after = await runs.row(row.run_id)
    assert (after.status, after.finished_at) == (row.status, row.finished_at)
    assert after.version > row.version
    view: Any = (await runs.app.runtime.status(runs.app.local, run_id=row.run_id)).wire()
    assert [one["step"] for one in view["unresolved"]] == ["a"]
    assert view["next"]["tool"] == "reconcile"


async def test_a_run_that_was_undone_is_incomplete_once_something_about_it_is_contradicted(
    runs: Runs, stage: Stage
) -> None:
    stage.then("asked", lose)
    row, _ = await runs.end(step("a", "asked"), step("b", "ship", depends_on=["a"]), on_failure="compensate")
    stage.then("ship", lambda _: Outcome.permanent("no", sent="no"))
    await runs.say(row.run_id, "a", "happened")
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "complete")
    await contradict(runs, row.run_id, "a")
    after = await runs.row(row.run_id)
    assert (after.status, after.finished_at, after.compensation) == ("failed", row.finished_at, "incomplete")
    assert after.version > row.version
    view: Any = (await runs.app.runtime.status(runs.app.local, run_id=row.run_id)).wire()
    assert [one["step"] for one in view["unresolved"]] == ["a"]
    assert view["compensation"] == "incomplete"
    await runs.say(row.run_id, "a", "happened")
    row = await runs.until(row.run_id, lambda found: found.compensation == "complete")
    assert (row.status, row.reason, row.compensation) == ("failed", "b: failed", "complete")
