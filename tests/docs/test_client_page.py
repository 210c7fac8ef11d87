"""The page about clients shows, for each, exactly what `doctor --client` would print for its example."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.server.cli.clients import CLIENTS, Machine, Target, Transport, setup

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "connect-a-client.md").read_text()
FOLDER = "/home/ines/my-tools"
SERVE = ("-m", "counterfoil", "serve", "--config", f"{FOLDER}/counterfoil.toml")
TARGET = Target("counterfoil", f"{FOLDER}/.venv/bin/python", SERVE, "http://127.0.0.1:8765/mcp")
MACHINES = [
    Machine.of("linux", "/home/ines", FOLDER, {}),
    Machine.of("darwin", "/Users/ines", "/Users/ines/my-tools", {}),
    Machine.of("win32", r"C:\Users\ines", r"C:\Users\ines\my-tools", {}),
]


def part_of(title: str) -> str:
    """One client's part of the page."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_page_has_each_clients_files_texts_commands_and_traps(client: str) -> None:
    part = part_of(CLIENTS[client].title)
    for machine in MACHINES:
        assert f"| {machine.system} | `{setup(client, TARGET, machine).file}` |" in part
    for transport in Transport:
        found = setup(client, TARGET, MACHINES[0], transport)
        assert f"```{found.form}\n{found.text}\n```" in part or not found.text
        assert f"```text\n{found.command}\n```" in part or not found.command
        assert [note for note in found.notes if note not in part] == []
