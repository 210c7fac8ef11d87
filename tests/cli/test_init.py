"""`init` writes a configuration that holds, and never over somebody's work."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.cli.clients import CLIENTS, toml_string
from counterfoil.server.cli.initialise import configuration_text
from counterfoil.server.cli.questions import Answers
from counterfoil.server.config import ConfigError, later
from counterfoil.server.config.load import parse

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
    ran = command("init", "--client", "cursor")
    settings, _ = json.JSONDecoder().raw_decode(ran.out, ran.out.index("{"))
    server = settings["mcpServers"]["counterfoil"]
    assert [server["command"], *server["args"][:3]] == [sys.executable, "-m", "counterfoil", "serve"]


def test_without_a_terminal_it_asks_nothing_and_shows_every_client(command: Command) -> None:
    shown = command("init").out
    assert all(client.title in shown for client in CLIENTS.values())
    assert shown.splitlines()[-1] == "  counterfoil doctor"  # what to type next is not above a screenful of clients


def test_an_unknown_client_is_refused_before_anything_is_written(folder: Path, command: Command) -> None:
    assert command("init", "--client", "netscape").exit_code == 2
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("example", [True, False])
def test_what_is_written_passes_the_check_and_only_the_example_has_tools(command: Command, *, example: bool) -> None:
    command("init", *(["--example"] if example else []))
    ran = command("check", "--json")
    assert (ran.exit_code, ran.answer["ok"], bool(ran.answer["tools"])) == (0, True, example)


def test_the_http_tool_that_is_commented_out_is_one_of_ten_lines(folder: Path, command: Command) -> None:
    command("init")
    text = (folder / "counterfoil.toml").read_text()
    after = text.partition('Take the "# " of these lines away')[2].splitlines()[1:]
    lines = [line.removeprefix("# ") for line in takewhile(lambda line: line.startswith("# "), after)]
    written = tomllib.loads("\n".join(lines))
    assert len(lines) == 10
    assert written["http"]["allow_hosts"] == ["orders.example"]
    tool = written["tools"]["orders_get"]
    assert (tool["effect"], tool["input"], tool["http"]["method"]) == ("read", {"order_id": "string"}, "GET")
    assert tool["http"]["url"] == "https://orders.example/orders/{order_id}"


def problems_of(text: str, path: Path) -> set[str]:
    try:
        parse(text, path)
    except ConfigError as error:
        return {problem.message for problem in error.problems}
    return set()


def test_with_its_comment_signs_taken_away_nothing_is_wrong_with_it(folder: Path, command: Command) -> None:
    command("init")
    text = (folder / "counterfoil.toml").read_text()
    head, _, rest = text.partition("# [http]\n")
    tool, end, tail = rest.partition("stands nowhere here\n")
    uncommented = head + "[http]\n" + re.sub(r"^# ", "", tool + end, flags=re.MULTILINE) + tail
    assert problems_of(uncommented, folder / "counterfoil.toml") <= {later.MESSAGE}


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
    ran = at_terminal("init", typed="shop desk\nInes\nmodule\nshop_tools\nallow\ndeny\ncodex\n")
    assert ran.exit_code == 0, ran.err
    written = tomllib.loads((folder / "counterfoil.toml").read_text())
    assert written["server"]["name"] == "shop desk"
    assert written["principals"]["local"]["subject"] == "Ines"
    assert written["python"]["modules"] == ["shop_tools"]
    assert written["policy_defaults"] == {"read": "allow", "write": "allow", "destructive": "deny"}
    assert "[mcp_servers.shop-desk]" in ran.out
    assert "mcpServers" not in ran.out


def test_somebody_who_only_presses_return_gets_the_safe_defaults(folder: Path, at_terminal: Command) -> None:
    ran = at_terminal("init", typed="\n" * 6)
    assert ran.exit_code == 0, ran.err
    written = tomllib.loads((folder / "counterfoil.toml").read_text())
    assert written["python"]["modules"] == []
    assert written["policy_defaults"] == {"read": "allow", "write": "approve", "destructive": "approve"}


def test_the_example_can_be_chosen_at_the_terminal(folder: Path, at_terminal: Command) -> None:
    ran = at_terminal("init", typed="\n\nexample\n\n\nnone\n")
    assert ran.exit_code == 0, ran.err
    assert (folder / "example_tools.py").is_file()
    assert "mcpServers" not in ran.out


def test_a_chosen_example_writes_over_nothing(folder: Path, at_terminal: Command) -> None:
    (folder / "example_tools.py").write_text("mine")
    ran = at_terminal("init", typed="\n\nexample\n\n\nnone\n")
    assert ran.exit_code == 1
    assert [path.name for path in folder.iterdir()] == ["example_tools.py"]


def test_an_address_goes_into_the_http_tool(folder: Path, at_terminal: Command) -> None:
    ran = at_terminal("init", typed="\n\nhttp\nftp://x\nhttp://127.0.0.1:9000/api/\n\n\nnone\n")
    assert ran.exit_code == 0, ran.err
    assert "Expected an address" in ran.out
    text = (folder / "counterfoil.toml").read_text()
    assert '# allow_hosts = ["127.0.0.1:9000"]' in text
    assert '# url = "http://127.0.0.1:9000/api/orders/{order_id}"' in text


def test_an_answer_that_cannot_be_used_is_asked_for_again_at_once(folder: Path, at_terminal: Command) -> None:
    ran = at_terminal("init", typed="\n\ncarrier pigeon\nmodule\nnot_here\n2nd\n\nperhaps\nask\n\nnone\n")
    assert ran.exit_code == 0, ran.err
    for said in ("got 'carrier pigeon'", "no module not_here", "got '2nd'", "got 'perhaps'"):
        assert said in " ".join(ran.out.split())
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
    text = configuration_text(Answers(name, name))
    assert tomllib.loads(text)["principals"]["local"]["subject"] == name
