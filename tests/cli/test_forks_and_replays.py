"""`runs fork` and `runs replay` on real parts: gone on from what was done, and told what a change would do."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
TOOLS = '''
"""A book that is written into, and a door that has to be open."""

from pathlib import Path

from counterfoil import Outcome, tool

HERE = Path(__file__).parent


@tool(effect="write")
def book_write(text: str) -> dict[str, str]:
    """Write a line."""
    with (HERE / "book").open("a") as book:
        book.write(f"{text}\\n")
    return {"text": text}


@tool(effect="write")
def door_pass(after: str) -> Outcome[dict[str, str]]:
    """Pass, if it is open."""
    if not (HERE / "open").exists():
        return Outcome.permanent("it is shut")
    with (HERE / "book").open("a") as book:
        book.write(f"passed after {after}\\n")
    return Outcome.success({"after": after})
'''
PLAN: Any = {
    "goal": "Write, then pass",
    "steps": [
        {"id": "write", "tool": "book_write", "args": {"text": "one"}},
        {"id": "pass", "tool": "door_pass", "args": {"after": "${write.text}"}},
    ],
}


@pytest.fixture
def desk(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in ("example_tools", "book_tools"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    configuration = shop / "counterfoil.toml"
    text = configuration.read_text().replace('["example_tools"]', '["book_tools"]')
    configuration.write_text(text.replace('write = "approve"', 'write = "allow"'))
    (shop / "book_tools.py").write_text(TOOLS)
    (shop / "plan.json").write_text(json.dumps(PLAN))
    return shop


def failed(command: Command) -> str:
    ran = command("run", "plan.json", "--json")
    assert (ran.exit_code, ran.answer["status"]) == (1, "failed"), ran
    return str(ran.answer["run_id"])


def test_a_failed_run_is_gone_on_from_and_what_it_did_is_not_done_again(desk: Path, command: Command) -> None:
    run_id = failed(command)
    (desk / "open").touch()
    ran = command("runs", "fork", run_id, "--json")
    assert (ran.exit_code, ran.answer["status"], ran.answer["parent_run_id"]) == (0, "succeeded", run_id), ran
    assert (desk / "book").read_text() == "one\npassed after one\n"
    page = command("runs", "show", ran.answer["run_id"]).out
    assert "reused from" in page
    assert "step_reused" in page
    again = command("runs", "fork", run_id, "--json").answer
    assert (again["run_id"], again["replayed"]) == (ran.answer["run_id"], True)


def test_a_fork_that_would_do_something_twice_is_refused_and_says_which_step(desk: Path, command: Command) -> None:
    run_id = failed(command)
    ran = command("runs", "fork", run_id, "--from-step", "write")
    assert ran.exit_code == 1, ran
    assert "it would happen twice" in " ".join(ran.out.split())
    refused = command("runs", "fork", run_id, "--from-step", "write", "--json").answer
    assert [(one["step"], one["field"]) for one in refused["errors"]] == [("write", "from_step")]
    assert (desk / "book").read_text() == "one\n"


def contents(desk: Path) -> dict[str, str]:
    """Every file of the ledger's folder, but the two that SQLite makes beside a file that is read."""
    files = [file for file in (desk / "ledger").rglob("*") if file.is_file() and file.suffix != ".db-shm"]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.stat().st_size}


def test_a_replay_tells_what_other_rules_would_change_and_touches_nothing(desk: Path, command: Command) -> None:
    run_id = failed(command)
    before, book = contents(desk), (desk / "book").read_text()
    same = command("runs", "replay", run_id, "--json")
    assert (same.exit_code, same.answer["same"]) == (0, True), same
    assert "nothing would be different" in command("runs", "replay", run_id).out
    rule = '\n[[policy]]\nid = "ask-first"\nverdict = "approve"\ntool = "book_write"\nassurance = "operator"\n'
    (desk / "other.toml").write_text((desk / "counterfoil.toml").read_text() + rule)
    ran = command("runs", "replay", run_id, "--rules", "other.toml", "--json")
    assert (ran.exit_code, ran.answer["same"]) == (1, False), ran
    (write,) = [one for one in ran.answer["steps"] if one["differs"]]
    assert (write["step"], write["then"]["verdict"], write["now"]["verdict"], write["now"]["rule_id"]) == (
        "write", "allow", "approve", "ask-first",
    )  # fmt: skip
    page = command("runs", "replay", run_id, "--rules", "other.toml").out
    assert "ask-first" in page
    assert (contents(desk), (desk / "book").read_text()) == (before, book)


def test_a_replay_of_another_plan_tells_what_nobody_recorded(desk: Path, command: Command) -> None:
    run_id = failed(command)
    other = {**PLAN, "steps": [PLAN["steps"][0], {"id": "again", "tool": "book_write", "args": {"text": "two"}}]}
    ran = command("runs", "replay", run_id, "--plan", json.dumps(other), "--json")
    assert (ran.exit_code, ran.answer["status"]) == (1, {"then": "failed", "now": "unknown"}), ran
    assert {one["step"]: one["now"] and one["now"]["state"] for one in ran.answer["steps"]} == {
        "write": "succeeded", "again": "unknown", "pass": None,
    }  # fmt: skip
    assert "unknown" in command("runs", "replay", run_id, "--plan", json.dumps(other)).out
    wrong = command("runs", "replay", run_id, "--plan", json.dumps({**PLAN, "steps": []}), "--json")
    assert (wrong.exit_code, wrong.answer["same"]) == (1, False)
    assert wrong.answer["errors"]
    assert (desk / "book").read_text() == "one\n"


@pytest.mark.usefixtures("desk")
def test_wrong_usage_and_a_run_that_is_not_there_are_told_apart(command: Command) -> None:
    failed(command)
    unknown = [command("runs", verb, "run_nope", "--json") for verb in ("fork", "replay")]
    assert [(ran.exit_code, ran.answer["error"]["code"]) for ran in unknown] == [(1, "not_found")] * 2
    assert command("runs", "fork", "call_1", "--json").exit_code == 2
    assert command("runs", "replay", "call_1", "--json").exit_code == 2
    assert command("runs", "replay", "run_nope", "--plan", "nothing.json", "--json").exit_code == 2
    assert command("runs", "replay", "run_nope", "--rules", "nothing.toml", "--json").exit_code == 2
