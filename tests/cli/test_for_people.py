"""What a person reads at a narrow terminal: titles, commands to copy whole, hints in the words of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.cli.following import commands_of_call

Command = Callable[..., Any]
REFUND = '{"order_id": "ord_1", "amount": 20}'


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("verb", ["status", "reconcile"])
def test_what_is_not_there_is_titled_with_what_was_asked_for(command: Command, verb: str) -> None:
    ran = command(verb, "call_nope")
    assert ran.exit_code == 1
    assert "call_nope" in ran.out.splitlines()[0]
    assert "None" not in ran.out


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("verb", ["status", "reconcile"])
def test_an_approval_is_not_looked_for_among_the_calls(command: Command, verb: str) -> None:
    ran = command(verb, "apr_1")
    assert (ran.exit_code, ran.err) == (
        2,
        "counterfoil: approvals are shown by: counterfoil approvals show apr_1\n",
    )


@pytest.mark.usefixtures("shop")
def test_commands_and_digests_stand_whole_on_lines_of_their_own(command: Command) -> None:
    call = command("call", "shop_refund", REFUND, "--json").answer
    identity, digest = call["approval"]["approval_id"], call["approval"]["digest"]
    assert f"counterfoil approvals approve {identity}" in command("status", call["call_id"]).out.splitlines()
    shown = command("approvals", "show", identity).out.splitlines()
    assert f"digest {digest}" in shown
    assert f"counterfoil approvals reject {identity}" in shown
    assert f"counterfoil status {call['call_id']}" in shown


@pytest.mark.usefixtures("shop")
def test_the_list_of_approvals_shows_the_arguments_shortened(command: Command) -> None:
    command("call", "shop_refund", '{"order_id": "' + "o" * 400 + '", "amount": 20}')
    shown = command("approvals", "list").out.replace("\n", "")
    assert '"amount": 20' in shown
    assert "o" * 150 in shown
    assert "o" * 250 not in shown


def test_after_an_approval_it_says_who_sends_it(shop: Path, command: Command) -> None:
    with (shop / "counterfoil.toml").open("a") as configuration:
        configuration.write("\n[approvals]\nautomation = true\n")
    approval = command("call", "shop_refund", REFUND, "--json").answer["approval"]
    ran = command("approvals", "approve", approval["approval_id"], "--digest", approval["digest"])
    assert ran.out.splitlines()[-1] == (
        "Approved. No server is up: start `counterfoil serve`, which goes on with it before its window ends."
    )


@pytest.mark.usefixtures("shop")
def test_hints_name_commands_and_only_json_names_base_tools(command: Command) -> None:
    ran = command("call", "refund_it")
    assert "counterfoil tools search 'refund it'" in ran.out.splitlines()
    assert "tool_search" not in ran.out
    assert command("call", "refund_it", "--json").answer["next"]["tool"] == "tool_search"


@pytest.mark.parametrize(
    ("tool", "arguments", "command_line"),
    [
        ("status", {}, "counterfoil status"),
        ("status", {"call_id": "call_1", "wait_s": 20}, "counterfoil status call_1"),
        ("reconcile", {"call_id": "call_1"}, "counterfoil reconcile call_1"),
        ("confirm", {"approval_id": "apr_1"}, "counterfoil approvals show apr_1"),
        ("tool_call", {"name": "t", "schema_digest": "d"}, "counterfoil call t JSON"),
        ("tool_call", {"name": "t", "arguments": {"a": 1}}, """counterfoil call t '{"a": 1}'"""),
        ("tool_search", {}, "counterfoil tools search WORDS"),
    ],
)
def test_each_next_tool_has_its_command(tool: str, arguments: dict[str, Any], command_line: str) -> None:
    assert commands_of_call({"next": {"tool": tool, "arguments": arguments, "text": "."}})[0] == command_line


@pytest.mark.usefixtures("shop")
def test_broken_json_is_placed_by_its_character(command: Command) -> None:
    ran = command("call", "shop_order", '{"a":')
    assert (ran.exit_code, ran.err) == (2, "counterfoil: the arguments: expected JSON; it breaks off at character 6\n")


@pytest.mark.usefixtures("shop")
def test_a_file_that_is_no_export_is_named_as_such_in_one_line(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (folder / "notes.txt").write_text("a note\n" * 50)
    ran = command("ledger", "verify", "notes.txt")
    assert ran.exit_code == 1
    assert ran.out == "notes.txt is no export: line 1 is not a JSON object\n"


@pytest.mark.usefixtures("shop")
def test_a_person_is_shown_twenty_problems_and_told_of_the_rest(folder: Path, command: Command) -> None:
    command("call", "shop_refund", REFUND)
    (folder / "mixed.jsonl").write_text(command("ledger", "export").out + "a note\n" * 50)
    ran = command("ledger", "verify", "mixed.jsonl")
    lines = ran.out.splitlines()
    assert (ran.exit_code, len(lines), lines[-1]) == (1, 22, "and 30 more")
    assert "None" not in ran.out
    assert len(command("ledger", "verify", "mixed.jsonl", "--json").answer["problems"]) == 50


@pytest.mark.usefixtures("shop")
def test_the_figures_of_a_ledger_have_a_line_for_each_state_and_a_readable_time(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    call = command("call", "shop_refund", REFUND, "--json").answer
    shown = [line.split() for line in command("ledger", "stats").out.splitlines()]
    assert ["calls", "awaiting_approval", "1"] in shown
    oldest = next(line for line in shown if line[:2] == ["oldest", "open"])
    assert oldest[2] == f"{call['call_id']},"
    assert oldest[-1].endswith("Z")


def test_a_check_with_a_broken_module_does_not_say_that_there_are_no_tools(shop: Path, command: Command) -> None:
    configuration = shop / "counterfoil.toml"
    configuration.write_text(configuration.read_text().replace('"example_tools"', '"broken_tools"'))
    (shop / "broken_tools.py").write_text("this is no Python")
    ran = command("check")
    assert ran.exit_code == 1
    assert "No tools" not in ran.out


@pytest.mark.parametrize("line", [["tools", "list"], ["approvals", "approve"], ["ledger", "export"], ["status"]])
def test_every_command_tells_of_the_options_of_all(command: Command, line: list[str]) -> None:
    assert "--config" in command(*line, "--help").out


def test_serve_at_a_terminal_says_in_one_line_that_it_serves(shop: Path, at_terminal: Command) -> None:
    ran = at_terminal("serve", typed="\x04")
    assert ran.out == ""
    said = f"counterfoil: serving MCP over stdio, 2 tools, configuration {shop / 'counterfoil.toml'}; stop with Ctrl-C"
    assert ran.err.splitlines() == [said]


def test_serve_behind_a_pipe_says_nothing(shop: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "counterfoil", "serve"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=shop,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=30,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == (b"", b"")
