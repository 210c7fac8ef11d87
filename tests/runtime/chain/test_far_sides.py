"""A run with a step that its far side has accepted: the others go on, nobody drives it, and a probe ends the wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil import Call, Outcome, Probe
from counterfoil.runtime.views import PlainView
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import HOUR, LIMIT_S, Runs, step
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage

pytestmark = pytest.mark.anyio
DAY_S = 86_400


def accepts(_: Call) -> Outcome[object]:
    return Outcome.accepted()


def refuses(_: Call) -> Outcome[object]:
    return Outcome.permanent("no", sent="no")


def pending(_: Call) -> Probe:
    return Probe.pending()


def found(_: Call) -> Probe:
    return Probe.happened({"ref": "found"})


async def sweep(app: App) -> None:
    """A whole pass of whoever sweeps; what it has asked may still be on its way."""
    await app.runtime._sweeper.sweep()  # pyright: ignore[reportPrivateUsage] (now, not at the next tick)
    await app.runtime.driver.sweep()


async def parked(runs: Runs, stage: Stage, **plan: Any) -> str:
    """A run that waits for nothing but its far side."""
    stage.then("probed", accepts)
    steps = [step("slow", "probed"), step("after", depends_on=["slow"]), step("aside")]
    row, states = await runs.end(*steps, **plan)
    assert (row.status, row.owner_id, row.paused_at) == ("awaiting_external", None, None)
    assert states == {"slow": "awaiting_external", "after": "waiting", "aside": "succeeded"}
    await runs.idle()
    await runs.woken(row.run_id)
    return row.run_id


async def test_the_branch_beside_it_goes_on_and_the_rest_follows_once_it_is_done(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    run_id = await parked(runs, stage)
    stage.then("probe", found)
    clock.pass_(6)
    await sweep(runs.app)
    row = await runs.rest(run_id)
    assert (row.status, stage.effects) == ("succeeded", [("book", "aside"), ("book", "after")])


async def test_being_told_to_wait_on_wakes_no_driver(runs: Runs, stage: Stage, clock: HandClock) -> None:
    run_id = await parked(runs, stage)
    before = await runs.row(run_id)
    stage.then("probe", pending)
    clock.pass_(6)
    await sweep(runs.app)
    async with asyncio.timeout(LIMIT_S):
        while not (await runs.kinds(run_id))["probed"]:
            await asyncio.sleep(0.01)
    await sweep(runs.app)
    row = await runs.row(run_id)
    assert (row.status, row.wakes, row.seq) == ("awaiting_external", before.wakes, before.seq + 1)


async def test_past_its_wait_the_run_waits_for_reconciliation(runs: Runs, stage: Stage, clock: HandClock) -> None:
    run_id = await parked(runs, stage, changes={"grant_expires_at": clock.now() + 100 * HOUR})
    stage.then("probe", pending)
    clock.pass_(DAY_S)
    await sweep(runs.app)
    row = await runs.rest(run_id)
    assert row.status == "awaiting_reconciliation"
    await runs.say(run_id, "slow", "happened")
    assert (await runs.rest(run_id)).status == "succeeded"


async def test_its_deadline_passes_while_the_far_side_works(runs: Runs, stage: Stage, clock: HandClock) -> None:
    run_id = await parked(runs, stage, deadline_s=60)
    stage.then("probe", *[pending] * 5)
    clock.pass_(61)
    await sweep(runs.app)
    row = await runs.rest(run_id)
    assert (row.status, row.due_at) == ("awaiting_external", None)
    assert (await runs.states(run_id))["after"] == "not_run"
    await runs.woken(run_id)
    stage.script["probe"].clear()
    stage.then("probe", found)
    clock.pass_(300)
    await sweep(runs.app)
    row = await runs.rest(run_id)
    assert (row.status, row.reason) == ("failed", "deadline_exceeded")


async def test_a_cancelled_run_waits_for_what_was_accepted(runs: Runs, stage: Stage, clock: HandClock) -> None:
    run_id = await parked(runs, stage)
    await runs.cancel(run_id)
    row = await runs.rest(run_id)
    assert row.status == "awaiting_external"
    await runs.woken(run_id)
    stage.then("probe", found)
    clock.pass_(6)
    await sweep(runs.app)
    assert (await runs.rest(run_id)).status == "cancelled"


async def test_it_goes_on_in_another_process(open_: OpenApp, stage: Stage, clock: HandClock) -> None:
    first = await open_()
    run_id = await parked(Runs(first), stage)
    await first.runtime.stop(0)
    second = await open_()
    runs = Runs(second)
    await runs.woken(run_id)
    stage.then("probe", found)
    clock.pass_(6)
    await sweep(second)
    assert (await runs.rest(run_id)).status == "succeeded"
    assert stage.count("probed") == 1


async def test_items_that_were_accepted_end_one_by_one(runs: Runs, stage: Stage, clock: HandClock) -> None:
    stage.then("probed", accepts, accepts)
    row, states = await runs.end(
        step("slow", "probed", args={"ref": "${item}"}, for_each=["x", "y", "z"]), step("after", depends_on=["slow"])
    )
    assert (row.status, states["slow"]) == ("awaiting_external", "awaiting_external")
    await runs.woken(row.run_id)
    stage.then("probe", found, found)
    clock.pass_(6)
    await sweep(runs.app)
    row = await runs.until(row.run_id, lambda row: row.finished_at is not None)
    assert (row.status, stage.count("probed"), stage.count("book")) == ("succeeded", 3, 1)


async def test_a_signal_names_a_step_or_one_of_its_items(runs: Runs, stage: Stage) -> None:
    stage.then("probed", accepts, accepts)
    row, _ = await runs.end(step("slow", "probed", args={"ref": "${item}"}, for_each=["x", "y"]), step("fast"))
    signal = runs.app.runtime.signals.signal
    assert _places(await signal(row.run_id, "slow[1]")) == ["slow[1]"]
    assert _places(await signal(row.run_id, "slow")) == ["slow[0]", "slow[1]"]
    for name, where, code, says in [
        (row.run_id, "fast", "version_conflict", "settled"),
        (row.run_id, "slow[7]", "version_conflict", "slow[0], slow[1]"),
        (row.run_id, None, "invalid_arguments", "step"),
        ("run_nobody", "slow", "not_found", "run_nobody"),
    ]:
        told = await signal(name, where)
        assert told.error is not None
        assert told.error.code == code
        assert says in told.error.message


async def test_what_was_accepted_is_known_before_anything_is_undone(runs: Runs, stage: Stage, clock: HandClock) -> None:
    stage.then("asked", accepts)
    stage.then("asked_happened", pending)
    stage.then("peek", refuses)
    row, _ = await runs.end(step("slow", "asked"), step("ship", "ship"), step("bad", "peek"), on_failure="compensate")
    assert (row.status, row.compensation, row.paused_at) == ("awaiting_external", "running", None)
    assert stage.count("unship") == 0
    await runs.idle()
    await runs.woken(row.run_id)
    stage.script["asked_happened"].clear()
    stage.then("asked_happened", found)
    clock.pass_(60)
    await sweep(runs.app)
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "complete")
    assert {name for name, _ in stage.effects} >= {"unasked", "unship"}


async def test_an_undo_that_was_accepted_is_waited_for(runs: Runs, stage: Stage, clock: HandClock) -> None:
    stage.then("peek", refuses)
    stage.then("probed", accepts)
    undo = {"tool": "probed", "args": {"ref": "undo"}}
    row, _ = await runs.end(
        step("ship", "ship"),
        step("book", compensate=undo, depends_on=["ship"]),
        step("bad", "peek", depends_on=["book"]),
        on_failure="compensate",
    )
    assert (row.status, row.compensation) == ("awaiting_external", "running")
    assert stage.count("unship") == 0
    await runs.idle()
    await runs.woken(row.run_id)
    assert _places(await runs.app.runtime.signals.signal(row.run_id, "book")) == ["book"]
    stage.then("probe", found)
    await sweep(runs.app)
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation, stage.count("unship")) == ("failed", "complete", 1)


def _places(view: PlainView) -> list[str]:
    told: Any = view.wire()
    return sorted(one["step"] for one in told["signalled"])
