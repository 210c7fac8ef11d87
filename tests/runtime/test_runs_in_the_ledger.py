"""Runs as the ledger keeps them: one chain with their calls, one driver at a time, no wake lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from counterfoil.ledger.admission import RunSaysNo, Unresolved
from counterfoil.ledger.approving import Decision, decide
from counterfoil.ledger.check import check
from counterfoil.ledger.dispatching import Attempt, Dispatched, dispatch_new
from counterfoil.ledger.errors import DamagedChainError
from counterfoil.ledger.finding import PAGE
from counterfoil.ledger.proposals import Hindered, Proposed, Waiter, propose
from counterfoil.ledger.recovering import resolve, take_over
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.run_finding import list_due_runs, list_orphan_runs, list_wakes
from counterfoil.ledger.run_rows import PlanRow, RunRow, get_run
from counterfoil.ledger.runs import (
    Claimed,
    Finished,
    KeyTaken,
    Parked,
    StepChange,
    Woken,
    ask_cancel,
    ask_stop,
    calls_of,
    claim_run,
    create_run,
    finish,
    note_steps,
    park,
    release_run,
    steps_of,
    take_up,
)
from counterfoil.ledger.settling import Settlement, settle
from counterfoil.ledger.verify import verify_database
from tests.runtime.bench import HOUR, LOST, SECOND, SUCCESS, UNSENT, Bench

pytestmark = pytest.mark.anyio


def a_run(bench: Bench, name: str = "run_1", **changes: Any) -> RunRow:
    at = bench.clock.now()
    run = RunRow(
        name, "plan_1", "t", "me", "c", "[]", "{}", "goal", "p" * 64, "i" * 64, "", f"key of {name}", at + HOUR, at, at
    )
    return run._replace(**changes)


async def made(bench: Bench, name: str = "run_1", *, driven: bool = True, **changes: Any) -> RunRow:
    plan = PlanRow("plan_1", "t", "me", "c", "goal", "p" * 64, "", 1, bench.clock.now()) if name == "run_1" else None
    owner_id = bench.me if driven else None
    done = await bench.record(lambda: create_run(a_run(bench, name, **changes), plan, (), owner_id=owner_id))
    assert isinstance(done, RunRow)
    return done


def a_step(bench: Bench, step: str, *, run_id: str = "run_1", item: int = -1, **changes: Any) -> CallRow:
    return bench.row(run_id=run_id, step=step, item=item, route="step", **changes)


async def t1(bench: Bench, row: CallRow, attempt: Attempt | None = None) -> Any:
    who = bench.who(row, direct=False, run_id=row.run_id)
    sealed = bench.sealed(row)
    return await bench.record(lambda: dispatch_new(row, who, sealed, attempt or bench.attempt(request_open=False)))


async def sent(bench: Bench, step: str, **changes: Any) -> CallRow:
    done = await t1(bench, a_step(bench, step, **changes))
    assert isinstance(done, Dispatched), done
    return done.row


async def run_now(bench: Bench, name: str = "run_1") -> RunRow:
    run = await bench.record(lambda: get_run(name))
    assert run is not None
    return run


async def wakes(bench: Bench) -> list[str]:
    me = bench.me
    return [wake.run_id for wake in await bench.record(lambda: list_wakes(me))]


def sound(bench: Bench) -> None:
    report = verify_database(bench.ledger.path)
    assert report.ok, report.problems
    breaches = check(bench.ledger.path)
    assert breaches.ok, breaches.breaches


async def settled(bench: Bench, row: CallRow, outcome: Settlement = SUCCESS) -> None:
    settlement = replace(outcome, at=bench.clock.now())
    await bench.record(lambda: settle(row.call_id, row.generation, settlement, known=row))


async def test_a_run_and_its_calls_share_one_gapless_chain(bench: Bench) -> None:
    await made(bench)
    first, second = await sent(bench, "a"), await sent(bench, "b")
    await settled(bench, second)
    await settled(bench, first)
    done = await bench.record(lambda: finish("run_1", bench.me, Finished("succeeded"), bench.clock.now()))
    assert isinstance(done, RunRow)
    assert (done.status, done.seq, done.version, done.owner_id) == ("succeeded", 6, 6, None)
    assert [row.step for row in await bench.record(lambda: calls_of("run_1"))] == ["b", "a"]
    sound(bench)


async def test_a_request_key_has_one_run_and_its_making_may_come_twice(bench: Bench) -> None:
    first = await made(bench)
    again = await bench.record(lambda: create_run(a_run(bench), None, (), owner_id=bench.me))
    assert again == first
    other = await bench.record(lambda: create_run(a_run(bench, "run_2", request_key=first.request_key), None, ()))
    assert other == KeyTaken(first)
    elsewhere = a_run(bench, "run_3", request_key=first.request_key, subject="you")
    assert isinstance(await bench.record(lambda: create_run(elsewhere, None, ())), RunRow)


async def test_one_owner_drives_a_run_until_it_is_gone(bench: Bench) -> None:
    await made(bench, driven=False)
    other, at = await bench.another_owner(), bench.clock.now()
    assert await wakes(bench) == ["run_1"]
    taken = await bench.record(lambda: claim_run("run_1", other, at))
    assert isinstance(taken, Claimed)
    assert (taken.run.status, taken.run.wakes, taken.lost_owner) == ("running", 1, None)
    assert await bench.record(lambda: claim_run("run_1", bench.me, at)) is None
    assert await bench.record(list_orphan_runs) == []
    await bench.lapse(other)
    assert await bench.record(list_orphan_runs) == ["run_1"]
    mine = await bench.record(lambda: claim_run("run_1", bench.me, at))
    assert isinstance(mine, Claimed)
    assert mine.lost_owner == other
    assert await bench.record(lambda: park("run_1", other, Parked("awaiting_approval"), at)) is None
    sound(bench)


async def test_a_wake_between_the_last_look_and_the_parking_is_not_lost(bench: Bench) -> None:
    await made(bench)
    at, me = bench.clock.now(), bench.me
    await bench.record(lambda: ask_stop("run_1", "me", at))
    assert isinstance(await bench.record(lambda: park("run_1", me, Parked("queued", "stopped"), at)), Woken)
    parked = await bench.record(lambda: park("run_1", me, Parked("queued", "stopped", pauses=True), at))
    assert isinstance(parked, RunRow)
    assert (parked.status, parked.reason, parked.owner_id, parked.paused_at) == ("queued", "stopped", None, at)
    assert await wakes(bench) == []
    await bench.record(lambda: ask_cancel("run_1", "me", "", at))
    assert await wakes(bench) == ["run_1"]
    assert isinstance(await bench.record(lambda: claim_run("run_1", me, at)), Claimed)
    await bench.record(lambda: take_up("run_1", by="me", scopes="[]", grant_expires_at=at + HOUR, at=at))
    assert isinstance(await bench.record(lambda: finish("run_1", me, Finished("cancelled"), at)), Woken)
    assert isinstance(await bench.record(lambda: finish("run_1", me, Finished("cancelled"), at)), RunRow)
    assert await bench.record(lambda: claim_run("run_1", me, at)) is None
    sound(bench)


async def test_a_deadline_stands_still_while_only_people_are_awaited(bench: Bench) -> None:
    began = bench.clock.now()
    await made(bench, deadline_at=began + 60 * SECOND)
    for pauses, expected in ((True, began + 160 * SECOND), (False, began + 160 * SECOND)):
        at = bench.clock.now()
        await bench.record(partial(park, "run_1", bench.me, Parked("queued", pauses=pauses), at))
        bench.clock.pass_(100)
        await bench.record(lambda: claim_run("run_1", bench.me, bench.clock.now()))
        assert (await run_now(bench)).deadline_at == expected
    assert (await run_now(bench)).stood_still == 100 * SECOND


async def test_t1_asks_how_long_the_run_has_taken_without_its_waits_for_people(bench: Bench) -> None:
    await made(bench)
    at = bench.clock.now()
    await bench.record(lambda: park("run_1", bench.me, Parked("awaiting_approval", pauses=True), at))
    bench.clock.pass_(500)
    await bench.record(lambda: claim_run("run_1", bench.me, bench.clock.now()))
    for passed, expected in ((59, Dispatched), (1, RunSaysNo)):
        bench.clock.pass_(passed)
        attempt = bench.attempt(request_open=False, run_time=60 * SECOND)
        done = await t1(bench, a_step(bench, f"after {passed}"), attempt)
        assert isinstance(done, expected), done
    assert done == RunSaysNo("budget")


async def test_what_no_call_says_of_steps_is_recorded_once(bench: Bench) -> None:
    await made(bench)
    at, me = bench.clock.now(), bench.me
    changes = [StepChange("a", -1, "skipped"), StepChange("b", -1, "running", items=3), StepChange("b", 1, "failed")]
    for _ in range(2):
        run = await bench.record(lambda: note_steps("run_1", me, changes, at))
        assert run is not None
        assert run.seq == 4
    assert {(row.step, row.item, row.state) for row in await bench.record(lambda: steps_of("run_1"))} == {
        ("a", -1, "skipped"), ("b", -1, "running"), ("b", 1, "failed"),
    }  # fmt: skip
    await bench.record(lambda: note_steps("run_1", me, [StepChange("b", -1, "failed", code="tool_failed")], at))
    assert await bench.record(lambda: note_steps("run_1", "own_x", changes, at)) is None
    sound(bench)


async def test_the_run_of_a_step_has_the_last_word_in_t1(bench: Bench) -> None:
    at, me = bench.clock.now(), bench.me
    await made(bench)
    await bench.record(lambda: ask_stop("run_1", "me", at))
    assert await t1(bench, a_step(bench, "a")) == RunSaysNo("stopped")
    assert isinstance(await t1(bench, a_step(bench, "r", effect="read")), Dispatched)
    await bench.record(lambda: take_up("run_1", by="me", scopes="[]", grant_expires_at=at + SECOND, at=at))
    assert isinstance(await t1(bench, a_step(bench, "a")), Dispatched)
    bench.clock.pass_(1)
    assert await t1(bench, a_step(bench, "b")) == RunSaysNo("authority")
    await made(bench, "run_2", deadline_at=bench.clock.now())
    assert await t1(bench, a_step(bench, "a", run_id="run_2")) == RunSaysNo("deadline")
    await made(bench, "run_3")
    await bench.record(lambda: ask_cancel("run_3", "me", "", at))
    assert await t1(bench, a_step(bench, "a", run_id="run_3", effect="read")) == RunSaysNo("cancelled")
    await made(bench, "run_4")
    await bench.record(lambda: release_run("run_4", me, at))
    assert await t1(bench, a_step(bench, "a", run_id="run_4")) == RunSaysNo("moved")


async def test_a_step_has_one_call(bench: Bench) -> None:
    await made(bench)
    await sent(bench, "a", item=0)
    await sent(bench, "a", item=1)
    with pytest.raises(sqlite3.IntegrityError):
        await sent(bench, "a", item=1)


async def test_an_unresolved_call_holds_up_other_runs_and_not_its_own(bench: Bench) -> None:
    await made(bench)
    await made(bench, "run_2")
    lost = await sent(bench, "a")
    await settled(bench, lost, LOST)
    assert isinstance(await t1(bench, a_step(bench, "b")), Dispatched)
    held = await t1(bench, a_step(bench, "a", run_id="run_2"))
    assert isinstance(held, Unresolved)
    at, me = bench.clock.now(), bench.me
    why = Parked("awaiting_reconciliation", waits_for=held.row.call_id)
    assert isinstance(await bench.record(lambda: park("run_2", me, why, at)), RunRow)
    row = await bench.row_of(lost.call_id)
    done = await bench.record(lambda: resolve(row.call_id, row.revision, replace(SUCCESS, at=at, by="person")))
    assert done is not None
    assert await wakes(bench) == ["run_1", "run_2"]  # its own run learns of it too
    sound(bench)


async def test_a_step_of_a_lost_owner_is_unknown_or_goes_on_and_its_run_is_woken(bench: Bench) -> None:
    other, at = await bench.another_owner(), bench.clock.now()
    await made(bench, driven=False)
    await bench.record(lambda: claim_run("run_1", other, at))
    begun = await t1(bench, a_step(bench, "a"), bench.attempt(other))
    again = await t1(bench, a_step(bench, "b"), bench.attempt(other))
    assert isinstance(begun, Dispatched)
    assert isinstance(again, Dispatched)
    unsent = replace(UNSENT, at=at)
    await bench.record(lambda: settle(again.row.call_id, 1, unsent, retry_at=at))
    assert await wakes(bench) == []
    await bench.lapse(other)
    lost = await bench.record(lambda: take_over(begun.row.call_id, bench.me, at))
    queued = await bench.record(lambda: take_over(again.row.call_id, bench.me, at))
    assert lost is not None
    assert queued is not None
    assert (lost.row.state, queued.row.state) == ("awaiting_reconciliation", "queued")
    assert await wakes(bench) == ["run_1"]
    sound(bench)


async def test_a_decision_about_a_step_wakes_its_run(bench: Bench) -> None:
    await made(bench)
    at = bench.clock.now()
    row = a_step(bench, "a")
    approval, sealed, who = bench.approval(row), bench.sealed(row), bench.who(row, direct=False, run_id="run_1")
    owner_id = bench.me
    made_ = await bench.record(
        lambda: propose([Waiter(row, approval.digest, who, sealed)], approval, pending_max=9, owner_id=owner_id)
    )
    assert isinstance(made_, Proposed)
    assert await wakes(bench) == []
    said = Decision(approve=True, by="os:me", strength="same_user", via="cli", at=at)
    await bench.record(lambda: decide(approval.approval_id, said))
    assert await wakes(bench) == ["run_1"]
    await bench.record(lambda: ask_cancel("run_1", "me", "", at))
    other = a_step(bench, "b")
    asked = bench.approval(other)
    waiter = Waiter(other, asked.digest, who, bench.sealed(other))
    stopped = await bench.record(lambda: propose([waiter], asked, pending_max=9, owner_id=owner_id))
    assert stopped == Hindered(other.call_id, RunSaysNo("cancelled"))
    sound(bench)


async def test_a_run_that_goes_on_anyhow_keeps_the_authority_that_it_has(bench: Bench) -> None:
    await made(bench, scopes='["a"]')
    at, me = bench.clock.now(), bench.me
    again = partial(take_up, "run_1", by="me", scopes="[]", grant_expires_at=at + 2 * HOUR)
    await bench.record(lambda: again(at=at))
    assert (await run_now(bench)).scopes == '["a"]'
    await bench.record(lambda: again(at=at + HOUR))
    assert (await run_now(bench)).scopes == "[]"
    assert isinstance(await bench.record(lambda: park("run_1", me, Parked("queued", "stopped"), at)), Woken)
    await bench.record(lambda: park("run_1", me, Parked("queued", "stopped"), at))
    await bench.record(lambda: take_up("run_1", by="me", scopes='["b"]', grant_expires_at=at + 3 * HOUR, at=at))
    assert (await run_now(bench)).scopes == '["b"]'


async def test_a_parked_run_goes_on_at_its_time(bench: Bench) -> None:
    await made(bench)
    at, me = bench.clock.now(), bench.me
    await bench.record(lambda: park("run_1", me, Parked("queued", "budget", due_at=at + 5), at))
    assert await bench.record(lambda: list_due_runs(at + 4)) == []
    assert await bench.record(lambda: list_due_runs(at + 5)) == ["run_1"]


async def test_a_chain_that_goes_on_where_its_run_says_it_ends_closes_that_run(bench: Bench) -> None:
    await made(bench)
    first = await sent(bench, "a")
    with closing(sqlite3.connect(bench.ledger.path)) as hand:
        hand.execute("UPDATE runs SET seq = seq - 1 WHERE run_id = 'run_1'")
        hand.commit()
    with pytest.raises(DamagedChainError):
        await settled(bench, first)
    assert not verify_database(bench.ledger.path).ok


async def test_no_number_of_runs_that_stay_where_they_are_hides_another_one(bench: Bench) -> None:
    """A process that lacks the tools of the first ones would else never see the rest."""
    at, other = bench.clock.now(), await bench.another_owner()
    names = [f"run_{number:04}" for number in range(2 * PAGE + 2)]
    due, orphans = names[::2], names[1::2]
    for name in names:
        run = a_run(bench, name, due_at=at if name in due else None)
        owner_id = other if name in orphans else None
        await bench.record(partial(create_run, run, None, (), owner_id=owner_id))
    await bench.lapse(other)
    first = await bench.record(lambda: list_due_runs(at))
    rest = await bench.record(lambda: list_due_runs(at, first[-1]))
    assert (first + rest, len(first)) == (due, PAGE)
    first = await bench.record(list_orphan_runs)
    rest = await bench.record(lambda: list_orphan_runs(first[-1]))
    assert (first + rest, len(first)) == (orphans, PAGE)
