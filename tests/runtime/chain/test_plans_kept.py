"""Plans in memory: read once, and bounded by their steps."""

from __future__ import annotations

import pytest

from counterfoil.ledger.run_rows import PlanRow
from counterfoil.runtime.chain.plans import STEPS_KEPT, Plans, StoredPlan
from counterfoil.runtime.plan.stored import from_stored
from counterfoil.server.app import App

pytestmark = pytest.mark.anyio


def stored(name: str, steps: int) -> StoredPlan:
    """A plan that says it has so many steps."""
    plan = from_stored(
        {
            "goal": "",
            "steps": [],
            "edges": [],
            "input": {},
            "on_failure": "stop",
            "compensation": "best_effort",
            "budget": {},
        }
    )
    return StoredPlan(PlanRow(name, "t", "s", "", "", "", "", steps, 0), plan)


async def test_the_plans_used_last_stay_while_their_steps_are_few(app: App) -> None:
    plans = Plans(app.ledger)
    for name, steps in (("a", STEPS_KEPT // 2), ("b", STEPS_KEPT // 2)):
        plans.keep(stored(name, steps))
    assert await plans.find("a") is not None
    plans.keep(stored("c", 1))
    assert [await plans.find(name) is not None for name in "abc"] == [True, False, True]


async def test_one_that_is_larger_than_all_may_be_stays_alone(app: App) -> None:
    plans = Plans(app.ledger)
    plans.keep(stored("a", 1))
    plans.keep(stored("b", STEPS_KEPT + 1))
    assert [await plans.find(name) is not None for name in "ab"] == [False, True]
