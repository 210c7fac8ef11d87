"""Each client's text is what that client reads, names this very program, and starts a server that answers."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from counterfoil.server.cli.clients import (
    CLIENTS,
    TOKEN,
    Machine,
    Setup,
    System,
    Target,
    Transport,
    entry_name,
    setup,
)

Command = Callable[..., Any]
ROOT = Path(__file__).parents[2]
TARGET = Target(
    "shop-desk",
    '/opt/py "3"/python',
    ("-m", "counterfoil", "serve", "--config", "/home/ines/my tools/counterfoil.toml"),
    "http://127.0.0.1:8765/mcp",
)
MACHINE = Machine.of("linux", "/home/ines", "/home/ines/my tools", {})
ENTRIES = {
    "claude-desktop": "mcpServers",
    "claude-code": "mcpServers",
    "vscode": "servers",
    "cursor": "mcpServers",
    "codex": "mcp_servers",
}


def entry_of(found: Setup) -> dict[str, Any]:
    """The server's own entry, as the client would find it."""
    document = tomllib.loads(found.text) if found.form == "toml" else json.loads(found.text)
    entry: dict[str, Any] = document[ENTRIES[found.client]]["shop-desk"]
    return entry


def test_every_client_of_the_issue_is_here() -> None:
    assert set(CLIENTS) == set(ENTRIES)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_text_for_stdio_parses_and_holds_the_command_unharmed(client: str) -> None:
    entry = entry_of(setup(client, TARGET, MACHINE))
    assert [entry["command"], *entry["args"]] == list(TARGET.words)
    assert entry.get("type") == ("stdio" if client in {"claude-code", "vscode"} else None)


@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "claude-desktop"])
def test_the_text_for_http_has_the_address_and_a_reference_in_the_place_of_the_token(client: str) -> None:
    found = setup(client, TARGET, MACHINE, Transport.HTTP)
    entry = entry_of(found)
    assert entry["url"] == TARGET.url
    header = entry.get("headers", {}).get("Authorization", "")
    references = {
        "claude-code": f"Bearer ${{{TOKEN}}}",
        "vscode": "Bearer ${input:counterfoil-token}",
        "cursor": f"Bearer ${{env:{TOKEN}}}",
        "codex": "",
    }
    assert header == references[client]
    assert client != "codex" or entry["bearer_token_env_var"] == TOKEN
    if client == "vscode":
        (asked,) = json.loads(found.text)["inputs"]
        assert (asked["id"], asked["password"]) == ("counterfoil-token", True)


def test_a_client_that_takes_no_address_says_so_and_has_no_text() -> None:
    found = setup("claude-desktop", TARGET, MACHINE, Transport.HTTP)
    assert found.text == ""
    assert "use stdio" in found.notes[-1]


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("claude-code", ["claude", "mcp", "add", "shop-desk", "--", *TARGET.words]),
        ("codex", ["codex", "mcp", "add", "shop-desk", "--", *TARGET.words]),
    ],
)
def test_the_command_of_a_client_survives_the_shell(client: str, words: list[str]) -> None:
    command = setup(client, TARGET, MACHINE).command
    assert command is not None
    assert shlex.split(command) == words


def test_the_header_stands_after_the_address_because_it_takes_every_word_that_follows() -> None:
    command = setup("claude-code", TARGET, MACHINE, Transport.HTTP).command
    assert command is not None
    words = shlex.split(command)
    assert words[-4:] == ["shop-desk", TARGET.url, "--header", f"Authorization: Bearer ${{{TOKEN}}}"]


def test_the_command_of_vs_code_holds_the_entry_as_json() -> None:
    command = setup("vscode", TARGET, MACHINE).command
    assert command is not None
    program, option, text = shlex.split(command)
    assert (program, option) == ("code", "--add-mcp")
    assert json.loads(text) == {"name": "shop-desk", "type": "stdio", **TARGET.stdio}


@pytest.mark.parametrize(
    ("platform", "environment", "file"),
    [
        ("linux", {}, "/home/ines/.config/Claude/claude_desktop_config.json"),
        ("linux", {"XDG_CONFIG_HOME": "/conf"}, "/conf/Claude/claude_desktop_config.json"),
        ("darwin", {}, "/home/ines/Library/Application Support/Claude/claude_desktop_config.json"),
    ],
)
def test_the_file_of_claude_desktop_lies_where_the_system_keeps_it(
    platform: str, environment: dict[str, str], file: str
) -> None:
    assert setup("claude-desktop", TARGET, Machine.of(platform, "/home/ines", "/p", environment)).file == file


def test_on_windows_paths_and_commands_are_windows_own() -> None:
    machine = Machine.of("win32", r"C:\Users\Ines", r"C:\tools", {"APPDATA": r"C:\Users\Ines\AppData\Roaming"})
    assert machine.system is System.WINDOWS
    target = replace(TARGET, command=r"C:\Program Files\Python\python.exe")
    files = {client: setup(client, target, machine).file for client in CLIENTS}
    assert files == {
        "claude-desktop": r"C:\Users\Ines\AppData\Roaming\Claude\claude_desktop_config.json",
        "claude-code": r"C:\tools\.mcp.json",
        "vscode": r"C:\tools\.vscode\mcp.json",
        "cursor": r"C:\Users\Ines\.cursor\mcp.json",
        "codex": r"C:\Users\Ines\.codex\config.toml",
    }
    assert entry_of(setup("codex", target, machine))["command"] == target.command
    command = setup("codex", target, machine).command
    assert command is not None
    assert r'"C:\Program Files\Python\python.exe"' in command


@pytest.mark.parametrize(
    ("name", "entry"),
    [("counterfoil", "counterfoil"), ("shop desk", "shop-desk"), ("żółć", "counterfoil"), ("a.b", "a-b")],
)
def test_the_name_is_one_that_every_client_takes(name: str, entry: str) -> None:
    assert entry_name(name) == entry


@pytest.mark.usefixtures("shop")
def test_doctor_shows_each_client_with_file_text_and_traps_and_writes_none(folder: Path, command: Command) -> None:
    before = sorted(folder.rglob("*"))
    answer = command("doctor", "--client", "all", "--json").answer
    assert [client["client"] for client in answer["clients"]] == list(CLIENTS)
    assert all(client["notes"] and client["file"] and client["text"] for client in answer["clients"])
    shown = command("doctor", "--client", "vscode").out
    assert str(folder / ".vscode" / "mcp.json") in shown
    assert "not `mcpServers`" in shown
    assert sorted(folder.rglob("*")) == before


@pytest.mark.usefixtures("shop")
def test_a_text_can_be_copied_whole_at_a_narrow_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    shown = command("doctor", "--client", "cursor").out
    document, _ = json.JSONDecoder().raw_decode(shown[shown.index("{") :])
    assert document["mcpServers"]["counterfoil"]["command"] == sys.executable


def test_over_http_the_address_is_the_configured_one(shop: Path, command: Command) -> None:
    configuration = shop / "counterfoil.toml"
    configuration.write_text(configuration.read_text().replace("[server]", "[server]\nport = 9123"))
    answer = command("doctor", "--client", "codex", "--transport", "http", "--json").answer
    assert 'url = "http://127.0.0.1:9123/mcp"' in answer["clients"][0]["text"]


def test_an_unknown_client_and_an_absent_configuration_are_wrong_usage(command: Command) -> None:
    unknown = command("doctor", "--client", "netscape")
    assert unknown.exit_code == 2
    assert "claude-desktop" in unknown.err
    absent = command("doctor", "--client", "codex")
    assert (absent.exit_code, "counterfoil init" in absent.err) == (2, True)


@pytest.mark.anyio
async def test_what_stands_in_a_text_starts_a_server_that_lists_its_tools(shop: Path, command: Command) -> None:
    (told,) = command("doctor", "--client", "codex", "--json").answer["clients"]
    entry = tomllib.loads(told["text"])["mcp_servers"]["counterfoil"]
    server = StdioServerParameters(
        command=entry["command"], args=entry["args"], cwd="/", env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    with (shop / "server.log").open("w") as log:
        async with Client(stdio_client(server, errlog=log), read_timeout_seconds=30) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"tool_search", "tool_call"} <= names
