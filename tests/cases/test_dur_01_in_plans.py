"""DUR-01 within a plan: of a server killed in the second of three steps, 'never sent' and 'unknown' are told apart."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.kit.chains import MODULES, View, becomes, of, plan, states, step, until
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
NAMES = ("s1", "s2", "s3")


def three(second: str = "chain_write_on") -> View:
    """Three steps, one behind the other."""
    args = {"ref": "s2"} | ({"on": "o2"} if second == "chain_write_on" else {})
    return plan(
        step("s1", "chain_write_on", {"ref": "s1", "on": "o1"}),
        step("s2", second, args, after=["s1"]),
        step("s3", "chain_write_on", {"ref": "s3", "on": "o3"}, after=["s2"]),
    )


async def killed_in_the_second_step(shop: Workshop, document: View, mark: str) -> str:
    """Run it in a server that is killed when the second step came as far as `mark`; the run's id."""
    shop.configure(head={"python": MODULES})
    async with shop.serve() as served:
        run_id: str = (await served.base("run", plan=document, wait_s=0))["run_id"]
        await shop.world.reached("s2", mark)
        await served.kill()
    assert counts(shop)[0] == 1
    return run_id


def counts(shop: Workshop) -> list[int]:
    return [shop.world.count(name) for name in NAMES]


@pytest.mark.promise("DUR-01")
async def test_a_step_killed_before_its_dispatch_was_recorded_was_never_sent_and_the_run_goes_on_by_itself(
    shop: Workshop,
) -> None:
    shop.configure(head={"python": MODULES})
    shop.world.arm("s1", hold="before")
    async with shop.serve() as served:
        run_id = (await served.base("run", plan=three(), wait_s=0))["run_id"]
        await shop.world.reached("s1", "asked")
        shop.world.arm("o2", dies="before its dispatch")
        shop.world.release("s1")
        await served.ended()
    shop.world.arm("o2", dies=None)
    assert counts(shop) == [1, 0, 0]
    assert [row["step"] for row in shop.book.calls("dispatched_at IS NOT NULL")] == ["s1"]
    async with shop.serve() as served:
        view = await becomes(served.base, run_id)
        assert (view["status"], view["unresolved"]) == ("succeeded", [])
    assert counts(shop) == [1, 1, 1]


@pytest.mark.promise("DUR-01")
@pytest.mark.parametrize(
    ("hold", "mark", "effects", "word"),
    [
        pytest.param("before", "asked", 0, ("not_happened", "--then", "retry"), id="before the effect"),
        pytest.param("after", "done", 1, ("happened",), id="after the effect"),
    ],
)
async def test_a_step_killed_after_its_dispatch_is_unknown_and_parks_its_run_until_a_person_decides(
    shop: Workshop, hold: str, mark: str, effects: int, word: tuple[str, ...]
) -> None:
    shop.world.arm("s2", hold=hold)
    run_id = await killed_in_the_second_step(shop, three(), mark)
    shop.world.release("s2")
    async with shop.serve() as served:
        view = await becomes(served.base, run_id, "awaiting_reconciliation")
        assert states(view) == {"s1": "succeeded", "s2": "awaiting_reconciliation", "s3": "waiting"}
        (lost,) = view["unresolved"]
        assert (lost["step"], lost["call_id"]) == ("s2", of(view, "s2")["call_id"])
        listed = await served.base("status")
        assert [one["call_id"] for one in listed["unresolved"]] == [lost["call_id"]]
        taken = await served.base("run", run_id=run_id, wait_s=1)
        assert taken["status"] in {"running", "awaiting_reconciliation"}
        await served.base("reconcile", run_id=run_id)
        await becomes(served.base, run_id, "awaiting_reconciliation")
        assert counts(shop) == [1, effects, 0]
    before = shop.book.rows("SELECT state, outcome, attempts FROM calls ORDER BY call_id")
    async with shop.serve() as served:
        await becomes(served.base, run_id, "awaiting_reconciliation")
        assert shop.book.rows("SELECT state, outcome, attempts FROM calls ORDER BY call_id") == before
        said = await shop.command("reconcile", lost["call_id"], "--resolution", *word, "--evidence", "looked into W")
        assert said.code in {0, 3}, said.stderr
        done = await becomes(served.base, run_id)
        assert (done["status"], done["unresolved"]) == ("succeeded", [])
    assert counts(shop) == [1, 1, 1]
    verified = await shop.command("ledger", "verify")
    assert (verified.code, verified.answer["problems"]) == (0, [])


@pytest.mark.promise("DUR-01")
@pytest.mark.parametrize("second", ["kit_write_idem", "kit_write_query"])
async def test_a_killed_step_that_a_key_or_a_probe_can_settle_is_settled_by_the_restart_which_goes_on(
    shop: Workshop, second: str
) -> None:
    shop.world.arm("s2", hold="after")
    run_id = await killed_in_the_second_step(shop, three(second), "done")
    shop.world.release("s2")
    async with shop.serve() as served:
        view = await becomes(served.base, run_id)
        assert (view["status"], view["unresolved"]) == ("succeeded", [])
        assert view["outputs"]["s2"]["ref"] == "s2"
    assert counts(shop) == [1, 1, 1]


@pytest.mark.promise("OPS-03")
async def test_a_client_that_comes_back_after_a_kill_finds_its_run_by_its_plan_and_nothing_runs_twice(
    shop: Workshop,
) -> None:
    shop.configure(head={"python": MODULES})
    shop.world.arm("s3", hold="before")
    async with shop.serve() as served:
        plan_id = (await served.base("plan", three("kit_write_idem")))["plan_id"]
        asking = asyncio.create_task(served.base("run", plan_id=plan_id))
        await shop.world.reached("s3", "asked")
        await served.kill()
        asking.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await asking
    shop.world.release("s3")
    async with shop.serve() as served:
        again = await served.base("run", plan_id=plan_id, wait_s=0)
        assert again["replayed"]
        view = await until(served.base, again["run_id"], lambda one: states(one)["s3"] == "awaiting_reconciliation")
        assert [one["run_id"] for one in (await served.base("status"))["runs"]] == [view["run_id"]]
    assert counts(shop) == [1, 1, 0]
    assert len(shop.book.rows("SELECT * FROM runs")) == 1
