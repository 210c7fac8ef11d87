"""A run whose process dies, stands still or stops: who goes on with it, and that nothing happens twice.

A death is told by the ledger: from some commit on no answer of it comes back, before the commit or after it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from counterfoil import Outcome, Probe
from counterfoil.ledger import owners
from counterfoil.ledger.budgeting import list_counters
from counterfoil.ledger.runs import ask_cancel
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.chain.mortal import Mortal
from tests.runtime.chain.running import CAROL, LIMIT_S, Runs, step
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio
MOST_COMMITS = 60


async def lapse(first: App, other: App) -> None:
    owner_id, now = first.ledger.owner_id, other.ledger.now()
    row = await other.ledger.record(lambda: owners.get(owner_id))
    assert row is not None
    assert await other.ledger.record(lambda: owners.declare_lapsed(owner_id, row.beat, now))


FIVE = (
    step("find", "peek"),
    step("each", "keyed", for_each=["x", "y"], args={"ref": "${item}"}, depends_on=["find"]),
    step("no", "note", when={"ref": "${find.ref}", "eq": "another"}),
    step("put", "put", depends_on=["find"]),
    step("last", "probed", depends_on=["each", "put"]),
)


@pytest.mark.parametrize("made", [True, False])
async def test_a_run_survives_the_death_of_its_process_at_every_commit(
    open_: OpenApp, stage: Stage, *, made: bool
) -> None:
    app = await open_()
    runs, commits, whole = Runs(app), 0, False
    while not whole:
        commits += 1
        stage.reset()
        first = await open_()
        run_id = await Runs(first).start(*FIVE, drive=False, budget={"writes": 4})  # just as many as it needs
        mortal = Mortal(first, commits, made=made)
        first.runtime.driver.wake(run_id)
        whole = not await dies(mortal, runs, run_id)
        await mortal.bury(app)
        stage.then("probe", *[happened(stage)] * 3)
        await app.runtime.driver.sweep()
        row = await runs.rest(run_id)
        if row.status == "awaiting_reconciliation":  # its T1 was made and it was not called: the far side has nothing
            assert ("probed", "last") not in stage.effects
            await runs.say(run_id, "last", "not_happened", then="retry")
            row = await runs.rest(run_id)
        assert row.status == "succeeded", (commits, row, await runs.states(run_id))
        assert await runs.states(run_id) == {
            "find": "succeeded", "each": "succeeded", "no": "skipped", "put": "succeeded", "last": "succeeded",
        }  # fmt: skip
        each_once(stage)
        rows = await app.ledger.record(lambda: list_counters(0))
        assert [row.used for row in rows if row.scope == f"run:{run_id}"] == [4]
    assert commits < MOST_COMMITS


async def dies(mortal: Mortal, runs: Runs, run_id: str) -> bool:
    """Wait until the process is dead, or has done all of it and lives."""
    async with asyncio.timeout(LIMIT_S):
        while not mortal.dead.is_set():
            if (await runs.row(run_id)).finished_at is not None:
                return False
            await asyncio.sleep(0.005)
    return True


def happened(stage: Stage) -> Any:
    """The probe's answer: what stands in the far side's books."""

    def act(_: Any) -> Probe:
        return Probe.happened({"ref": "last"}) if ("probed", "last") in stage.effects else Probe.unknown()

    return act


def each_once(stage: Stage) -> None:
    """The far side honours the keys of `keyed`, a natural call may be repeated; what can be probed was sent once."""
    actions = {(name, ref, action) for name, ref, action, _ in stage.calls if name in {"keyed", "probed"}}
    assert Counter((name, ref) for name, ref, _ in actions) == {
        ("keyed", "x"): 1, ("keyed", "y"): 1, ("probed", "last"): 1,
    }  # fmt: skip
    assert stage.count("probed") == 1


async def test_a_process_that_stood_still_sends_nothing_more_of_a_run_that_others_drive(
    open_: OpenApp, stage: Stage
) -> None:
    first, begun, go = await open_(), asyncio.Event(), asyncio.Event()

    async def unguarded(_: Any) -> None:
        begun.set()
        await go.wait()

    stage.then("keyed", unguarded)
    run_id = await Runs(first).start(step("a", "keyed"), step("b", "keyed", depends_on=["a"]))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    other = await open_()
    runs = Runs(other)
    await lapse(first, other)
    await other.runtime.driver.sweep()
    row = await runs.rest(run_id)
    assert row.status == "succeeded"
    go.set()
    await Runs(first).idle()
    actions = {(ref, action) for _, ref, action, _ in stage.calls}
    assert len(actions) == 2
    assert (await runs.row(run_id)).status == "succeeded"
    kinds = await runs.kinds(run_id)
    assert (kinds["taken_over"], kinds["run_finished"]) == (1, 1)


async def test_a_server_that_stops_leaves_its_run_to_another_and_follows_what_it_has_sent(
    open_: OpenApp, stage: Stage
) -> None:
    first = await open_()
    begun, go = stage.hold("book")
    run_id = await Runs(first).start(step("a"), step("b", depends_on=["a"]), step("c", "note", depends_on=["b"]))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    first.runtime.driver.stop()
    await Runs(first).idle()
    row = await Runs(first).row(run_id)
    assert (row.status, row.owner_id) == ("queued", None)
    other = await open_()
    runs = Runs(other)
    await other.runtime.driver.sweep()
    row = await runs.until(run_id, lambda row: row.owner_id == other.ledger.owner_id)
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, stage.effects) == ("succeeded", [("book", "a"), ("book", "b"), ("note", "c")])
    assert (await runs.call(run_id, "a")).owner_id == first.ledger.owner_id


async def test_a_parked_unresolved_step_is_followed_once_by_a_new_process_where_not_only_a_person_can_tell(
    open_: OpenApp, stage: Stage
) -> None:
    first = await open_()
    stage.then("probed", lose)
    stage.then("book", lose)
    dying = Runs(first)
    run_id = await dying.start(step("a", "probed"), step("b"))
    assert (await dying.rest(run_id)).status == "awaiting_reconciliation"
    assert stage.count("probe") == 0
    first.runtime.driver.wake(run_id)
    await dying.idle()
    assert stage.count("probe") == 0, "the same process does not follow it by itself"
    other = await open_()
    runs = Runs(other)
    await lapse(first, other)
    stage.then("probe", lambda _: Probe.happened({"ref": "a"}))
    await runs.woken(run_id)
    await other.runtime.driver.sweep()
    row = await runs.rest(run_id)
    assert row.status == "awaiting_reconciliation"
    assert await runs.states(run_id) == {"a": "succeeded", "b": "awaiting_reconciliation"}
    assert (stage.count("probe"), stage.count("probed"), stage.count("book")) == (1, 1, 1)


async def test_a_damaged_chain_closes_only_its_own_run(app: App, runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(step("a", "refund"), step("b", "note", depends_on=["a"]))
    with closing(sqlite3.connect(app.ledger.path)) as db, db:
        db.execute("UPDATE events SET body = replace(body, 'proposed', 'proposes') WHERE run_id = ?", (row.run_id,))
    app.runtime.driver.wake(row.run_id)
    other = await runs.start(step("x"))
    await runs.until(other, lambda row: row.status == "succeeded")
    await runs.idle()
    assert (await runs.row(row.run_id)).status == "awaiting_approval"
    assert stage.effects == [("book", "x")]


async def test_a_run_that_cannot_be_read_is_parked_with_its_reason_and_tried_again_later(
    app: App, runs: Runs, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await runs.start(step("a"), changes={"plan_id": "plan_of_nobody"})
    row = await runs.until(run_id, lambda row: row.reason is not None)
    assert (row.status, row.reason, row.owner_id) == ("queued", "unavailable", None)
    assert row.due_at == clock.now() + 5_000_000
    app.runtime.driver.wake(run_id)
    row = await runs.until(run_id, lambda row: row.wakes == 2 and row.owner_id is None)
    assert row.due_at == clock.now() + 10_000_000
    assert "PlanMissingError" in caplog.text


async def test_a_cancellation_or_a_deadline_that_comes_after_the_last_end_changes_nothing(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    first = await open_()
    mortal = Mortal(first, 1_000, made=True)
    dying = Runs(first)
    run_id = await dying.start(step("a"), drive=False, deadline_s=60)
    mortal.refuse("finish")
    first.runtime.driver.wake(run_id)
    async with asyncio.timeout(LIMIT_S):
        await mortal.dead.wait()
    other = await open_()
    runs = Runs(other)
    clock.pass_(61)
    await runs.woken(run_id)
    await other.ledger.record(lambda: ask_cancel(run_id, "me", "no more", other.ledger.now()))
    await mortal.bury(other)
    await other.runtime.driver.sweep()
    row = await runs.rest(run_id)
    assert (row.status, stage.effects) == ("succeeded", [("book", "a")])


async def test_a_failure_that_is_compensated_lets_nothing_begin_after_a_restart_either(
    open_: OpenApp, stage: Stage
) -> None:
    first = await open_()
    stage.then("book", lambda _: Outcome.permanent("no"))
    mortal = Mortal(first, 1_000, made=False)
    dying = Runs(first)
    run_id = await dying.start(step("pay", "refund"), step("bad"), drive=False, on_failure="compensate")
    mortal.refuse("withdraw")
    first.runtime.driver.wake(run_id)
    async with asyncio.timeout(LIMIT_S):
        await mortal.dead.wait()
    cli = await open_(role="cli")
    approval_id = (await Runs(cli).call(run_id, "pay")).approval_id or ""
    assert (await cli.runtime.decide(approval_id, "approve", decider=CAROL)).error is None
    other = await open_()
    await mortal.bury(other)
    runs = Runs(other)
    await other.runtime.driver.sweep()
    row = await runs.rest(run_id)
    assert (row.status, row.reason) == ("failed", "bad: failed")
    assert (await runs.states(run_id), stage.count("refund")) == ({"pay": "cancelled", "bad": "failed"}, 0)
