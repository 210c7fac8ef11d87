"""`runs graph` and `plan --graph`: the picture on stdout or in a file, its nodes and edges for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
LOOK = {"id": "order", "tool": "shop_order", "args": {"order_id": "${input.order_id}"}}
PAY = {"id": "refund", "tool": "shop_refund", "args": {"order_id": "${order.order_id}", "amount": 20}}
PLAN = {"goal": "Pay an order back", "input": {"order_id": "ord_1"}, "steps": [LOOK, PAY]}


@pytest.fixture(autouse=True)
def desk(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delitem(sys.modules, "example_tools", raising=False)
    (shop / "refund.json").write_text(json.dumps(PLAN))
    return shop


def test_a_run_that_waits_is_drawn_with_whom_it_waits_for(command: Command, desk: Path) -> None:
    run = command("run", "refund.json", "--json").answer
    assert run["status"] == "awaiting_approval", run
    drawn = command("runs", "graph", run["run_id"])
    assert (drawn.exit_code, drawn.out.splitlines()[0]) == (0, "flowchart TD")
    assert "awaiting approval" in drawn.out
    assert f"awaits the decision of a person:<br/>{run['pending'][0]['approval_id']}" in drawn.out
    assert "destructive" in drawn.out
    graph = command("runs", "graph", run["run_id"], "--json").answer
    assert [(node["id"], node["state"], node["effect"]) for node in graph["nodes"]] == [
        ("order", "succeeded", "read"),
        ("refund", "awaiting_approval", "destructive"),
    ]
    assert graph["edges"] == [{"from": "order", "to": "refund", "kind": "value"}]
    written = command("runs", "graph", run["run_id"], "--format", "svg", "--output", "run.svg")
    assert (written.exit_code, written.out) == (0, "Written: run.svg\n")
    assert (desk / "run.svg").read_text().startswith("<svg ")


def test_a_plan_is_drawn_before_anything_of_it_runs(command: Command) -> None:
    drawn = command("plan", "refund.json", "--graph", "mermaid")
    assert (drawn.exit_code, drawn.out.splitlines()[0]) == (0, "flowchart TD")
    assert ":::planned" in drawn.out
    svg = command("plan", "refund.json", "--graph", "svg").out
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>\n")
    graph = command("plan", "refund.json", "--graph", "svg", "--json").answer
    assert {node["state"] for node in graph["nodes"]} == {None}
    assert graph["id"].startswith("plan_")
    assert command("runs", "list", "--json").answer == {"runs": []}


def test_what_cannot_be_drawn_is_refused(command: Command) -> None:
    wrong = json.dumps(PLAN | {"steps": [LOOK | {"tool": "shop_orders"}]})
    assert "unknown_tool" in command("plan", wrong, "--graph", "svg").out
    assert command("plan", wrong, "--graph", "svg").exit_code == 1
    assert command("runs", "graph", "run_nothing").exit_code == 1
    assert command("runs", "graph", "call_x").exit_code == 2
    assert command("plan", "refund.json", "--output", "x.svg").exit_code == 2
    assert command("plan", "refund.json", "--graph", "svg", "--output", "no/such/x.svg").exit_code == 2
