"""The demo's plan is one that the plan checker lets run, side by side where the story says so."""

from __future__ import annotations

from pathlib import Path

from counterfoil.runtime.plan.checking import PlanRules, check_plan
from counterfoil.server.app import read_tools
from counterfoil.server.demo.chain import PLAN
from counterfoil.server.demo.stage import CONFIGURATION


def test_the_plan_is_checked_without_a_problem_and_one_step_needs_a_person(tmp_path: Path) -> None:
    (tmp_path / "counterfoil.toml").write_text(CONFIGURATION)
    tools = read_tools(tmp_path / "counterfoil.toml")
    checked = check_plan(PLAN, tools.local, PlanRules(tools.catalogue, tools.policy))
    assert checked.waves == (("order",), ("policy", "shipment"), ("refund",), ("tell",))
    assert {step.id: step.approval for step in checked.predicted if step.approval != "none"} == {"refund": "operator"}
    assert {step.id: step.recovery for step in checked.predicted if step.effect != "read"} == {
        "refund": "probe",
        "tell": "probe",
    }
