"""The example that `init` writes is a working shop: checked, called, approved by a person, verified."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.rules import DRY_RUN

Command = Callable[..., Any]
REFUND = '{"order_id": "ord_1", "amount": 20}'
LIMIT_S = 30.0


@pytest.fixture
def automated(shop: Path) -> Path:
    """The same, where scripts may decide."""
    with (shop / "counterfoil.toml").open("a") as configuration:
        configuration.write("\n[approvals]\nautomation = true\n")
    return shop


def proposed(command: Command) -> dict[str, Any]:
    ran = command("call", "shop_refund", REFUND, "--json")
    assert ran.exit_code == 3, ran
    answer: dict[str, Any] = ran.answer
    return answer


@pytest.mark.usefixtures("shop")
def test_the_check_passes_on_what_init_wrote(command: Command) -> None:
    ran = command("check", "--json")
    assert (ran.exit_code, ran.answer["ok"]) == (0, True), ran
    tools = {tool["name"]: tool for tool in ran.answer["tools"]}
    assert (tools["shop_refund"]["effect"], tools["shop_refund"]["recovery"]) == ("destructive", "probe")


def test_a_failing_policy_test_fails_the_check(shop: Path, command: Command) -> None:
    configuration = shop / "counterfoil.toml"
    configuration.write_text(configuration.read_text().replace('expect = "deny"', 'expect = "allow"'))
    ran = command("check", "--json")
    assert (ran.exit_code, ran.answer["ok"]) == (1, False)
    assert any(finding["rule_id"] == "no-large-refunds" for finding in ran.answer["findings"])


def test_a_tool_module_that_cannot_be_imported_fails_the_check_but_not_the_ledger(shop: Path, command: Command) -> None:
    assert command("call", "shop_order", '{"order_id": "ord_1"}').exit_code == 0
    sys.modules.pop("example_tools", None)
    (shop / "example_tools.py").write_text("this is no Python")
    assert command("check", "--json").exit_code == 1
    assert command("ledger", "verify", "--json").answer["ok"] is True


def test_an_unreadable_configuration_ends_the_check_with_2(shop: Path, command: Command) -> None:
    (shop / "counterfoil.toml").write_text("[server\n")
    ran = command("check", "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (2, "configuration")


@pytest.mark.parametrize("line", [["check"], ["tools", "list"], ["ledger", "verify"], ["call", "t"], ["status"]])
def test_without_a_configuration_every_command_ends_with_2(command: Command, line: list[str]) -> None:
    ran = command(*line, "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (2, "configuration")


@pytest.mark.usefixtures("shop")
def test_a_read_is_answered_at_once(command: Command) -> None:
    ran = command("call", "shop_order", '{"order_id": "ord_1"}', "--json")
    assert ran.exit_code == 0
    assert ran.answer["output"] == {"order_id": "ord_1", "total": 49.9, "refunded": 0}


@pytest.mark.usefixtures("shop")
def test_arguments_are_read_strictly(command: Command) -> None:
    ran = command("call", "shop_order", '{"order_id": "a", "order_id": "b"}', "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (2, "invalid_arguments")


@pytest.mark.usefixtures("shop")
def test_a_refused_call_says_no(command: Command) -> None:
    ran = command("call", "shop_refund", '{"order_id": "ord_1", "amount": 150}', "--json")
    assert (ran.exit_code, ran.answer["state"], ran.answer["error"]["code"]) == (1, "refused", "denied")
    assert command("call", "nothing_of_the_kind", "--json").exit_code == 1


@pytest.mark.usefixtures("shop")
def test_a_dry_run_decides_and_records_nothing(command: Command) -> None:
    ran = command("call", "shop_refund", REFUND, "--dry-run", "--json")
    assert (ran.exit_code, ran.answer["verdict"]) == (0, "approve")
    assert ran.answer.keys() == DRY_RUN
    assert command("approvals", "list", "--json").answer == {"approvals": []}


@pytest.mark.usefixtures("shop")
def test_without_a_terminal_nobody_can_approve(command: Command) -> None:
    approval = proposed(command)["approval"]
    ran = command("approvals", "approve", approval["approval_id"], "--digest", approval["digest"], "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (1, "approval_invalid")
    assert command("approvals", "list", "--json").answer["approvals"][0]["state"] == "pending"


@pytest.mark.usefixtures("automated")
def test_automation_needs_the_right_digest_and_is_recorded_as_such(command: Command) -> None:
    approval = proposed(command)["approval"]
    identity = approval["approval_id"]
    assert command("approvals", "approve", identity, "--json").exit_code == 1
    assert command("approvals", "approve", identity, "--digest", "0" * 64, "--json").exit_code == 1
    assert command("approvals", "show", identity, "--json").answer["state"] == "pending"
    ran = command("approvals", "approve", identity, "--digest", approval["digest"], "--note", "by script", "--json")
    assert ran.exit_code == 0, ran
    decided = ran.answer["decided"]
    assert (decided["via"], decided["strength"], decided["note"]) == ("automation", "same_user", "by script")


def decided_at_a_terminal(
    folder: Path, verb: str, approval: dict[str, Any], typed: str
) -> subprocess.CompletedProcess[bytes]:
    person, terminal = pty.openpty()
    try:
        os.write(person, f"{typed}\n".encode())
        return subprocess.run(
            [sys.executable, "-m", "counterfoil", "approvals", verb, approval["approval_id"], "--json"],
            stdin=terminal,
            capture_output=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            timeout=LIMIT_S,
            check=False,
        )
    finally:
        os.close(person)
        os.close(terminal)


def test_a_person_who_types_other_characters_decides_nothing(shop: Path, command: Command) -> None:
    approval = proposed(command)["approval"]
    assert decided_at_a_terminal(shop, "approve", approval, "zzzzzz").returncode == 1
    assert command("approvals", "show", approval["approval_id"], "--json").answer["state"] == "pending"


@pytest.mark.parametrize(("verb", "state"), [("approve", "approved"), ("reject", "rejected")])
def test_a_person_decides_by_typing_what_the_screen_shows(shop: Path, command: Command, verb: str, state: str) -> None:
    approval = proposed(command)["approval"]
    ran = decided_at_a_terminal(shop, verb, approval, approval["digest"][:6])
    assert ran.returncode == 0, ran.stderr.decode()
    assert "ord_1" in ran.stderr.decode()
    answer = json.loads(ran.stdout)
    assert answer["state"] in {state, "consumed"}
    assert answer["decided"]["via"] == "cli"


@pytest.mark.usefixtures("shop")
def test_an_unknown_approval_or_call_is_not_found(command: Command) -> None:
    assert command("approvals", "show", "apr_nothing", "--json").answer["error"]["code"] == "not_found"
    ran = command("status", "call_nothing", "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (1, "not_found")


@pytest.mark.usefixtures("shop")
def test_the_catalogue_is_listed_searched_and_shown(command: Command) -> None:
    names = [tool["name"] for tool in command("tools", "list", "--json").answer["tools"]]
    assert names == ["shop_order", "shop_refund"]
    found = command("tools", "search", "refund an order", "--json").answer["matches"]
    assert found[0]["name"] == "shop_refund"
    assert "probe" in command("tools", "show", "shop_refund").out
    assert command("tools", "show", "nothing", "--json").exit_code == 1


@pytest.mark.usefixtures("shop")
def test_an_export_verifies_offline_and_a_changed_one_does_not(folder: Path, command: Command) -> None:
    proposed(command)
    exported = command("ledger", "export").out
    assert [json.loads(line)["seq"] for line in exported.splitlines()]
    (folder / "good.jsonl").write_text(exported)
    (folder / "bad.jsonl").write_text(exported.replace("ord_1", "ord_2").replace("shop_refund", "shop_refunds"))
    assert command("ledger", "verify", "good.jsonl", "--json").exit_code == 0
    ran = command("ledger", "verify", "bad.jsonl", "--json")
    assert (ran.exit_code, ran.answer["ok"]) == (1, False)
    assert command("ledger", "verify", "absent.jsonl", "--json").exit_code == 2


@pytest.mark.usefixtures("shop")
def test_the_ledgers_own_commands_answer(folder: Path, command: Command) -> None:
    assert command("ledger", "stats", "--json").exit_code == 4
    proposed(command)
    assert command("ledger", "check", "--json").answer["ok"] is True
    assert command("ledger", "stats", "--json").answer["calls"] == {"awaiting_approval": 1}
    assert command("ledger", "migrate", "--json").exit_code == 0
    assert command("ledger", "backup", "copy.db", "--json").exit_code == 0
    assert (folder / "copy.db").stat().st_size > 0
    assert command("ledger", "backup", "copy.db", "--json").exit_code == 2


@pytest.mark.parametrize("command_name", ["stats", "export"])
def test_reading_a_file_that_is_no_ledger_ends_with_4(shop: Path, command: Command, command_name: str) -> None:
    (shop / "ledger").mkdir(exist_ok=True)
    (shop / "ledger" / "test.db").write_bytes(b"something else entirely" * 100)
    ran = command("ledger", command_name, "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (4, "damaged_ledger")


def test_a_file_that_is_no_ledger_ends_with_4(shop: Path, command: Command) -> None:
    (shop / "ledger").mkdir(exist_ok=True)
    (shop / "ledger" / "test.db").write_bytes(b"something else entirely" * 100)
    assert command("call", "shop_order", '{"order_id": "ord_1"}', "--json").exit_code == 4


@pytest.mark.usefixtures("shop")
def test_people_see_the_same_facts_without_json(command: Command) -> None:
    shown = command("call", "shop_refund", REFUND).out
    assert "awaiting_approval" in shown
    assert "shop_refund" in command("approvals", "list").out
    assert "Unresolved calls" in command("status").out


@pytest.mark.usefixtures("shop")
def test_what_hides_in_the_arguments_is_shown_to_whoever_decides(command: Command) -> None:
    approval = command("call", "shop_refund", '{"order_id": "ord_1\\u202e", "amount": 1}', "--json").answer["approval"]
    shown = command("approvals", "show", approval["approval_id"]).out
    assert "ord_1<U+202E>" in shown
    assert "\u202e" not in shown
    assert "probe" in shown


def test_ctrl_c_ends_a_waiting_call_with_130(shop: Path) -> None:
    (shop / "example_tools.py").write_text(SLOW_TOOL)
    with subprocess.Popen(
        [sys.executable, "-m", "counterfoil", "call", "slow", "--json"],
        cwd=shop,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if b"slow runs" in line:
                    break
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT_S) == 130
        finally:
            process.kill()


SLOW_TOOL = '''
import asyncio
import sys

from counterfoil import tool


@tool(effect="read")
async def slow() -> str:
    """Take a minute."""
    sys.stderr.write("slow runs\\n")
    sys.stderr.flush()
    await asyncio.sleep(60)
    return "done"


@tool(effect="destructive")
async def shop_refund(order_id: str, amount: float) -> str:
    """Named by the policy's tests."""
    return order_id
'''
