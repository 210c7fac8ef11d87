"""DAG-05: an undo that fails is never called a rollback, is tried again by `reconcile` alone, and not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.chains import View, becomes, chained, plan, ran, settle, step, until
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


def undo(ref: str, tool: str = "kit_write") -> View:
    return {"compensate": {"tool": tool, "args": {"ref": f"undo {ref}"}}}


def chain(tool: str = "kit_write", **more: Any) -> View:
    return plan(
        step("s1", "kit_write", {"ref": "s1"}, **undo("s1")),
        step("s2", "kit_write", {"ref": "s2"}, after=["s1"], **undo("s2", tool)),
        step("s3", "kit_write", {"ref": "s3"}, after=["s2"]),
        on_failure="compensate",
        **more,
    )


def fates(view: View) -> dict[str, str]:
    return {one["step"]: one["state"] for one in view["compensations"]}


def counts(shop: Workshop) -> list[int]:
    return [shop.world.count(ref) for ref in ("s1", "s2", "undo s2", "undo s1")]


@pytest.mark.promise("DAG-05")
async def test_a_failed_undo_is_incomplete_and_only_it_is_tried_again(shop: Workshop) -> None:
    shop.world.arm("s3", refuse="no")
    shop.world.arm("undo s2", refuse="the desk is closed")
    async with chained(shop) as (at, ask):
        view = await ran(ask, chain())
        assert (view["status"], view["compensation"]) == ("failed", "incomplete")
        assert fates(view) == {"s2": "not_undone", "s1": "undone"}
        bad = view["compensations"][0]
        assert (bad["arguments"]["ref"], bad["error"]["message"]) == ("undo s2", "the desk is closed")
        assert "reconcile" in bad["reason"]
        assert view["next"]["tool"] == "reconcile"
        assert counts(shop) == [1, 1, 0, 1]
        at.world.disarm("undo s2")
        await ask("reconcile", run_id=view["run_id"])
        view = await until(ask, view["run_id"], lambda now: bool(now["compensation"] == "complete"))
        assert (view["status"], fates(view)) == ("failed", {"s2": "undone", "s1": "undone"})
    assert counts(shop) == [1, 1, 1, 1]


@pytest.mark.promise("DAG-05")
async def test_an_undo_that_raises_is_unknown_and_a_person_says_what_became_of_it(shop: Workshop) -> None:
    shop.world.arm("s3", refuse="no")
    shop.world.arm("undo s2", drop="after")
    async with chained(shop) as (at, ask):
        view = await ran(ask, chain())
        assert (view["status"], view["compensation"]) == ("failed", "incomplete")
        assert fates(view) == {"s2": "awaiting_reconciliation", "s1": "undone"}
        for _ in range(2):
            view = await ask("reconcile", run_id=view["run_id"])
        [unknown] = view["unresolved"]
        assert (unknown["step"], view["compensation"], counts(shop)) == ("s2", "incomplete", [1, 1, 1, 1])
        await settle(at.app, unknown["call_id"], "happened")
        view = await until(ask, view["run_id"], lambda now: bool(now["compensation"] == "complete"))
        assert (view["status"], view["unresolved"], fates(view)["s2"]) == ("failed", [], "undone")
    assert counts(shop) == [1, 1, 1, 1]


@pytest.mark.promise("DAG-05")
async def test_an_undo_under_a_key_that_raised_is_sent_again_by_reconcile_and_has_one_effect(shop: Workshop) -> None:
    shop.world.arm("s3", refuse="no")
    shop.world.arm("undo s2", drop="after")
    async with chained(shop) as (at, ask):
        view = await ran(ask, chain("kit_write_idem"))
        assert fates(view) == {"s2": "awaiting_reconciliation", "s1": "undone"}
        at.world.disarm("undo s2")
        await ask("reconcile", run_id=view["run_id"])
        view = await until(ask, view["run_id"], lambda now: bool(now["compensation"] == "complete"))
        assert fates(view) == {"s2": "undone", "s1": "undone"}
    assert counts(shop) == [1, 1, 1, 1]


@pytest.mark.promise("DAG-05")
async def test_attempts_of_an_undo_are_bounded(shop: Workshop) -> None:
    shop.world.arm("s3", refuse="no")
    shop.world.arm("undo s2", refuse="never")
    async with chained(shop) as (_, ask):
        view = await ran(ask, chain())
        for _ in range(8):
            await ask("reconcile", run_id=view["run_id"])
            view = await becomes(ask, view["run_id"])
        assert view["compensation"] == "incomplete"
        assert view["compensations"][0]["attempts"] == shop.world.marks("undo s2").count("asked") == 5


@pytest.mark.promise("DAG-05")
async def test_a_strict_plan_undoes_nothing_further_after_a_failed_undo(shop: Workshop) -> None:
    shop.world.arm("s3", refuse="no")
    shop.world.arm("undo s2", refuse="the desk is closed")
    document = chain(compensation="strict")
    document["steps"][2]["compensate"] = "none"
    async with chained(shop) as (at, ask):
        view = await ran(ask, document, "awaiting_reconciliation")
        assert (view["reason"], view["compensation"], fates(view)) == (
            "strict", "incomplete", {"s2": "not_undone", "s1": "waiting"},
        )  # fmt: skip
        assert counts(shop) == [1, 1, 0, 0]
        at.world.disarm("undo s2")
        await ask("reconcile", run_id=view["run_id"])
        view = await becomes(ask, view["run_id"])
        assert (view["status"], view["compensation"]) == ("failed", "complete")
    assert counts(shop) == [1, 1, 1, 1]
