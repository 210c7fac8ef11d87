"""Wrong lines end with 2 and say what was expected; in `--json` mode as JSON on stdout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from counterfoil.server.cli import main
from counterfoil.server.cli.commands import app
from counterfoil.server.cli.later import refuse

Command = Callable[..., Any]

WRONG_LINES = [
    ["nonsense"],
    ["call"],
    ["call", "t", "--nonsense"],
    ["call", "t", "--wait", "soon"],
    ["tools"],
    ["ledger", "nonsense"],
    ["reconcile", "call_1", "--resolution", "maybe"],
    ["reconcile", "call_1", "--resolution", "happened"],
    ["reconcile", "call_1", "--resolution", "happened", "--evidence", " "],
    ["reconcile", "call_1", "--evidence", "I saw it"],
    ["reconcile", "call_1", "--then", "retry"],
    ["reconcile", "call_1", "--resolution", "happened", "--evidence", "e", "--then", "fail"],
    ["reconcile", "call_1", "--resolution", "not_happened", "--evidence", "e", "--output", "{}"],
    ["serve", "--nonsense"],
    ["serve", "--transport", "carrier-pigeon"],
    ["check", "--config"],
    ["call", "t", "--key", "k" * 201],
    ["status", "\udcff"],
    ["reconcile", "\udcff"],
    ["approvals", "show", "\udcff"],
    ["call", "t", "--key", "\udcff"],
    ["reconcile", "call_1", "--resolution", "happened", "--evidence", "\udcff"],
]


@pytest.mark.parametrize("line", WRONG_LINES, ids=ascii)
def test_wrong_usage_ends_with_2_and_is_explained_as_json(command: Command, line: list[str]) -> None:
    ran = command("--json", *line)
    assert ran.exit_code == 2
    assert ran.answer["ok"] is False
    assert ran.answer["error"]["code"] == "usage"
    assert ran.answer["error"]["message"]


def test_without_json_the_explanation_goes_to_stderr(command: Command) -> None:
    ran = command("reconcile", "call_1", "--resolution", "happened")
    assert (ran.exit_code, ran.out) == (2, "")
    assert "--evidence" in ran.err


def test_bytes_that_are_no_text_are_shown_as_what_they_are(command: Command) -> None:
    ran = command("status", "call_\udcff")
    assert (ran.exit_code, ran.out) == (2, "")
    assert "call_\\udcff" in ran.err
    assert "UTF-8" in ran.err


def test_the_name_of_a_file_may_have_them(command: Command) -> None:
    ran = command("--json", "ledger", "verify", "\udcff")
    assert "UTF-8" not in ran.answer["error"]["message"]


def test_a_line_without_a_command_shows_the_help_and_ends_with_2(command: Command) -> None:
    ran = command()
    assert (ran.exit_code, ran.out) == (2, "")
    assert "Commands:" in ran.err


@pytest.mark.parametrize("line", [["--help"], ["ledger", "--help"], ["call", "--help"]])
def test_help_is_an_answer(command: Command, line: list[str]) -> None:
    ran = command(*line)
    assert ran.exit_code == 0
    assert "--json" in ran.out


LATER = [
    ["signal", "r", "s"],
    *(["import", "f"], ["worker"], ["console", "--help"], ["tools", "pin"]),
]


@pytest.mark.parametrize("line", LATER, ids=" ".join)
def test_a_command_of_a_later_version_is_named_as_such(command: Command, line: list[str]) -> None:
    ran = command("--json", *line)
    assert (ran.exit_code, ran.answer["error"]["code"]) == (2, "not_available")
    assert "not available in this version" in ran.answer["error"]["message"]


def test_a_command_that_is_there_is_never_called_a_later_one() -> None:
    there = SimpleNamespace(commands={"pin": None})
    refuse(["bench"], {"bench": None})
    refuse(["tools", "pin"], {"tools": there})


def every_command(group: Any, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = getattr(group, "commands", None)
    if inner is None:
        return [words]
    return [line for word, command in inner.items() for line in every_command(command, (*words, word))]


@pytest.mark.parametrize("line", every_command(typer.main.get_command(app)), ids=" ".join)
def test_the_help_of_every_command_has_a_line_to_try(
    command: Command, capfd: pytest.CaptureFixture[str], line: tuple[str, ...]
) -> None:
    if line == ("serve",):
        with pytest.raises(SystemExit):
            main(["serve", "--help"])
        shown = capfd.readouterr().out
    else:
        shown = command(*line, "--help").out
    assert f"Example: counterfoil {' '.join(line)}" in " ".join(shown.split())


def test_colours_are_for_terminals_and_not_for_those_who_refuse_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert folder.exists()
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["doctor"])
    assert "\x1b[3" in capfd.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["doctor"])
    assert "\x1b[3" not in capfd.readouterr().out


def test_serve_loads_neither_typer_nor_rich(tmp_path: Path) -> None:
    script = """
import sys
from counterfoil.server.cli import main
try:
    main(["serve", "--help"])
except SystemExit:
    pass
sys.exit(any(name.split(".")[0] in ("typer", "rich") for name in sys.modules))
"""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
        timeout=30,
        check=False,
        capture_output=True,
    )
    assert ran.returncode == 0, ran.stderr.decode()
