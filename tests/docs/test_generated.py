"""The generated pages say what the code says now, and the check of it notices when they do not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def generate(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripts.generate_docs", *options],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in ("counterfoil", "docs", "scripts", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_generated_pages_are_up_to_date() -> None:
    done = generate(ROOT, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_move_makes_the_page_out_of_date_until_it_is_written(copy: Path) -> None:
    states = copy / "counterfoil" / "ledger" / "states.py"
    states.write_text(states.read_text().replace("(_S.SETTLED, Move.REOPEN): _S.AWAITING_RECONCILIATION,", ""))
    stale = generate(copy, "--check")
    assert stale.returncode == 1
    assert "docs/reference/states.md: out of date" in stale.stdout
    assert generate(copy).returncode == 0
    assert "reopen" not in (copy / "docs" / "reference" / "states.md").read_text()
    assert generate(copy, "--check").returncode == 0
