"""The budget of a run, kind by kind: counted at dispatch, final once used up, and its time stands still for people."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil import Outcome, Probe
from counterfoil.ledger.budgeting import CounterRow, list_counters
from counterfoil.ledger.run_rows import RunRow
from counterfoil.registry.budgets import Budgets
from counterfoil.server.app import App
from tests.kit.run_rules import check_run_view
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import LIMIT_S, Runs, step
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose, unsent

pytestmark = pytest.mark.anyio
SPENT = ("budget_exhausted", "budget", "budget_exhausted")


def end_of(row: RunRow) -> tuple[str, str | None, str | None]:
    return row.status, row.reason, row.code


async def shown(runs: Runs, run_id: str) -> dict[str, Any]:
    view: Any = (await runs.app.runtime.status(runs.app.local, run_id=run_id)).wire()
    check_run_view(view)
    found: dict[str, Any] = view["budget"]
    return found


async def counters(app: App) -> dict[str, int]:
    rows: list[CounterRow] = await app.ledger.record(lambda: list_counters(0))
    return {row.kind: row.used for row in rows}


@pytest.mark.parametrize(
    ("budget", "done"),
    [({"calls": 3}, 2), ({"writes": 2}, 2), ({"cost": 4.5}, 2), ({"output_bytes": 14}, 1), ({"output_bytes": 13}, 0)],
)
async def test_what_a_budget_has_not_got_ends_the_run_for_good(
    runs: Runs, stage: Stage, budget: dict[str, Any], done: int
) -> None:
    stage.then("give", lambda _: ["x", "y", "z"])
    each = step("each", "costly", for_each="${list}", args={"ref": "${item}"})
    row, states = await runs.end(step("list", "give"), each, budget=budget, max_parallel=1)
    assert (end_of(row), states["each"]) == (SPENT, "failed")
    assert len(stage.effects) == done
    kind, limit = next(iter(budget.items()))
    found = await shown(runs, row.run_id)
    assert (found["limits"], found["writes"], found["cost"]) == ({kind: limit}, done, 2 * done)


async def test_a_run_may_take_exactly_what_it_has(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(
        step("a"), step("b", "note", depends_on=["a"]), budget={"calls": 2, "writes": 2, "output_bytes": 12}
    )
    assert (row.status, stage.count("note")) == ("succeeded", 1)


async def test_a_view_shows_what_was_used_of_every_kind_also_without_a_limit(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    stage.then("note", lambda _: clock.pass_(1.5))
    row, _ = await runs.end(
        step("a", "costly"), step("b", "note", depends_on=["a"]), step("c", "peek", depends_on=["b"])
    )
    assert await shown(runs, row.run_id) == {
        "calls": 3, "writes": 2, "destructive": 0, "cost": 2, "output_bytes": 33, "elapsed_s": 1.5, "limits": {},
    }  # fmt: skip
    clock.pass_(60)
    assert (await shown(runs, row.run_id))["elapsed_s"] == 1.5


async def test_a_step_counts_once_whatever_its_attempts_and_not_at_all_if_it_was_never_sent(
    runs: Runs, stage: Stage
) -> None:
    stage.then("stubborn", unsent, unsent)
    stage.then("book", unsent)
    row, states = await runs.end(
        step("a", "stubborn"),
        step("b", depends_on=["a"], on_failure="continue"),
        step("c", "note", depends_on=["b"], needs="settled"),
        budget={"calls": 3},
        max_parallel=1,
    )
    assert (row.status, states["b"], stage.count("stubborn")) == ("succeeded", "failed", 3)
    assert (await shown(runs, row.run_id))["calls"] == (await counters(runs.app))["calls"] == 2


async def test_an_approved_destructive_call_counts_at_its_dispatch_and_not_before(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(step("a", "refund"), budget={"destructive": 1})
    assert (row.status, (await shown(runs, row.run_id))["destructive"]) == ("awaiting_approval", 0)
    assert await counters(runs.app) == {}
    await runs.decide(row.run_id, "a")
    row = await runs.rest(row.run_id)
    assert (row.status, (await shown(runs, row.run_id))["destructive"]) == ("succeeded", 1)
    assert await counters(runs.app) == {"destructive": 1}


async def test_nobody_is_asked_about_a_step_that_the_plans_own_budget_has_nothing_for(runs: Runs, stage: Stage) -> None:
    stage.then("give", lambda _: [1])
    row, states = await runs.end(
        step("list", "give"),
        step("b", "refund", for_each="${list}", args={"ref": "x"}),
        budget={"calls": 1},
    )
    assert end_of(row) == SPENT
    assert states["b"] == "failed"
    note = (await runs.notes(row.run_id))["b", 0]
    assert note.message is not None
    assert "have the plan's own budget.calls raised" in note.message
    assert await runs.app.runtime.approvals() == []


async def test_the_ceiling_of_every_run_is_named_as_that(open_: OpenApp, stage: Stage) -> None:
    runs = Runs(await open_(more="[budgets.run]\nwrites = 1\n"))
    row, _ = await runs.end(step("a"), step("b", "note", depends_on=["a"]), budget={"writes": 5})
    assert end_of(row) == SPENT
    message = (await runs.notes(row.run_id))["b", -1].message
    assert message is not None
    assert "have [budgets.run] raised" in message


async def test_a_wider_budget_that_never_has_room_fails_the_step_in_place_of_waiting(open_: OpenApp) -> None:
    runs = Runs(await open_(more="[budgets.tenant]\nwindow_s = 3600\nwrites = 0\n"))
    row, states = await runs.end(step("a"))
    assert (row.status, row.code, states) == ("failed", "budget_exhausted", {"a": "failed"})


async def test_a_run_waits_for_the_next_window_of_a_wider_budget(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    runs = Runs(await open_(more="[budgets.subject]\nwindow_s = 3600\nwrites = 1\n"))
    row, _ = await runs.end(step("a"), step("b", "note", depends_on=["a"]))
    assert (row.status, row.reason, row.due_at) == ("queued", "budget", clock.now() + 2_800_000_000)
    await runs.woken(row.run_id)
    clock.pass_(2800)
    runs.app.runtime.driver.wake(row.run_id)
    assert (await runs.rest(row.run_id)).status == "succeeded"


async def test_an_undo_and_a_probe_take_nothing_from_any_budget(open_: OpenApp, stage: Stage) -> None:
    rule = '[[policy]]\nid = "three"\ntool = "*"\nverdict = "deny"\n'
    rule += 'limit = { per = "tenant", window_s = 3600, calls = 3 }\n'
    budgets = "[budgets.run]\ncalls = 3\n[budgets.tenant]\nwindow_s = 3600\nwrites = 3\n"
    runs = Runs(await open_(more=budgets + rule))
    stage.then("probed", lose)
    stage.then("probe", lambda _: Probe.happened({"ref": "b"}))
    stage.then("book", lambda _: Outcome.permanent("no"))
    row, _ = await runs.end(
        step("a", "ship"),
        step("b", "probed", depends_on=["a"], compensate="none"),
        step("c", depends_on=["b"]),
        on_failure="compensate",
    )
    assert row.status == "awaiting_reconciliation"
    await runs.woken(row.run_id)
    await runs.app.runtime.reconcile(runs.app.local, run_id=row.run_id)
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "complete")
    assert [name for name, *_ in stage.calls] == ["ship", "probed", "probe", "book", "unship"]
    rows = await runs.app.ledger.record(lambda: list_counters(0))
    assert {(found.scope, found.kind): found.used for found in rows} == {
        (f"run:{row.run_id}", "calls"): 3, ("tenant:local", "writes"): 3, ("rule:three/tenant:local", "calls"): 3,
    }  # fmt: skip
    assert (await shown(runs, row.run_id))["calls"] == 3


# Its time.


async def test_past_its_time_nothing_starts_and_what_runs_is_followed_to_its_end(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    begun, go = stage.hold("book")
    run_id = await runs.start(step("a"), step("b", depends_on=["a"]), budget={"elapsed_s": 60})
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    clock.pass_(61)
    go.set()
    row = await runs.rest(run_id)
    assert end_of(row) == SPENT
    assert await runs.states(run_id) == {"a": "succeeded", "b": "not_run"}
    assert (await shown(runs, run_id))["elapsed_s"] == 61


async def test_the_end_of_its_time_rings_while_a_step_runs(open_: OpenApp, stage: Stage, clock: HandClock) -> None:
    runs = Runs(await open_(more="[budgets.run]\nelapsed_s = 0.05\n"))
    begun, go = stage.hold("book")
    run_id = await runs.start(step("a"), step("b", "note", needs="settled", depends_on=["a"]))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    clock.pass_(0.06)
    async with asyncio.timeout(LIMIT_S):
        while ("b", -1) not in await runs.notes(run_id):
            await asyncio.sleep(0.01)
    go.set()
    assert end_of(await runs.rest(run_id)) == SPENT


async def test_its_time_stands_still_while_only_people_are_awaited(runs: Runs, stage: Stage, clock: HandClock) -> None:
    row, _ = await runs.end(step("pay", "refund"), step("tell", "note", depends_on=["pay"]), budget={"elapsed_s": 60})
    for _ in range(2):
        clock.pass_(500)
        await runs.woken(row.run_id)
        runs.app.runtime.driver.wake(row.run_id)
        row = await runs.rest(row.run_id)
        assert (row.status, (await shown(runs, row.run_id))["elapsed_s"]) == ("awaiting_approval", 0)
    clock.pass_(500)
    await runs.decide(row.run_id, "pay")
    row = await runs.rest(row.run_id)
    assert (row.status, (await shown(runs, row.run_id))["elapsed_s"]) == ("succeeded", 0)


async def test_its_time_goes_on_while_it_waits_for_anything_else(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    runs = Runs(await open_(more="[budgets.subject]\nwindow_s = 3600\nwrites = 1\n"))
    row, _ = await runs.end(step("a"), step("b", "note", depends_on=["a"]), budget={"elapsed_s": 100})
    assert (row.reason, row.due_at) == ("budget", clock.now() + 100_000_000)
    await runs.woken(row.run_id)
    clock.pass_(100)
    runs.app.runtime.driver.wake(row.run_id)
    row = await runs.rest(row.run_id)
    assert (end_of(row), stage.count("note")) == (SPENT, 0)


@pytest.mark.parametrize(
    ("deadline_s", "elapsed_s", "end"),
    [(60, 90, ("failed", "deadline_exceeded", "deadline_exceeded")), (90, 60, SPENT)],
)
async def test_whichever_comes_first_decides_deadline_or_time(
    runs: Runs, stage: Stage, clock: HandClock, deadline_s: int, elapsed_s: int, end: tuple[str, str, str]
) -> None:
    begun, go = stage.hold("book")
    run_id = await runs.start(
        step("a"), step("b", depends_on=["a"]), deadline_s=deadline_s, budget={"elapsed_s": elapsed_s}
    )
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    clock.pass_(100)
    go.set()
    assert end_of(await runs.rest(run_id)) == end


async def test_whoever_drives_it_next_knows_that_its_time_was_used_up(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    runs = Runs(await open_(more="[budgets.run]\nelapsed_s = 60\n"))
    stage.then("book", lose)
    begun, go = stage.hold("note")
    run_id = await runs.start(step("a"), step("b", "note"), step("c", depends_on=["a", "b"]))
    await runs.until_state(run_id, "a", "awaiting_reconciliation")
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    clock.pass_(61)
    go.set()
    assert (await runs.rest(run_id)).status == "awaiting_reconciliation"
    runs.app.runtime._parts.budgets = Budgets()  # as a reload does: more than that comes too late
    await runs.say(run_id, "a", "happened")
    assert end_of(await runs.until(run_id, lambda row: row.finished_at is not None)) == SPENT


async def test_what_was_done_is_undone_beyond_its_time(runs: Runs, stage: Stage, clock: HandClock) -> None:
    begun, go = stage.hold("note")
    run_id = await runs.start(
        step("a", "ship"), step("b", "note", depends_on=["a"]), step("c", depends_on=["b"]),
        budget={"elapsed_s": 60}, on_failure="compensate",
    )  # fmt: skip
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    clock.pass_(61)
    go.set()
    row = await runs.rest(run_id)
    assert (*end_of(row), stage.count("unship"), stage.count("book")) == (*SPENT, 1, 0)


async def test_a_failure_of_a_tool_is_no_end_of_a_budget(runs: Runs, stage: Stage) -> None:
    stage.then("book", lambda _: Outcome.permanent("no"))
    row, _ = await runs.end(step("a"), budget={"calls": 1})
    assert row.status == "failed"
