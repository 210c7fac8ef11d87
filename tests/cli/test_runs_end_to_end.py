"""The commands of plans and runs on real parts: checked, driven here, decided, taken up, cancelled, let go."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
LIMIT_S = 30.0
LOOK = {"id": "order", "tool": "shop_order", "args": {"order_id": "${input.order_id}"}}
PAY = {"id": "refund", "tool": "shop_refund", "args": {"order_id": "${order.order_id}", "amount": 20}}
READ = {"goal": "Look an order up", "input": {"order_id": "ord_1"}, "steps": [LOOK]}
REFUND = READ | {"goal": "Pay an order back", "steps": [LOOK, PAY]}
SLOW = READ | {"goal": "Wait for somebody", "steps": [{"id": "wait", "tool": "slow_wait", "args": {}}]}
LOST = {"goal": "Take a note", "steps": [{"id": "note", "tool": "slow_note", "args": {}}]}
SLOW_TOOLS = '''
"""A tool that says that it began, and ends once it is let; and one whose answer is lost."""

import asyncio
from pathlib import Path

from counterfoil import Probe, tool

HERE = Path(__file__).parent


@tool(effect="read", open_world=False, timeout_s=20)
async def slow_wait() -> str:
    """Wait until a file is there."""
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    return "went"


@tool(effect="write")
def slow_note() -> str:
    """Write into a book; the answer never comes."""
    with (HERE / "book").open("a") as book:
        book.write("x")
    raise ConnectionError("the line broke")


@slow_note.probe()
def slow_noted() -> Probe:
    """Look into the book."""
    return Probe.happened("noted") if (HERE / "book").exists() else Probe.absent()
'''


@pytest.fixture
def desk(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shop with plans, where scripts may decide, and with a tool that waits; its modules are this folder's own."""
    for module in ("example_tools", "slow_tools"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    configuration = shop / "counterfoil.toml"
    text = configuration.read_text().replace('["example_tools"]', '["example_tools", "slow_tools"]')
    text = text.replace("[server]\n", "[server]\ngrace_s = 0.2\n")
    text = text.replace('write = "approve"', 'write = "allow"')
    configuration.write_text(f"{text}\n[approvals]\nautomation = true\n")
    (shop / "slow_tools.py").write_text(SLOW_TOOLS)
    for name, plan in (("read", READ), ("refund", REFUND), ("slow", SLOW), ("lost", LOST)):
        (shop / f"{name}.json").write_text(json.dumps(plan))
    return shop


def approve(command: Command, run: dict[str, Any]) -> None:
    (pending,) = run["pending"]
    ran = command("approvals", "approve", pending["approval_id"], "--digest", pending["digest"])
    assert ran.exit_code == 0, ran


def refunded(command: Command) -> float:
    answer = command("call", "shop_order", '{"order_id": "ord_1"}', "--json").answer
    return float(answer["output"]["refunded"])


@pytest.mark.usefixtures("desk")
def test_a_plan_is_drawn_and_nothing_of_it_runs(command: Command) -> None:
    ran = command("plan", "refund.json")
    assert ran.exit_code == 0, ran
    assert "after order" in ran.out
    assert command("runs", "list", "--json").answer == {"runs": []}


@pytest.mark.usefixtures("desk")
def test_a_plan_is_read_from_a_file_stdin_or_the_line_alike(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(REFUND).encode())))
    answers = [command("plan", source, "--json").answer for source in ("refund.json", "-", json.dumps(REFUND))]
    assert len({answer["digest"] for answer in answers}) == 1


@pytest.mark.usefixtures("desk")
def test_a_plan_with_errors_ends_with_1_and_all_of_them(command: Command) -> None:
    wrong = READ | {"steps": [LOOK | {"tool": "shop_orders"}, PAY | {"depends_on": ["nobody"]}]}
    ran = command("plan", json.dumps(wrong))
    assert ran.exit_code == 1
    assert "unknown_tool" in ran.out
    assert "unknown_step" in ran.out
    assert {error["code"] for error in command("run", json.dumps(wrong), "--json").answer["errors"]} == {
        "unknown_tool",
        "unknown_step",
    }


@pytest.mark.usefixtures("desk")
def test_a_run_is_driven_here_to_its_end_and_asked_again_it_is_the_same_run(command: Command) -> None:
    first = command("run", "read.json")
    assert first.exit_code == 0, first
    assert "succeeded" in first.out
    again = command("run", "read.json", "--json").answer
    assert (again["status"], again["replayed"]) == ("succeeded", True)
    other = command("run", "read.json", "--key", "tuesday", "--json").answer
    assert other["run_id"] != again["run_id"]
    assert [run["run_id"] for run in command("runs", "list", "--json").answer["runs"]] == [
        other["run_id"],
        again["run_id"],
    ]


@pytest.mark.usefixtures("desk")
def test_input_is_laid_over_the_plans_own(command: Command) -> None:
    plan = command("plan", "read.json", "--json").answer
    ran = command("run", "--plan-id", plan["plan_id"], "--input", '{"order_id": "ord_2"}', "--json")
    assert ran.answer["outputs"]["order"]["order_id"] == "ord_2", ran


@pytest.mark.usefixtures("desk")
def test_a_run_waits_for_a_decision_and_goes_on_once_it_is_taken_up(command: Command) -> None:
    waiting = command("run", "refund.json", "--json")
    assert (waiting.exit_code, waiting.answer["status"]) == (3, "awaiting_approval")
    run_id = waiting.answer["run_id"]
    assert "A person must decide: refund." in command("runs", "list").out
    shown = command("runs", "show", run_id)
    assert shown.exit_code == 3
    assert f"counterfoil approvals approve {waiting.answer['pending'][0]['approval_id']}" in shown.out.splitlines()
    approve(command, waiting.answer)
    done = command("runs", "resume", run_id, "--json")
    assert (done.exit_code, done.answer["status"]) == (0, "succeeded"), done
    assert refunded(command) == 20
    page = command("runs", "show", run_id).out
    assert all(word in page for word in ("run_created", "run_finished", "1 attempt", "settled_at"))


def test_a_lost_answer_is_found_out_by_reconciling_the_run_which_goes_on(desk: Path, command: Command) -> None:
    lost = command("run", "lost.json")
    assert lost.exit_code == 3, lost
    (run,) = command("runs", "list", "--json").answer["runs"]
    assert "Nobody knows what became of: note." in lost.out
    assert f"counterfoil reconcile {run['run_id']}" in lost.out.splitlines()
    found = command("reconcile", run["run_id"], "--json")
    assert (found.exit_code, found.answer["status"], found.answer["outputs"]) == (0, "succeeded", {"note": "noted"})
    assert (desk / "book").read_text() == "x"


@pytest.mark.usefixtures("desk")
def test_a_cancelled_run_tells_what_stands_and_its_proposal_is_withdrawn(command: Command) -> None:
    run = command("run", "refund.json", "--json").answer
    ran = command("runs", "cancel", run["run_id"], "--reason", "wrong order", "--json")
    assert (ran.exit_code, ran.answer["status"], ran.answer["effects"]) == (0, "cancelled", []), ran
    approval = command("approvals", "show", run["pending"][0]["approval_id"], "--json").answer
    assert approval["state"] == "revoked"
    assert command("runs", "show", run["run_id"]).exit_code == 1


@pytest.mark.usefixtures("desk")
def test_without_a_terminal_a_watch_prints_each_event_and_then_the_run(command: Command) -> None:
    run = command("run", "read.json", "--json").answer
    ran = command("runs", "watch", run["run_id"], "--json")
    assert (ran.exit_code, ran.answer["status"]) == (0, "succeeded")
    numbers = [int(line.split()[0]) for line in ran.err.splitlines()]
    assert numbers == list(range(1, run["seq"] + 1))


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    "verb", [("runs", "show"), ("runs", "watch"), ("runs", "resume"), ("runs", "cancel"), ("status",)]
)
def test_a_run_that_is_not_there_is_not_found(command: Command, verb: tuple[str, ...]) -> None:
    ran = command(*verb, "run_nope", "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (1, "not_found")
    assert "None" not in command(*verb, "run_nope").out


@pytest.mark.usefixtures("desk")
def test_status_and_reconcile_take_a_run_too(command: Command) -> None:
    run = command("run", "read.json", "--json").answer
    for verb in ("status", "reconcile"):
        ran = command(verb, run["run_id"])
        assert ran.exit_code == 0, ran
        assert "Look an order up" in ran.out
    assert run["run_id"] in command("status").out


@contextmanager
def started(folder: Path, *line: str, stdout: int = subprocess.PIPE) -> Any:
    """A command line in a process of its own, which is ended at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "counterfoil", *line],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(found: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + LIMIT_S
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_ctrl_c_lets_the_run_go_and_another_process_takes_it_up(desk: Path, command: Command) -> None:
    with started(desk, "run", "slow.json", "--json") as process:
        wait_for((desk / "begun").exists, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, err
    left = json.loads(out)
    assert left["status"] == "queued", left
    assert b"Letting the run go" in err
    (desk / "go").touch()
    done = command("runs", "resume", left["run_id"], "--json")
    assert (done.exit_code, done.answer["outputs"]) == (0, {"wait": "went"}), done


def test_the_end_of_the_wait_lets_the_run_go_with_3(desk: Path, command: Command) -> None:
    ran = command("run", "slow.json", "--wait", "0.1", "--json")
    assert (ran.exit_code, ran.answer["status"]) == (3, "queued"), ran
    (desk / "go").touch()
    assert command("runs", "resume", ran.answer["run_id"], "--json").exit_code == 0


def test_ctrl_c_ends_the_watching_and_the_run_goes_on(desk: Path, command: Command) -> None:
    with started(desk, "run", "slow.json", "--json") as driver:
        wait_for((desk / "begun").exists, driver)
        (run,) = command("runs", "list", "--json").answer["runs"]
        with started(desk, "runs", "watch", run["run_id"]) as watcher:
            assert watcher.stdout is not None
            assert b"run_created" in watcher.stdout.readline()
            watcher.send_signal(signal.SIGINT)
            _, err = watcher.communicate(timeout=LIMIT_S)
        assert (watcher.returncode, err.decode()) == (
            130,
            f"counterfoil: Watching ended; nothing about {run['run_id']} has changed.\n",
        )
        (desk / "go").touch()
        out, err = driver.communicate(timeout=LIMIT_S)
    assert (driver.returncode, json.loads(out)["status"]) == (0, "succeeded"), err


def test_at_a_terminal_the_steps_are_drawn_while_they_move(desk: Path) -> None:
    screen, terminal = pty.openpty()
    try:
        with started(desk, "run", "slow.json", stdout=terminal) as process:
            drawn = b""
            while b"slow_wait" not in drawn:
                drawn += os.read(screen, 4096)
            (desk / "go").touch()
            while b"succeeded" not in drawn:
                drawn += os.read(screen, 4096)
            assert process.wait(LIMIT_S) == 0
    finally:
        os.close(screen)
        os.close(terminal)
    assert b"running" in drawn
