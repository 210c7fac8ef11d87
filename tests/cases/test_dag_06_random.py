"""Random plans that fail at random points, before and while they are undone: every effect outside is accounted for.

A person approves nothing here and tells the truth about what nobody knows, after a restart; what the far side then has
is what the run's view says: stands, undone, kept, or unresolved. Nothing is undone that did not happen, or twice.
"""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from tests.kit.chains import Ask, View, becomes, chained, plan, settle, started, step
from tests.kit.run_rules import FINAL, check_run_view
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
SEEDS: Final = range(12)
ROUNDS: Final = 12
TOOLS: Final = ("kit_write", "kit_write_on", "kit_write_idem", "kit_write_query")
TROUBLES: Final[tuple[dict[str, str], ...]] = (
    *[{}] * 4, {"refuse": "no"}, {"drop": "before"}, {"drop": "after"}, {"doubt": "before"}, {"doubt": "after"},
)  # fmt: skip


def document(choose: random.Random) -> View:
    """A few writes in some order, each undone by another write, kept, or without a way to undo it."""
    steps: list[View] = []
    for number in range(choose.randint(2, 6)):
        name = f"s{number}"
        after = [one["id"] for one in steps if choose.random() < 0.5]
        undo: Any = {"tool": choose.choice(TOOLS), "args": {"ref": f"undo {name}"}}
        compensate = choose.choice([undo, undo, undo, "none", "default"])
        steps.append(step(name, choose.choice(TOOLS), {"ref": name}, after=after, compensate=compensate))
    return plan(*steps, on_failure="compensate")


def arm(shop: Workshop, choose: random.Random, document: View) -> None:
    """What goes wrong: one step at least, and maybe undos."""
    names = [one["id"] for one in document["steps"]]
    for name in [*names, *(f"undo {name}" for name in names)]:
        shop.world.arm(name, **choose.choice(TROUBLES))
    shop.world.disarm(names[-1])
    shop.world.arm(names[-1], refuse="no")


def check_accounts(shop: Workshop, document: View, view: View) -> None:
    """What the view says of each effect is what the far side has."""
    check_run_view(view)
    fates = {one["step"]: one["state"] for one in view["compensations"]}
    unresolved = {one["step"] for one in view["unresolved"]}
    if view["status"] == "succeeded":
        assert not fates
    for one in document["steps"]:
        name = one["id"]
        there, undone = shop.world.count(name), shop.world.count(f"undo {name}")
        assert there <= 1, name
        assert undone <= there, f"{name}: undone {undone} times, and it happened {there} times"
        if name in unresolved:
            continue
        assert (name in fates) == bool(there) or view["status"] not in FINAL, (name, there, fates)
        if fates.get(name) == "undone":
            assert undone == 1, name
        if fates.get(name) in {"not_undone", "kept", "waiting"}:
            assert undone == 0, (name, fates[name])


async def told_the_truth(at: Any, shop: Workshop, ask: Ask, view: View) -> View:
    """A person says of everything unknown what the far side has; then what is not undone is tried once more."""
    for one in view["unresolved"]:
        [row] = [row for row in shop.book.calls() if row["call_id"] == one["call_id"]]
        ref = row["step"] if row["route"] == "step" else f"undo {row['step']}"
        happened = bool(shop.world.count(ref))
        said = await settle(
            at.app, one["call_id"], "happened" if happened else "not_happened", None if happened else "fail"
        )
        assert said.get("state") == "settled" or said["error"]["code"] == "version_conflict", said
    await ask("reconcile", run_id=view["run_id"])
    return await becomes(ask, view["run_id"], *FINAL, "awaiting_reconciliation")


@pytest.mark.promise("DAG-06")
@pytest.mark.parametrize("seed", SEEDS)
async def test_every_effect_of_a_random_plan_is_accounted_for(shop: Workshop, seed: int) -> None:
    choose = random.Random(seed)
    planned = document(choose)
    arm(shop, choose, planned)
    async with chained(shop) as (_, ask):
        run_id = (await started(ask, planned))["run_id"]
        view = await becomes(ask, run_id, *FINAL, "awaiting_reconciliation")
        check_accounts(shop, planned, view)
    for one in planned["steps"]:  # the far side is mended: what is sent again under its key gets its answer
        shop.world.disarm(f"undo {one['id']}")
        if one is not planned["steps"][-1]:
            shop.world.disarm(one["id"])
    for _ in range(ROUNDS):
        async with chained(shop) as (at, ask):
            view = await becomes(ask, run_id, *FINAL, "awaiting_reconciliation")
            check_accounts(shop, planned, view)
            known = not view["unresolved"]
            view = await told_the_truth(at, shop, ask, view)
            check_accounts(shop, planned, view)
        if known and not view["unresolved"]:
            break
    check_accounts(shop, planned, view)
    assert (view["status"], view["unresolved"]) == ("failed", []), view
    stands = {one["id"] for one in planned["steps"] if one["compensate"] == "default"}
    lacking = [one for one in view["compensations"] if one["state"] == "not_undone"]
    assert {one["step"] for one in lacking} <= stands, lacking
    assert view["compensation"] == ("incomplete" if lacking else "complete" if view["compensations"] else "none")
