"""DAG-06: before anything is undone it is known what happened; what did not happen is not undone, what did is."""

from __future__ import annotations

import pytest

from tests.kit.chains import View, becomes, chained, plan, ran, settle, step, until
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


def undo(ref: str) -> View:
    return {"compensate": {"tool": "kit_write", "args": {"ref": f"undo {ref}"}}}


def chain(second: str) -> View:
    """S2 does not answer; S3 hangs on it; beside them something fails, so that all is to be undone."""
    return plan(
        step("s1", "kit_write_on", {"ref": "s1"}, **undo("s1")),
        step("s2", second, {"ref": "s2"}, after=["s1"], **undo("s2")),
        step("s3", "kit_write", {"ref": "s3"}, after=["s2"]),
        step("bad", "kit_write", {"ref": "bad"}, after=["s1"]),
        on_failure="compensate",
    )


def undone(shop: Workshop) -> dict[str, int]:
    return {ref: shop.world.count(f"undo {ref}") for ref in ("s1", "s2")}


@pytest.mark.promise("DAG-06")
async def test_an_effect_that_the_far_side_has_is_undone_before_what_came_before_it(shop: Workshop) -> None:
    shop.world.arm("bad", refuse="no")
    shop.world.arm("s2", drop="after")
    async with chained(shop) as (_, ask):
        view = await ran(ask, chain("kit_write_query"))
        assert (view["status"], view["compensation"]) == ("failed", "complete")
        assert [(one["step"], one["state"]) for one in view["compensations"]] == [("s2", "undone"), ("s1", "undone")]
    assert undone(shop) == {"s1": 1, "s2": 1}
    assert (shop.world.count("s2"), shop.world.count("s3")) == (1, 0)


@pytest.mark.promise("DAG-06")
@pytest.mark.parametrize(("word", "second"), [("not_happened", 0), ("happened", 1)])
async def test_without_a_probe_nothing_is_undone_until_a_person_has_said_what_happened(
    shop: Workshop, word: str, second: int
) -> None:
    shop.world.arm("bad", refuse="no")
    shop.world.arm("s2", drop="after" if second else "before")
    async with chained(shop) as (at, ask):
        view = await ran(ask, chain("kit_write"), "awaiting_reconciliation")
        assert (view["compensation"], undone(shop)) == ("running", {"s1": 0, "s2": 0})
        [unknown] = view["unresolved"]
        again = await ask("reconcile", run_id=view["run_id"])
        assert (again["status"], undone(shop)) == ("awaiting_reconciliation", {"s1": 0, "s2": 0})
    async with chained(shop) as (at, ask):  # whoever sent it is gone: now a person can say that it did not happen
        said = await settle(at.app, unknown["call_id"], word, "fail" if word == "not_happened" else None)
        assert said["state"] == "settled", said
        view = await becomes(ask, view["run_id"])
        assert (view["status"], view["compensation"]) == ("failed", "complete")
    assert undone(shop) == {"s1": 1, "s2": second}
    assert shop.world.count("s3") == 0


@pytest.mark.promise("DAG-06")
async def test_what_the_far_side_does_not_have_is_not_undone_and_not_done_either(shop: Workshop) -> None:
    """The probe finds nothing, which is not enough for certain: a person says so, and then only S1 is undone."""
    shop.world.arm("bad", refuse="no")
    shop.world.arm("s2", drop="before")
    async with chained(shop) as (_, ask):
        view = await ran(ask, chain("kit_write_query"), "awaiting_reconciliation")
        assert (undone(shop), "probed" in shop.world.marks("s2")) == ({"s1": 0, "s2": 0}, True)
    async with chained(shop) as (at, ask):
        await settle(at.app, view["unresolved"][0]["call_id"], "not_happened", "fail")
        view = await until(ask, view["run_id"], lambda now: bool(now["finished_at"]))
        assert (view["status"], view["compensation"]) == ("failed", "complete")
    assert undone(shop) == {"s1": 1, "s2": 0}
    assert shop.world.count("s2") == 0
