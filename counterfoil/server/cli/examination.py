"""`doctor`: prints what was found, and how a client is set up. It changes nothing, and a client's file least of all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...visible import visible
from .clients import ALL, CLIENTS, Machine, Setup, Target, Transport, entry_name, setup
from .exits import Exit, usage
from .invocation import Invocation
from .screen import Screen

if TYPE_CHECKING:
    from ..doctor import Basis, Finding

_STYLES: Final = {"ok": "green", "note": "yellow", "problem": "red"}
_LISTENS: Final = ("127.0.0.1", 8765)
"""Where the server listens over HTTP unless the configuration says otherwise."""


def doctor(invocation: Invocation, client: str | None, transport: Transport) -> int:
    """Look and report; with a client, show how it is set up instead."""
    from ..doctor import examine, read_basis  # noqa: PLC0415 (no other command needs the checks)

    basis = read_basis(invocation.config, Path.cwd())
    screen = Screen.of(invocation)
    if client is not None:
        _show_clients(screen, basis, chosen_clients(client), transport)
        return Exit.DONE
    findings = examine(basis)
    wrong = sum(finding.level == "problem" for finding in findings)
    answer = {
        "ok": not wrong,
        "config": str(basis.path) if basis.path else None,
        "findings": [asdict(finding) for finding in findings],
    }
    screen.answer(answer, _report(findings, wrong))
    return Exit.NO if wrong else Exit.DONE


def chosen_clients(name: str) -> tuple[str, ...]:
    """The clients that were asked for.

    Raises:
        CommandError: there is none of that name.
    """
    if name != ALL and name not in CLIENTS:
        raise usage(f"--client: expected {', '.join(CLIENTS)} or {ALL}, got {name!r}")
    return tuple(CLIENTS) if name == ALL else (name,)


def target_of(config: Path, server: str, listens: tuple[str, int] = _LISTENS) -> Target:
    """How this very program is started for that configuration."""
    arguments = ("-m", "counterfoil", "serve", "--config", str(config.absolute()))
    host, port = listens
    return Target(entry_name(server), sys.executable, arguments, f"http://{_in_url(host)}:{port}/mcp")


def setups(target: Target, config: Path, clients: Iterable[str], transport: Transport) -> list[Setup]:
    """How these clients are set up on this machine."""
    machine = Machine.of(sys.platform, str(Path.home()), str(config.absolute().parent), os.environ)
    return [setup(client, target, machine, transport) for client in clients]


def lines_of(found: Setup, *, notes: bool = False) -> Iterator[str]:
    """One client's part, to be copied whole."""
    yield found.title
    if found.command:
        yield f"run    {found.command}"
    if found.text:
        yield f"{'or in' if found.command else 'in':6} {found.file}"
        yield from found.text.splitlines()
    if notes:
        yield from ("", *(f"- {text}" for text in found.notes))
    yield ""


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _show_clients(screen: Screen, basis: Basis, clients: tuple[str, ...], transport: Transport) -> None:
    """An unreadable configuration is set up all the same: its path is what a client needs."""
    if basis.path is None:
        raise usage(f"{basis.problems[0]}; `counterfoil init` writes one, --config F names one")
    server = basis.configuration.server if basis.configuration else None
    listens = (server.host, server.port) if server else _LISTENS
    found = setups(target_of(basis.path, server.name if server else "", listens), basis.path, clients, transport)
    answer = {"ok": True, "config": str(basis.path), "transport": transport, "clients": [asdict(one) for one in found]}
    head = Text("Nothing is written: put each text into the file yourself, beside what is there.", style="dim")
    screen.answer(answer, head, ["", *(line for one in found for line in lines_of(one, notes=True))])


def _report(findings: Iterable[Finding], wrong: int) -> RenderableType:
    table: Any = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    table.add_column(overflow="fold", ratio=3)
    for finding in findings:
        told = Text(visible(finding.what))
        if finding.do:
            told.append(f"\n> {visible(finding.do)}", style="dim" if finding.level == "note" else "bold")
        table.add_row(Text(finding.level, style=_STYLES[finding.level]), finding.check, told)
    end = f"{wrong} problem{'' if wrong == 1 else 's'} to solve." if wrong else "Nothing found that stops work."
    return Group(table, Text(f"\n{end}", style="red" if wrong else "green"))
