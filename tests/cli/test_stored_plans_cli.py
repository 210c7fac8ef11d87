"""Stored plans at the command line: listed, found, shown, checked, and run by their names."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
PLAN = {
    "goal": "Look an order up",
    "input": {"order_id": "ord_1"},
    "steps": [{"id": "order", "tool": "shop_order", "args": {"order_id": "${input.order_id}"}}],
}
TABLE = """
[plans.look_up]
file = "stored.json"
description = "Look after a parcel."
input = { order_id = "string" }
"""


@pytest.fixture
def desk(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delitem(sys.modules, "example_tools", raising=False)
    configuration = shop / "counterfoil.toml"
    configuration.write_text(configuration.read_text() + TABLE)
    (shop / "stored.json").write_text(json.dumps(PLAN))
    return shop


@pytest.mark.usefixtures("desk")
def test_a_stored_plan_runs_by_its_name_and_its_input_is_laid_over_the_defaults(command: Command) -> None:
    ran = command("run", "look_up", "--input", '{"order_id": "ord_2"}', "--json")
    assert (ran.exit_code, ran.answer["outputs"]["order"]["order_id"]) == (0, "ord_2"), ran
    assert command("run", "look_up").exit_code == 0
    wrong = command("run", "look_up", "--input", '{"order": "ord_2"}')
    assert wrong.exit_code == 1
    assert "counterfoil run look_up --input JSON" in wrong.out
    near = command("run", "look_pu")
    assert near.exit_code == 1
    assert "look_up" in near.out
    assert "tool_search" not in near.out, "a person has no base tools"


def test_a_stored_plan_may_have_a_name_that_looks_like_an_id(command: Command, desk: Path) -> None:
    configuration = desk / "counterfoil.toml"
    configuration.write_text(configuration.read_text().replace("[plans.look_up]", "[plans.plan_b]"))
    assert command("run", "plan_b").exit_code == 0
    assert "--plan-id plan_c" in command("run", "plan_c").err


def test_a_file_of_that_name_is_the_file(command: Command, desk: Path) -> None:
    (desk / "look_up").write_text("no plan")
    assert command("run", "look_up").exit_code == 2
    assert command("run", "./nothing").exit_code == 2


@pytest.mark.usefixtures("desk")
def test_it_stands_beside_the_tools(command: Command) -> None:
    listed = command("tools", "list", "--json").answer
    assert [plan["name"] for plan in listed["plans"]] == ["look_up"]
    assert "look_up" not in [tool["name"] for tool in listed["tools"]]
    assert "stored plan" in command("tools", "list").out
    found = command("tools", "search", "look after a parcel", "--json").answer["matches"][0]
    assert (found["name"], found["version"], found["effect"]) == ("look_up", None, "read")
    assert "start it with run" in command("tools", "search", "parcel").out.replace("\n", " ")
    shown = command("tools", "show", "look_up", "--json").answer
    assert shown["steps"] == [{"id": "order", "tool": "shop_order"}]
    assert "counterfoil run look_up" in command("tools", "show", "look_up").out


def test_check_tells_what_is_wrong_and_who_could_not_run_it(command: Command, desk: Path) -> None:
    checked = command("check", "--json")
    assert (checked.exit_code, [plan["name"] for plan in checked.answer["plans"]]) == (0, ["look_up"])
    configuration = desk / "counterfoil.toml"
    before = configuration.read_text()
    configuration.write_text(f'{before}\n[[policy]]\nid = "no"\ntool = "shop_order"\nverdict = "deny"\n')
    denied = command("check", "--json")
    assert denied.exit_code == 0, "a rule for one principal is no mistake"
    assert any("could not run it" in one["text"] for one in denied.answer["findings"])
    configuration.write_text(before.replace("stored.json", "nowhere.json"))
    broken = command("check")
    assert broken.exit_code == 1
    assert "plans.look_up.file" in broken.out
    assert command("tools", "list").exit_code == 2, "nothing starts on it"
