"""How each client is told to start this server, or to reach it: the file, the exact text, a command, and the traps.

One value for each client, checked against the clients' documentation in November 2026, never against a client.
A client's file is printed and never written: it holds other people's servers too. Pure; folders are handed in.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final, Literal

ALL: Final = "all"
TOKEN: Final = "COUNTERFOIL_TOKEN"  # noqa: S105 (the name of a variable)
"""The variable that a client reads the token of the HTTP endpoint from."""
_NOT_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")

Document = dict[str, Any]


class Transport(StrEnum):
    """How a client reaches the server."""

    STDIO = "stdio"
    HTTP = "http"


class System(StrEnum):
    """Where a client runs."""

    LINUX = "Linux"
    MACOS = "macOS"
    WINDOWS = "Windows"


@dataclass(frozen=True, slots=True)
class Machine:
    """The folders that clients keep their settings in; `roaming` is Windows' `%APPDATA%`."""

    system: System
    home: PurePath
    project: PurePath
    config: PurePath
    roaming: PurePath

    @classmethod
    def of(cls, platform: str, home: str, project: str, environment: Mapping[str, str]) -> Machine:
        """The machine that `sys.platform` and the environment describe."""
        system = {"win32": System.WINDOWS, "darwin": System.MACOS}.get(platform, System.LINUX)
        path = PureWindowsPath if system is System.WINDOWS else PurePosixPath
        roaming = environment.get("APPDATA", "")
        config = environment.get("XDG_CONFIG_HOME", "")
        return cls(
            system,
            path(home),
            path(project),
            path(config) if config else path(home) / ".config",
            path(roaming) if roaming else path(home) / "AppData" / "Roaming",
        )


@dataclass(frozen=True, slots=True)
class Target:
    """The server that a client is to use: what starts it, and where it listens over HTTP."""

    name: str
    command: str
    arguments: tuple[str, ...]
    url: str

    @property
    def stdio(self) -> Document:
        """What most clients' settings take for a server that they start."""
        return {"command": self.command, "args": list(self.arguments)}

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that starts it."""
        return (self.command, *self.arguments)


@dataclass(frozen=True, slots=True)
class Setup:
    """What one client needs. `text` is empty where it cannot be reached so; `notes` are its traps."""

    client: str
    title: str
    file: str
    form: Literal["json", "toml"]
    text: str
    command: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Client:
    """One client: where its settings lie and how they are written; `None` where it cannot be reached so."""

    title: str
    form: Literal["json", "toml"]
    place: Callable[[Machine], PurePath]
    stdio: Callable[[Target], str]
    http: Callable[[Target], str] | None
    stdio_command: Callable[[Target], tuple[str, ...]] | None = None
    http_command: Callable[[Target], tuple[str, ...]] | None = None
    notes: tuple[str, ...] = ()
    stdio_notes: tuple[str, ...] = ()
    http_notes: tuple[str, ...] = ()


def setup(client: str, target: Target, machine: Machine, transport: Transport = Transport.STDIO) -> Setup:
    """How `client`, a key of `CLIENTS`, is set up on this machine."""
    chosen = CLIENTS[client]
    over_http = transport is Transport.HTTP
    write = chosen.http if over_http else chosen.stdio
    command = chosen.http_command if over_http else chosen.stdio_command
    return Setup(
        client=client,
        title=chosen.title,
        file=str(chosen.place(machine)),
        form=chosen.form,
        text=write(target) if write else "",
        command=_line(command(target), machine.system) if command else None,
        notes=(*chosen.notes, *(chosen.http_notes if over_http else chosen.stdio_notes)),
    )


def entry_name(server_name: str) -> str:
    """The server's name as every client takes it: letters, digits, `_` and `-`."""
    return _NOT_NAME.sub("-", server_name).strip("-") or "counterfoil"


def _line(words: tuple[str, ...], system: System) -> str:
    return subprocess.list2cmdline(words) if system is System.WINDOWS else shlex.join(words)


def _json(document: Document) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _servers(name: str, entry: Document) -> str:
    return _json({"mcpServers": {name: entry}})


def _bearer(reference: str) -> Document:
    return {"Authorization": f"Bearer {reference}"}


def _claude_desktop(machine: Machine) -> PurePath:
    folder = {
        System.WINDOWS: machine.roaming,
        System.MACOS: machine.home / "Library" / "Application Support",
        System.LINUX: machine.config,
    }[machine.system]
    return folder / "Claude" / "claude_desktop_config.json"


def _claude_code_http(target: Target) -> str:
    entry = {"type": "http", "url": target.url, "headers": _bearer(f"${{{TOKEN}}}")}
    return _servers(target.name, entry)


def _claude_code_http_command(target: Target) -> tuple[str, ...]:
    header = f"Authorization: Bearer ${{{TOKEN}}}"
    return ("claude", "mcp", "add", "--transport", "http", target.name, target.url, "--header", header)


def _vscode(target: Target) -> str:
    return _json({"servers": {target.name: {"type": "stdio", **target.stdio}}})


def _vscode_http(target: Target) -> str:
    asked = {"type": "promptString", "id": "counterfoil-token", "description": "Counterfoil token", "password": True}
    entry = {"type": "http", "url": target.url, "headers": _bearer("${input:counterfoil-token}")}
    return _json({"inputs": [asked], "servers": {target.name: entry}})


def _cursor_http(target: Target) -> str:
    return _servers(target.name, {"url": target.url, "headers": _bearer(f"${{env:{TOKEN}}}")})


def _codex(target: Target) -> str:
    arguments = ", ".join(toml_string(argument) for argument in target.arguments)
    return (
        f"[mcp_servers.{target.name}]\n"
        f"command = {toml_string(target.command)}\n"
        f"args = [{arguments}]\n"
        "startup_timeout_sec = 30\n"
        "tool_timeout_sec = 60"
    )


def _codex_http(target: Target) -> str:
    return (
        f"[mcp_servers.{target.name}]\n"
        f"url = {toml_string(target.url)}\n"
        f"bearer_token_env_var = {toml_string(TOKEN)}\n"
        "tool_timeout_sec = 60"
    )


def toml_string(value: str) -> str:
    """A basic string of TOML: JSON's, with DEL escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


_TOKEN_NOTE: Final = f"Start it with {TOKEN} set in its environment; the token itself never stands in the file."
_LASTING: Final = "A token that the server makes changes with each of its starts; one of [[auth.tokens]] stays."
_DEFERS: Final = 'It defers tools by itself, so that `[server] visibility = "all"` may fit: your tools by name.'
_ENVIRONMENT: Final = "It starts the server without your shell's variables: prefer file:PATH to env:NAME for secrets."

CLIENTS: Final[Mapping[str, Client]] = {
    "claude-desktop": Client(
        title="Claude Desktop",
        form="json",
        place=_claude_desktop,
        stdio=lambda target: _servers(target.name, target.stdio),
        http=None,
        notes=(
            "Quit it whole and start it again after a change; it passes over a file that is not JSON without a word.",
            "It gives up on a call after about 60 s, which cannot be changed; answers here come after 45 s at most.",
            "It shows no forms of a server: what needs a person is decided in a terminal.",
        ),
        stdio_notes=(_ENVIRONMENT,),
        http_notes=("Its file takes servers that it starts itself; use stdio.",),
    ),
    "claude-code": Client(
        title="Claude Code",
        form="json",
        place=lambda machine: machine.project / ".mcp.json",
        stdio=lambda target: _servers(target.name, {"type": "stdio", **target.stdio}),
        http=_claude_code_http,
        stdio_command=lambda target: ("claude", "mcp", "add", target.name, "--", *target.words),
        http_command=_claude_code_http_command,
        notes=(
            "The command adds it for this folder alone; with `--scope user` before the name, for all of yours.",
            "It asks once before it uses a server of .mcp.json; `claude mcp list` says whether it is connected.",
            "Slow starts: MCP_TIMEOUT; long calls: MCP_TOOL_TIMEOUT, both in milliseconds, in its environment.",
            _DEFERS,
        ),
        http_notes=(_TOKEN_NOTE, _LASTING),
    ),
    "vscode": Client(
        title="VS Code",
        form="json",
        place=lambda machine: machine.project / ".vscode" / "mcp.json",
        stdio=_vscode,
        http=_vscode_http,
        stdio_command=lambda t: ("code", "--add-mcp", json.dumps({"name": t.name, "type": "stdio", **t.stdio})),
        notes=(
            "Its key is `servers`, not `mcpServers`; for all folders: its command `MCP: Open User Configuration`.",
            "It asks whether you trust the server when it starts it first, and uses tools in agent mode only.",
        ),
        http_notes=("It asks for the token once and keeps it; the token never stands in the file.", _LASTING),
    ),
    "cursor": Client(
        title="Cursor",
        form="json",
        place=lambda machine: machine.home / ".cursor" / "mcp.json",
        stdio=lambda target: _servers(target.name, target.stdio),
        http=_cursor_http,
        notes=(
            "For one folder alone: .cursor/mcp.json in it. Switch the server on under its MCP settings if it is off.",
            "Many tools at once make it choose worse (about 40 is said to be too many): keep the default visibility.",
        ),
        stdio_notes=(_ENVIRONMENT,),
        http_notes=(_TOKEN_NOTE, _LASTING),
    ),
    "codex": Client(
        title="Codex",
        form="toml",
        place=lambda machine: machine.home / ".codex" / "config.toml",
        stdio=_codex,
        http=_codex_http,
        stdio_command=lambda target: ("codex", "mcp", "add", target.name, "--", *target.words),
        notes=(
            "Unless told otherwise it gives a start 10 s and a call 60 s. The command cannot say more; the text does.",
        ),
        stdio_notes=("It passes few variables on: use file:PATH for secrets, or name them under `env_vars`.",),
        http_notes=(_TOKEN_NOTE, _LASTING),
    ),
}
