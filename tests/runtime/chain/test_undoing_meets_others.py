"""A run that is undone meets what moves on beside it: a word, a hold, a cancellation, another process, late news."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil import Outcome, Probe
from counterfoil.ledger import owners
from counterfoil.ledger.settling import Settlement, settle
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import LIMIT_S, Runs, step
from tests.runtime.chain.undone import UNDO, acted, doubtful, fails, fates, reconciled, refuse, view_of, word
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio


def cannot_tell(_: Any) -> Probe:
    return Probe.unknown()


async def lapse(first: App, other: App) -> None:
    """The first one's process is gone, as the other one sees it."""
    owner_id = first.ledger.owner_id
    row = await other.ledger.record(lambda: owners.get(owner_id))
    assert row is not None
    assert await other.ledger.record(lambda: owners.declare_lapsed(owner_id, row.beat, other.ledger.now()))


async def sent_again(runs: Runs, run_id: str, name: str) -> None:
    """A person says that it did not happen, and has it sent again; what comes of that is not waited for."""
    await word(runs, (await runs.call(run_id, name)).call_id, "not_happened", then="retry", wait_s=0)
    runs.app.runtime.driver.wake(run_id)


async def test_what_a_word_had_sent_again_and_a_hold_keeps_back_says_so_and_ends_with_a_cancel(
    runs: Runs, stage: Stage
) -> None:
    stage.then("book", doubtful)
    stage.then("peek", refuse)
    row, _ = await runs.end(step("s", "ship"), step("a", "book"), fails("s"), **UNDO)
    await runs.app.runtime.holding.hold("tool", "book", by="os:carol", reason="look first")
    await runs.woken(row.run_id)
    await sent_again(runs, row.run_id, "a")
    row = await runs.rest(row.run_id)
    assert (row.status, row.reason, row.due_at) == ("queued", "held", None)
    assert (await runs.call(row.run_id, "a")).state == "queued"
    await runs.cancel(row.run_id)
    row = await runs.rest(row.run_id)
    assert (row.status, (await runs.call(row.run_id, "a")).state) == (
        "awaiting_reconciliation", "awaiting_reconciliation",
    )  # fmt: skip
    assert acted(stage) == [("ship", "s")]


async def test_a_process_that_takes_over_between_two_attempts_of_a_step_sends_no_further_one(
    open_: OpenApp, stage: Stage
) -> None:
    one = await open_()
    first = Runs(one)
    stage.then("stubborn", doubtful, lambda _: Outcome.retryable("busy", sent="no", after_s=25))
    stage.then("peek", refuse)
    row, _ = await first.end(step("s", "ship"), step("a", "stubborn"), fails("s"), **UNDO)
    await sent_again(first, row.run_id, "a")
    async with asyncio.timeout(LIMIT_S):
        while (call := await first.call(row.run_id, "a")).generation < 2 or call.state != "queued":
            await asyncio.sleep(0.01)
    two = await open_()
    second = Runs(two)
    await lapse(one, two)
    two.runtime.driver.wake(row.run_id)
    row = await second.until(row.run_id, lambda found: found.finished_at is not None)
    assert (row.status, row.compensation) == ("failed", "complete")
    assert (stage.count("stubborn"), acted(stage)) == (2, [("ship", "s"), ("unship", "s")])


async def test_a_finished_run_keeps_its_end_and_undoes_what_became_known_only_when_it_is_asked(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    one = await open_()
    stage.then("peek", refuse)
    stage.then("asked", lose)
    stage.then("asked_happened", *[cannot_tell] * 6)
    row, _ = await Runs(one).end(step("s", "ship"), step("a", "asked"), fails("s"), **UNDO)
    two = await open_()
    await lapse(one, two)
    runs = Runs(two)
    await runs.say(row.run_id, "a", "not_happened")
    ended = await runs.rest(row.run_id)
    assert (ended.status, ended.compensation) == ("failed", "complete")
    call = await runs.call(row.run_id, "a")
    late = Settlement("success", "yes", two.ledger.now())
    await two.ledger.record(lambda: settle(call.call_id, 1, late))
    await word(runs, call.call_id, "happened")
    await two.runtime.driver.sweep()
    await runs.idle()
    view: dict[str, Any] = await view_of(runs, row.run_id)
    assert (view["status"], view["compensation"], stage.count("unasked")) == ("failed", "incomplete", 0)
    assert (await runs.row(row.run_id)).finished_at == ended.finished_at
    assert ("a", None, "not_undone") in fates(view)
    view = await reconciled(runs, row.run_id)
    assert (view["status"], view["compensation"], stage.count("unasked")) == ("failed", "complete", 1)
