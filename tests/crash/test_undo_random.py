"""Random plans that fail, killed at random commits and around random effects: whatever is outside is accounted for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pytest

from .kit import Forge, Stage
from .test_undo_commits import assert_accounted_for, lives_with, stage_of

SEEDS: Final = range(12)
MADE: Final = ("made_keyed", "made_probed", "made_approved")
COMMITS: Final = 24


def plan_of(choose: random.Random) -> dict[str, Any]:
    """A few writes in some order; the last step is refused, so that all of them are undone or kept."""
    steps: list[dict[str, Any]] = []
    for number in range(choose.randint(2, 5)):
        name = f"s{number}"
        after = [step["id"] for step in steps if choose.random() < 0.4]
        compensate = choose.choice(["default", "default", "default", "none"])
        tool = choose.choice(MADE)
        steps.append({"id": name, "tool": tool, "args": {"note": name}, "depends_on": after, "compensate": compensate})
    after = [step["id"] for step in steps if choose.random() < 0.7]
    steps.append({"id": "bad", "tool": "refused", "args": {"note": "bad"}, "depends_on": after})
    return {"goal": "Fail somewhere", "steps": steps, "on_failure": "compensate", "max_parallel": choose.randint(1, 3)}


@pytest.mark.promise("DAG-06")
@pytest.mark.parametrize("seed", SEEDS)
def test_every_effect_of_a_killed_run_stands_is_undone_kept_or_told_of(forge: Forge, tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    stage: Stage = stage_of(tmp_path / "stage")
    plan = plan_of(choose)
    names = [step["id"] for step in plan["steps"][:-1]]
    for _ in range(choose.randint(0, 2)):
        stage.world.set(f"die-{choose.choice(['', 'un-'])}{choose.choice(names)}-{choose.choice(['effect', 'answer'])}")
    view = None
    for _ in range(choose.randint(1, 3)):
        view = view or lives_with(forge, stage, plan, commit=choose.randint(1, COMMITS), side="after")
        assert_accounted_for(stage)
    for _ in range(4):  # marks that were never reached may kill once more each
        view = view or lives_with(forge, stage, plan)
    assert view is not None
    assert_accounted_for(stage)
    assert view["status"] == "failed"
    fates = {one["step"]: one["state"] for one in view["compensations"]}
    effects = stage.world.effects()
    for step in plan["steps"][:-1]:
        there = [line["tool"] for line in effects if line["note"] == step["id"]]
        done, undone = sum(not tool.startswith("un") for tool in there), sum(tool.startswith("un") for tool in there)
        expected = None if not done else "kept" if step["compensate"] == "none" else "undone"
        assert (done <= 1, fates.get(step["id"])) == (True, expected), (step, there)
        assert undone == (expected == "undone"), (step, there)
