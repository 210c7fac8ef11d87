"""`init` writes a configuration that holds, and never over somebody's work."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.cli.initialise import Answers, configuration_text, toml_string

Command = Callable[..., Any]


def test_init_writes_a_configuration_and_says_what_comes_next(folder: Path, command: Command) -> None:
    ran = command("init")
    assert ran.exit_code == 0
    assert "counterfoil check" in ran.out
    assert tomllib.loads((folder / "counterfoil.toml").read_text())["server"]["name"] == "counterfoil"
    assert [path.name for path in folder.iterdir()] == ["counterfoil.toml"]


def test_init_as_json_names_the_files_and_the_command_for_a_client(folder: Path, command: Command) -> None:
    answer = command("init", "--example", "--json").answer
    assert answer["written"] == ["counterfoil.toml", "example_tools.py"]
    assert answer["stdio"]["args"][-1] == str(folder / "counterfoil.toml")


def test_the_settings_for_a_client_can_be_copied_whole(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    ran = command("init")
    settings = json.loads(ran.out[ran.out.index("{") :])
    server = settings["mcpServers"]["counterfoil"]
    assert [server["command"], *server["args"][:3]] == [sys.executable, "-m", "counterfoil", "serve"]


@pytest.mark.parametrize("there", ["counterfoil.toml", "example_tools.py"])
def test_init_leaves_everything_alone_if_one_file_is_there(folder: Path, command: Command, there: str) -> None:
    (folder / there).write_text("mine")
    ran = command("init", "--example", "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (1, "exists")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(there, "mine")]


def test_force_writes_over_it(folder: Path, command: Command) -> None:
    (folder / "counterfoil.toml").write_text("mine")
    assert command("init", "--force").exit_code == 0
    assert (folder / "counterfoil.toml").read_text() != "mine"


def test_at_a_terminal_init_asks_and_writes_the_answers(folder: Path, at_terminal: Command) -> None:
    (folder / "shop_tools.py").write_text("")
    ran = at_terminal("init", typed="shop desk\nInes\nshop_tools\n")
    assert ran.exit_code == 0, ran.err
    written = tomllib.loads((folder / "counterfoil.toml").read_text())
    assert written["server"]["name"] == "shop desk"
    assert written["principals"]["local"]["subject"] == "Ines"
    assert written["python"]["modules"] == ["shop_tools"]


def test_a_module_that_is_not_there_is_left_out_and_said(folder: Path, at_terminal: Command) -> None:
    ran = at_terminal("init", typed="\n\nnot_here\n")
    assert "no module not_here" in ran.out
    assert tomllib.loads((folder / "counterfoil.toml").read_text())["python"]["modules"] == []


def test_a_place_that_cannot_be_written_is_wrong_usage(command: Command) -> None:
    ran = command("init", "--config", "absent/counterfoil.toml")
    assert ran.exit_code == 2
    assert ran.err.startswith("counterfoil: cannot write absent/counterfoil.toml here: ")


def test_the_end_of_the_input_instead_of_an_answer_writes_nothing(folder: Path, at_terminal: Command) -> None:
    ran = at_terminal("init", typed="\x04")
    assert ran.exit_code == 1
    assert "nothing was typed; nothing was written" in ran.err
    assert not (folder / "counterfoil.toml").exists()


@pytest.mark.parametrize("name", ['a "quoted" name', "back\\slash", "tab\tand\x7f", "żółć"])
def test_any_name_survives_the_file(name: str) -> None:
    assert tomllib.loads(f"x = {toml_string(name)}")["x"] == name
    text = configuration_text(Answers(name, name), example=False)
    assert tomllib.loads(text)["principals"]["local"]["subject"] == name
