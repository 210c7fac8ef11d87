"""The repository as git sees it, for tests about the house itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def git_files() -> list[str]:
    """Every file and link that git tracks, or would on the next `git add`."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    if listing.returncode:
        pytest.skip("not a git checkout, so there is nothing to compare with")
    return sorted({name for name in listing.stdout.split("\0") if name and os.path.lexists(ROOT / name)})


@pytest.fixture(scope="session")
def copy(git_files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository without its history, links kept as links. Tests only read it."""
    target = tmp_path_factory.mktemp("copy") / "counterfoil-copy"
    for name in git_files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    return target
