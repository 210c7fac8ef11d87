"""A command line that runs in this process, and one at a real terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.cli import main

ROOT = Path(__file__).parents[2]
LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What one command did."""

    exit_code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Command = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, outside of which nothing is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def command(folder: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command line in this process, in the folder, without a terminal."""
    assert folder.exists()

    def run(*arguments: str) -> Ran:
        capfd.readouterr()
        exit_code = main(arguments)
        captured = capfd.readouterr()
        return Ran(exit_code, captured.out, captured.err)

    return run


@pytest.fixture
def shop(folder: Path, command: Command) -> Path:
    """A folder in which `init --example` was run, with a ledger of its own."""
    assert command("init", "--example").exit_code == 0
    configuration = folder / "counterfoil.toml"
    local = '[ledger]\nurl = "sqlite+aiosqlite:///ledger/test.db"\n'
    configuration.write_text(configuration.read_text().replace("[principals.local]", f"{local}[principals.local]"))
    return folder


@pytest.fixture
def at_terminal(folder: Path) -> Command:
    """Run a command line in a process at a terminal of its own, where a person types these lines."""

    def run(*arguments: str, typed: str = "") -> Ran:
        person, terminal = pty.openpty()
        try:
            os.write(person, typed.encode())
            ran = subprocess.run(
                [sys.executable, "-m", "counterfoil", *arguments],
                stdin=terminal,
                capture_output=True,
                cwd=folder,
                env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""},  # or each compiles it all
                timeout=LIMIT_S,
                check=False,
            )
        finally:
            os.close(person)
            os.close(terminal)
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    return run
