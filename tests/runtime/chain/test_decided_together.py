"""The items of a `for_each` that need a person: one proposal for all of them, and each takes its place in it once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.ledger.approving import Decision, decide
from counterfoil.ledger.queries import PENDING
from counterfoil.ledger.run_rows import RunRow
from counterfoil.runtime.views import CallView
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import CAROL, LIMIT_S, Runs, step
from tests.runtime.hands import Stage

pytestmark = pytest.mark.anyio


def ended(row: RunRow) -> bool:
    return row.finished_at is not None


async def waiting(runs: Runs, *refs: str) -> str:
    row, states = await runs.end(
        step("pay", "refund", for_each="${input.refs}", args={"ref": "${item}"}), input={"refs": [*refs]}
    )
    assert (row.status, states) == ("awaiting_approval", {"pay": "awaiting_approval"})
    return row.run_id


async def the_proposal(runs: Runs) -> dict[str, Any]:
    (pending,) = await runs.app.runtime.approvals()
    shown: dict[str, Any] = pending.wire()
    return shown


async def test_one_proposal_shows_all_items_and_one_decision_sends_each_once(runs: Runs, stage: Stage) -> None:
    run_id = await waiting(runs, "x", "y", "z")
    shown = await the_proposal(runs)
    assert (shown["call_id"], shown["run_id"], shown["step"]) == (None, run_id, "pay")
    assert [arguments["ref"] for arguments in shown["arguments"]] == ["x", "y", "z"]
    assert [(item["n"], item["state"]) for item in shown["items"]] == [(n, "awaiting_approval") for n in range(3)]
    await runs.decide(run_id, "pay", item=1)
    assert (await runs.rest(run_id)).status == "succeeded"
    assert sorted(stage.effects) == [("refund", "x"), ("refund", "y"), ("refund", "z")]
    after: dict[str, Any] = (await runs.app.runtime.approval(shown["approval_id"])).wire()
    assert (after["state"], {item["state"] for item in after["items"]}) == ("consumed", {"settled"})


async def test_however_many_items_there_are_they_are_one_undecided_proposal(runs: Runs) -> None:
    run_id = await waiting(runs, *(f"r{n}" for n in range(40)))  # pending_max is 20
    view: dict[str, Any] = (await runs.app.runtime.status(runs.app.local, run_id=run_id)).wire()
    (pending,) = view["pending"]
    assert (pending["step"], len(pending["arguments"])) == ("pay", 40)


async def test_one_no_rejects_them_all(runs: Runs, stage: Stage) -> None:
    run_id = await waiting(runs, "x", "y")
    await runs.decide(run_id, "pay", "reject", item=0)
    row = await runs.rest(run_id)
    assert (row.status, await runs.states(run_id), stage.calls) == ("failed", {"pay": "rejected"}, [])


async def test_items_that_were_not_sent_in_the_window_get_one_fresh_proposal(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    run_id = await waiting(runs, "x", "y")
    first, ledger = await the_proposal(runs), runs.app.ledger
    said = Decision(approve=True, by="os:carol", strength="same_user", via="cli", at=clock.now())
    await ledger.record(lambda: decide(first["approval_id"], said))  # by another process, and no server is up
    clock.pass_(901)
    runs.app.runtime.driver.wake(run_id)
    async with asyncio.timeout(LIMIT_S):
        while not await ledger.reads.fetch(PENDING):
            await asyncio.sleep(0.01)
    assert ((await runs.rest(run_id)).status, stage.calls) == ("awaiting_approval", [])
    fresh = await the_proposal(runs)
    assert (fresh["approval_id"] != first["approval_id"], len(fresh["items"])) == (True, 2)
    old = (await runs.app.runtime.approval(first["approval_id"])).wire()
    assert (old["state"], old["superseded_by"]) == ("superseded", fresh["approval_id"])
    await runs.decide(run_id, "pay", item=0)
    assert ((await runs.rest(run_id)).status, stage.count("refund")) == ("succeeded", 2)


async def test_an_item_that_was_cancelled_meanwhile_is_not_sent_and_the_others_are(runs: Runs, stage: Stage) -> None:
    run_id = await waiting(runs, "x", "y")
    gone = await runs.call(run_id, "pay", 0)
    assert isinstance(await runs.app.runtime.cancel(runs.app.local, call_id=gone.call_id), CallView)
    await runs.decide(run_id, "pay", item=1)
    await runs.until(run_id, ended)
    assert stage.effects == [("refund", "y")]


async def test_a_proposal_that_is_taken_back_rejects_its_items(runs: Runs, stage: Stage) -> None:
    run_id = await waiting(runs, "x", "y")
    shown = await the_proposal(runs)
    done = (await runs.app.runtime.revoke(shown["approval_id"], decider=CAROL)).wire()
    assert done["state"] == "revoked"
    assert (await runs.until(run_id, ended)).status == "failed"
    assert (await runs.states(run_id), stage.calls) == ({"pay": "rejected"}, [])
    assert await runs.app.ledger.reads.fetch(PENDING) == []
    again = await runs.app.runtime.revoke(shown["approval_id"], decider=CAROL)
    assert again.error is not None
