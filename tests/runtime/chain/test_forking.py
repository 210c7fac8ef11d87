"""Forks and what is undone: whose effect is whose. And a process that dies while a fork begins, or goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from counterfoil import Outcome
from counterfoil.ledger.undoing import undo_calls
from counterfoil.registry.request import NOBODY_WAITS, RunRequest
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.chain.mortal import Mortal
from tests.runtime.chain.running import Runs, step
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage

pytestmark = pytest.mark.anyio
LIMIT_S = 20.0
MOST_COMMITS = 40
UNDO = {"on_failure": "compensate"}


def refuse(_: Any) -> Outcome[Any]:
    return Outcome.permanent("no", sent="no")


async def fork(app: App, run_id: str, **more: Any) -> dict[str, Any]:
    view: dict[str, Any] = (await app.runtime.run(RunRequest(app.local, fork_of=run_id, **more))).wire()
    return view


def of(view: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in view["steps"] if one["id"] == name)


def acted(stage: Stage) -> list[tuple[str, str]]:
    return [effect for effect in stage.effects if effect[0] != "peek"]


async def test_what_was_undone_is_done_again_and_what_was_kept_is_not(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(
        step("a", "ship"), step("k", "note", compensate="none"), step("bad", "peek", depends_on=["a", "k"]), **UNDO
    )
    assert (row.status, row.compensation) == ("failed", "complete")
    view = await fork(runs.app, row.run_id)
    assert view["status"] == "succeeded", view
    assert Counter(acted(stage)) == {("ship", "a"): 2, ("unship", "a"): 1, ("note", "k"): 1}
    assert of(view, "a")["call_id"] != (await runs.call(row.run_id, "a")).call_id
    assert of(view, "k")["call_id"] == (await runs.call(row.run_id, "k")).call_id
    runs.sound()


async def test_from_step_at_what_was_undone_is_allowed(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "ship"), step("bad", "peek", depends_on=["a"]), **UNDO)
    view = await fork(runs.app, row.run_id, from_step="a")
    assert (view["status"], Counter(acted(stage))) == ("succeeded", {("ship", "a"): 2, ("unship", "a"): 1})


async def test_a_fork_that_fails_undoes_its_own_effects_and_none_that_it_took_over(runs: Runs, stage: Stage) -> None:
    stage.then("unship", refuse)
    stage.then("peek", refuse, refuse)
    row, _ = await runs.end(
        step("a", "ship"), step("b", "ship", args={"ref": "b ${a.ref}"}, depends_on=["a"], compensate="none"),
        step("bad", "peek", depends_on=["b"]), **UNDO,
    )  # fmt: skip
    assert (row.status, row.compensation) == ("failed", "incomplete")
    before = acted(stage)
    view = await fork(runs.app, row.run_id)
    assert (view["status"], view["compensation"], view["compensations"]) == ("failed", "none", [])
    assert acted(stage) == before == [("ship", "a"), ("ship", "b a")]
    assert await runs.app.ledger.record(lambda: undo_calls(view["run_id"])) == []


async def test_an_undo_in_a_fork_may_ask_what_a_step_that_was_taken_over_gave(runs: Runs, stage: Stage) -> None:
    stage.then("note", lambda _: {"ref": "token"}, refuse, lambda _: {"ref": "made"})
    stage.then("peek", refuse)
    own = {"tool": "note", "args": {"ref": "undo ${w.ref}", "text": "${k.ref}"}}
    row, _ = await runs.end(
        step("k", "note", compensate="none"), step("w", "note", depends_on=["k"], compensate=own),
        step("bad", "peek", depends_on=["w"]), **UNDO,
    )  # fmt: skip
    assert row.status == "failed"
    view = await fork(runs.app, row.run_id)
    assert (view["status"], view["compensation"]) == ("failed", "complete")
    assert [ref for name, ref, *_ in stage.calls if name == "note"] == ["k", "w", "w", "undo made"]


async def test_an_undo_that_was_done_in_part_stands_in_the_way(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    stage.then("unship", lambda _: Outcome.partial({"ref": "half"}, "half of it"))
    row, _ = await runs.end(step("a", "ship"), step("bad", "peek", depends_on=["a"]), **UNDO)
    view = await fork(runs.app, row.run_id)
    assert view["error"]["code"] == "plan_invalid"
    assert any("undone a part" in problem["message"] for problem in view["errors"])


async def test_what_is_undone_while_a_fork_is_made_is_not_taken_over(runs: Runs, stage: Stage) -> None:
    stage.then("unship", refuse)
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "ship"), step("bad", "peek", depends_on=["a"]), **UNDO)
    assert row.compensation == "incomplete"
    ledger, record = runs.app.ledger, runs.app.ledger.record
    forks: list[str] = []

    async def late(make: Any) -> Any:
        if "create_run" in make.__code__.co_names and not forks:
            forks.append("the first look is over")
            await runs.woken(row.run_id)
            await runs.app.runtime.reconcile(runs.app.local, run_id=row.run_id, wait_s=5)
            await runs.idle()
        return await record(make)

    ledger.record = late  # type: ignore[method-assign]  # as if another process did it just now
    view = await fork(runs.app, row.run_id)
    assert forks
    assert (await runs.row(row.run_id)).compensation == "complete"
    assert (view["status"], Counter(acted(stage))) == ("succeeded", {("ship", "a"): 2, ("unship", "a"): 1})
    runs.sound()


PLAN = (
    step("find", "look"),
    step("each", "keyed", for_each=["x", "y"], args={"ref": "${item}"}, depends_on=["find"]),
    step("w", "note", args={"ref": "w ${find.ref}"}),
    step("last", "keyed", depends_on=["each", "w"]),
    step("end", "note", depends_on=["last"]),
)


@pytest.mark.parametrize("made", [True, False])
async def test_a_fork_survives_the_death_of_its_process_at_every_commit_and_repeats_nothing(
    open_: OpenApp, stage: Stage, clock: HandClock, *, made: bool
) -> None:
    app = await open_()
    runs, commits, whole = Runs(app), 0, False
    while not whole:
        commits += 1
        stage.reset()
        stage.then("note", lambda _: None, refuse)
        row, _ = await runs.end(*PLAN[:3], PLAN[3] | {"tool": "note"}, PLAN[4])
        assert row.status == "failed"
        clock.pass_(400)
        first = await open_()
        mortal = Mortal(first, commits, made=made)
        asking, dead = asyncio.ensure_future(fork(first, row.run_id)), asyncio.ensure_future(mortal.dead.wait())
        await asyncio.wait({asking, dead}, return_when=asyncio.FIRST_COMPLETED, timeout=LIMIT_S)
        whole = asking.done()
        asking.cancel(NOBODY_WAITS)
        dead.cancel()
        await asyncio.wait({asking, dead}, timeout=LIMIT_S)
        await mortal.bury(app)
        await app.runtime.driver.sweep()
        view = await fork(app, row.run_id)
        if view["status"] == "awaiting_reconciliation":
            (unknown,) = view["unresolved"]
            happened = ("note", unknown["step"]) in stage.effects  # what the far side's books have
            word, then = ("happened", "fail") if happened else ("not_happened", "retry")
            await runs.say(view["run_id"], unknown["step"], word, then=then)
            view = await fork(app, row.run_id)
        assert view["status"] == "succeeded", (commits, view)
        assert view["parent_run_id"] == row.run_id
        assert Counter((name, ref) for name, ref in stage.effects if name != "look") == {
            ("keyed", "x"): 1, ("keyed", "y"): 1, ("note", "w find"): 1, ("note", "last"): 1, ("note", "end"): 1,
        }, commits  # fmt: skip
        kept = {(name, ref) for name, ref, _, _ in stage.calls if ref in {"x", "y", "w find"}}
        assert Counter(called[:2] for called in stage.calls if called[:2] in kept) == dict.fromkeys(kept, 1)
        runs.sound()
    assert 4 < commits < MOST_COMMITS
