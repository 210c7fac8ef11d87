"""The page of the command line names every command, every option and every exit code that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from counterfoil.server.cli.commands import app
from counterfoil.server.cli.exits import Exit

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()


def commands(command: Any, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """Each command in full, with its options."""
    if subcommands := getattr(command, "commands", None):
        for word, sub in subcommands.items():
            yield from commands(sub, f"{name} {word}".strip())
        return
    yield name, {option for given in command.params for option in given.opts if option.startswith("--")}


def test_the_page_has_every_command_with_its_options() -> None:
    rows = {match[1]: match[0] for match in re.finditer(r"^\| `([a-z]+(?: [a-z]+)?).*$", PAGE, re.MULTILINE)}
    there = dict(commands(typer.main.get_command(app)))
    assert set(rows) == set(there)
    missing = {
        name: options - set(re.findall(r"--[a-z-]+", rows[name])) - {"--help"} for name, options in there.items()
    }
    assert {name: options for name, options in missing.items() if options} == {}


def test_the_page_has_every_exit_code() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == [code.value for code in Exit]
