"""DUR-07 for runs: one damaged event row closes its run, says which row it is, and takes down nothing else."""

from __future__ import annotations

import pytest

from tests.kit.chains import becomes, chained, decide, plan, ran, step
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
ASKS = plan(step("a", "kit_write", {"ref": "a"}), step("d", "kit_delete", {"ref": "d"}, after=["a"]))
DAMAGE = "UPDATE events SET body = substr(body, 1, 40) WHERE run_id = ? AND seq = ?"


@pytest.mark.promise("DUR-07")
async def test_a_damaged_row_closes_its_run_and_no_other(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        runs = [(await ran(ask, ASKS, "awaiting_approval", request_key=f"k{n}"))["run_id"] for n in range(3)]
        done = (await ran(ask, plan(step("a", "kit_write", {"ref": "done"}))))["run_id"]
        bad, sound, last = runs
    assert shop.book.change(DAMAGE, bad, 2) == 1
    async with chained(shop) as (at, ask):
        for tool in ("status", "run", "cancel", "reconcile", "confirm"):
            view = await ask(tool, run_id=bad)
            assert view.get("error") is not None, (tool, view)
            assert bad in view["error"]["message"], (tool, view)
            assert "event 2" in view["error"]["message"], (tool, view)
        again = await ask("run", plan=ASKS, request_key="k0", wait_s=0)
        assert again.get("error") is not None
        for run_id in (sound, last):
            await decide(at.app, await becomes(ask, run_id, "awaiting_approval"), "d", "approve")
            assert (await becomes(ask, run_id))["status"] == "succeeded"
        assert (await ask("status", run_id=done, wait_s=0))["status"] == "succeeded"
        assert (await ran(ask, plan(step("n", "kit_write", {"ref": "new"}))))["status"] == "succeeded"
        assert (at.world.count("d"), at.world.count("a")) == (2, 3)
    said = await shop.command("ledger", "verify")
    assert (said.code, [(one["run_id"], one["seq"]) for one in said.answer["problems"]]) == (1, [(bad, 2)])
