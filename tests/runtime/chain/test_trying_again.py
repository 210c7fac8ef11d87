"""When a step that was refused for now is tried again: after the release of a hold, else ever later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.ledger.holding import HoldRow, lift_hold
from counterfoil.ledger.runs import TAKE_WAKES
from counterfoil.ledger.sql import Fact, change
from counterfoil.registry.vocabulary import ErrorCode
from counterfoil.runtime.chain.rest import FIRST_PAUSE, LONGEST_PAUSE, due_of
from counterfoil.runtime.refusal import Reason
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import LIMIT_S, Runs, step
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage

pytestmark = pytest.mark.anyio
BUSY = Reason(ErrorCode.RESOURCE_BUSY, "later")
HELD = Reason(ErrorCode.HELD, "on hold")


async def swept(runs: Runs, clock: HandClock, seconds: float, times: int = 1) -> None:
    for _ in range(times):
        clock.pass_(seconds)
        await runs.app.runtime.driver.sweep()
        await runs.idle()


def test_the_pause_grows_with_the_wakes_of_a_run_up_to_the_longest() -> None:
    assert [due_of(BUSY, None, 7, wakes) for wakes in (0, 1, 2, 3)] == [
        7 + FIRST_PAUSE, 7 + FIRST_PAUSE, 7 + 2 * FIRST_PAUSE, 7 + 4 * FIRST_PAUSE
    ]  # fmt: skip
    assert due_of(BUSY, None, 7, 10_000) == 7 + LONGEST_PAUSE


def test_a_time_that_the_refusal_names_is_kept_and_a_hold_has_none() -> None:
    assert due_of(BUSY, 99, 7, 5) == 99
    assert (due_of(HELD, None, 7, 1), due_of(HELD, 99, 7, 1)) == (None, None)


async def test_a_run_that_is_held_leaves_no_event_until_the_release(runs: Runs, clock: HandClock) -> None:
    holding = runs.app.runtime.holding
    await holding.hold("tool", "ship", by="os:carol", reason="look first")
    row, _ = await runs.end(step("a", "ship"), deadline_s=600)
    assert (row.status, row.reason, row.due_at, row.paused_at) == ("queued", "held", None, clock.now())
    await swept(runs, clock, 60, times=20)
    assert (await runs.row(row.run_id)).version == row.version
    await runs.woken(row.run_id)
    await holding.release("tool", "ship", by="os:carol")
    await runs.app.runtime.driver.sweep()
    assert (await runs.rest(row.run_id)).status == "succeeded"


@pytest.mark.parametrize("kind", ["all", "tool", "tenant", "subject", "run"])
async def test_a_held_branch_goes_on_after_the_release_while_its_run_waits_for_a_person(
    kind: str, runs: Runs, stage: Stage
) -> None:
    who, holding = runs.app.local, runs.app.runtime.holding
    run_id = await runs.start(step("pay", "refund"), step("a", depends_on=["r"]), step("r", "note"), drive=False)
    names = {"all": "", "tool": "book", "tenant": who.tenant, "subject": who.subject, "run": run_id}
    begun, go = stage.hold("note")
    runs.app.runtime.driver.wake(run_id)
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    await runs.until_state(run_id, "pay", "awaiting_approval")
    await holding.hold("tool", "book", by="os:carol")
    if kind != "tool":
        await holding.hold(kind, names[kind], by="os:carol")
        await holding.release("tool", "book", by="os:carol")
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.due_at, stage.count("book")) == ("awaiting_approval", None, 0)
    await holding.release(kind, names[kind], by="os:carol")
    await runs.app.runtime.driver.sweep()
    await runs.until_state(run_id, "a", "settled")


async def test_what_was_held_goes_on_while_another_step_of_its_run_is_under_way(runs: Runs, stage: Stage) -> None:
    begun, go = stage.hold("book")
    await runs.app.runtime.holding.hold("tool", "note", by="os:carol")
    run_id = await runs.start(step("a"), step("b", "note"))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
        await runs.app.runtime.holding.release("tool", "note", by="os:carol")
        while not stage.count("note"):
            await runs.app.runtime.driver.sweep()
    go.set()
    assert (await runs.rest(run_id)).status == "succeeded"


async def test_a_release_whose_wake_was_taken_too_early_is_not_lost(runs: Runs, stage: Stage) -> None:
    begun, go = stage.hold("book")
    await runs.app.runtime.holding.hold("tool", "note", by="os:carol")
    run_id = await runs.start(step("a"), step("b", "note"))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()

    def released_unseen() -> Fact[HoldRow | None]:
        """As after a look of the driver that came while the step's refusal was still on its way to it."""
        done = yield from lift_hold("tool", "note", "os:carol", runs.app.ledger.now())
        yield from change(TAKE_WAKES, run_id=run_id)
        return done

    assert await runs.app.ledger.record(released_unseen) is not None
    go.set()
    await runs.rest(run_id)
    await runs.app.runtime.driver.sweep()
    async with asyncio.timeout(LIMIT_S):
        while not stage.count("note"):
            await runs.app.runtime.driver.sweep()
            await asyncio.sleep(0.01)


async def test_what_is_refused_for_now_is_tried_ever_later_across_the_wakes_of_its_run(
    open_: OpenApp, clock: HandClock
) -> None:
    app = await open_(more="[approvals]\npending_max = 1")
    runs = Runs(app)
    assert (await app.call("refund", {"ref": "first"})).state == "awaiting_approval"
    row, _ = await runs.end(step("a", "refund"))
    pauses: list[Any] = []
    for _ in range(6):
        assert (row.reason, row.due_at is not None) == ("unavailable", True)
        pauses.append(((row.due_at or 0) - clock.now()) / FIRST_PAUSE)
        await runs.woken(row.run_id)
        clock.at = row.due_at or 0
        await app.runtime.driver.sweep()
        row = await runs.rest(row.run_id)
    assert pauses == [1, 2, 4, 8, 12, 12]
