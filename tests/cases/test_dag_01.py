"""DAG-01: a step that fails, is rejected or is skipped ends what hangs on it at once, by name, and nothing else."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.kit.bench import Bench
from tests.kit.chains import LIMIT_S, Ask, View, becomes, chained, decide, of, plan, started, states, step, until
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
SOON_S = 5.0
CAUSE = re.compile(r"\bbad\b")
A = step("a", "kit_write", {"ref": "a"})
C = step("c", "kit_write", {"ref": "c"}, after=["a"])
D = step("d", "kit_write", {"ref": "d"}, after=["b"])
FAILS = step("b", "kit_write", {"ref": "b"}, after=["a"])
ASKS = step("b", "kit_delete", {"ref": "b"}, after=["a"])
SKIPPED = step("b", "kit_write", {"ref": "b"}, when={"ref": "${a.number}", "eq": -1})


async def rejected_where_asked(at: Bench, ask: Ask, run_id: str, b: str) -> None:
    """Let the person say no, if anybody is asked."""
    if b == "rejected":
        await decide(at.app, await until(ask, run_id, lambda view: bool(view["pending"])), "b", "reject")


async def no_more_than(tasks: int) -> None:
    """Wait until the loop has no more tasks than before."""
    async with asyncio.timeout(LIMIT_S):
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.01)


@pytest.mark.promise("DAG-01")
@pytest.mark.parametrize(
    ("second", "b", "status"),
    [
        pytest.param(FAILS, "failed", "failed", id="fails"),
        pytest.param(ASKS, "rejected", "failed", id="is rejected"),
        pytest.param(SKIPPED, "skipped", "succeeded", id="is skipped by its condition"),
    ],
)
async def test_what_hangs_on_a_step_that_did_not_succeed_is_not_run_because_of_it_and_the_run_ends(
    shop: Workshop, second: View, b: str, status: str
) -> None:
    shop.world.arm("b", refuse="out of stock")
    shop.world.arm("c", hold="before")
    async with chained(shop) as (at, ask):
        await ask("status")
        before = len(asyncio.all_tasks())
        run_id = (await started(ask, plan(A, second, C, D)))["run_id"]
        await rejected_where_asked(at, ask, run_id, b)
        early = await until(ask, run_id, lambda view: states(view)["d"] == "not_run")
        assert early["status"] == "running"
        assert states(early) == {"a": "succeeded", "b": b, "c": "running", "d": "not_run"}
        at.world.release("c")
        view = await becomes(ask, run_id, limit_s=SOON_S)
        assert (view["status"], states(view)) == (status, {"a": "succeeded", "b": b, "c": "succeeded", "d": "not_run"})
        assert "b" in of(view, "d")["reason"]
        await no_more_than(before)
        assert shop.book.rows("SELECT owner_id FROM runs") == [{"owner_id": None}]
        assert shop.book.rows("SELECT * FROM outbox") == []
        again = await ask("status", run_id=run_id, wait_s=0)
        assert (again["version"], again["events"][-1]["type"]) == (view["version"], "run_finished")
    assert [at.world.count(ref) for ref in "abcd"] == [1, 0, 1, 0]


@pytest.mark.promise("DAG-01")
async def test_the_cause_is_named_through_every_generation_and_by_every_parent_that_failed(shop: Workshop) -> None:
    shop.world.arm("bad", refuse="no")
    document = plan(
        step("bad", "kit_write", {"ref": "bad"}),
        step("ok", "kit_write", {"ref": "ok"}),
        step("b", "kit_write", {"ref": "b"}, after=["bad", "ok"]),
        step("c", "kit_echo", {"value": "${b.number}"}),
        step("d", "kit_write", {"ref": "d"}, after=["c"]),
    )
    async with chained(shop) as (_, ask):
        view = await becomes(ask, (await started(ask, document))["run_id"])
    assert view["status"] == "failed"
    assert states(view) == {"bad": "failed", "ok": "succeeded", "b": "not_run", "c": "not_run", "d": "not_run"}
    for name in "bcd":
        assert CAUSE.search(of(view, name)["reason"]), of(view, name)
    assert [shop.world.count(ref) for ref in ("b", "d", "ok")] == [0, 0, 1]


@pytest.mark.promise("DAG-01")
async def test_a_failure_under_compensate_undoes_what_was_done_before_it(shop: Workshop) -> None:
    shop.world.arm("b", refuse="no")
    document = plan(
        step("a", "scoped_write", {"ref": "a"}),
        step("b", "kit_write", {"ref": "b"}, after=["a"]),
        step("c", "kit_write", {"ref": "c"}, after=["b"]),
        on_failure="compensate",
    )
    async with chained(shop) as (_, ask):
        view = await becomes(ask, (await started(ask, document))["run_id"])
    assert (view["status"], view["compensation"]) == ("failed", "complete")
    assert [(one["step"], one["state"]) for one in view["compensations"]] == [("a", "undone")]
    assert shop.world.effects("a") == [{}, {"undone": True}]
    assert shop.world.count("c") == 0


@pytest.mark.promise("DAG-01")
@pytest.mark.parametrize(("on_failure", "goes_on"), [("stop", True), ("compensate", False)])
async def test_after_a_failure_other_branches_go_on_unless_all_is_to_be_undone(
    shop: Workshop, on_failure: str, *, goes_on: bool
) -> None:
    shop.world.arm("bad", refuse="no")
    shop.world.arm("other", hold="before")
    document = plan(
        step("bad", "kit_write", {"ref": "bad"}),
        step("other", "kit_rmw", {"ref": "other"}),
        step("write", "kit_write", {"ref": "write"}, after=["other"]),
        on_failure=on_failure,
    )
    async with chained(shop) as (at, ask):
        run_id = (await started(ask, document))["run_id"]
        await at.world.reached("other", "asked")
        early = await until(ask, run_id, lambda view: states(view)["bad"] == "failed")
        assert (early["status"], states(early)["other"]) == ("running", "running")
        at.world.release("other")
        done = await becomes(ask, run_id)
        assert (done["status"], states(done)["other"]) == ("failed", "succeeded")
        assert states(done)["write"] == ("succeeded" if goes_on else "not_run")
        assert (at.world.count("other"), at.world.count("write")) == (1, int(goes_on))
