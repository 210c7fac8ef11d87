"""The arrows between the rooms hold, and the checker that guards them reports each kind of violation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def lint_imports(folder: Path) -> tuple[bool, str]:
    """Whether every contract was kept, and what the checker said. `folder` itself is what is read."""
    program = "import sys; sys.path.insert(0, ''); from importlinter.cli import lint_imports_command as c; c()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return done.returncode == 0, done.stdout


@pytest.fixture
def rooms(copy: Path, tmp_path: Path) -> Path:
    """A copy of the package that a test may spoil."""
    shutil.copytree(copy / "counterfoil", tmp_path / "counterfoil")
    shutil.copy(copy / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.promise("HOUSE-2")
def test_every_arrow_between_the_rooms_holds(rooms: Path) -> None:
    kept, said = lint_imports(rooms)
    assert kept, said


@pytest.mark.promise("HOUSE-2")
@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("tools", "from .. import runtime", "Rooms"),
        ("runtime", "from .. import tools", "Rooms"),
        ("registry", "from .. import ledger", "Rooms"),
        ("ledger", "from .. import registry", "Rooms"),
        ("ledger", "from .. import server", "Rooms"),
        ("runtime", "import sqlalchemy", "runtime and registry know no MCP, HTTP or SQL"),
        ("tools", "import mcp.types", "only the server knows MCP"),
        ("server", "import sqlite3", "only the ledger knows SQL"),
    ],
)
def test_a_forbidden_import_is_reported(rooms: Path, room: str, line: str, contract: str) -> None:
    (rooms / "counterfoil" / room / "planted.py").write_text(f'"""Planted."""\n\n{line} as planted\n')
    kept, said = lint_imports(rooms)
    assert not kept
    assert f"{contract} BROKEN" in " ".join(said.split())
    assert f"counterfoil.{room}.planted" in said


def test_nothing_beneath_the_rooms_imports_a_room(rooms: Path) -> None:
    with (rooms / "counterfoil" / "canonical.py").open("a") as file:
        file.write("\nfrom .registry import vocabulary as planted\n")
    kept, said = lint_imports(rooms)
    assert not kept
    assert "Rooms BROKEN" in said
