"""Nothing in the repository names the machine it was written on or the place its packages came from."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")


def configured_places() -> set[str]:
    """Hosts and folders from which pip here would install, its built-in ones included."""
    program = "from pip._internal.models.index import PyPI as p; print(p.netloc, p.file_storage_domain)"
    hosts = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True, timeout=30
    )
    found = set(hosts.stdout.split())
    for url in re.findall(r"[a-z+]+://[^\s'\"]+", listed.stdout):
        parts = urlsplit(str(url))
        found.add(parts.hostname or parts.path)
    return found


def machine_paths(root: Path) -> set[str]:
    """The checkout, the home folder and the environment, unless a path is one that any machine has."""
    common = {Path("/"), Path("/usr"), Path("/usr/local"), Path(tempfile.gettempdir())}
    paths = {root, root.parent, Path.home(), Path(sys.prefix), Path(sys.base_prefix)} - common
    return {f"{path}/" for path in paths}


def texts(root: Path, git_files: list[str]) -> dict[str, str]:
    return {name: (root / name).read_text(errors="replace") for name in git_files if not (root / name).is_symlink()}


def test_no_file_names_a_path_of_this_machine_or_a_place_packages_come_from(root: Path, git_files: list[str]) -> None:
    private = machine_paths(root) | configured_places()
    pattern = re.compile("|".join(rf"(?<![\w.]){re.escape(word)}" for word in sorted(private)))
    found = {name: match.group() for name, text in texts(root, git_files).items() if (match := pattern.search(text))}
    assert found == {}


def test_the_lock_has_exact_versions_and_nothing_else(root: Path) -> None:
    lines = (root / "requirements.lock").read_text().splitlines()
    assert lines
    assert [line for line in lines if not PINNED.fullmatch(line)] == []


def test_the_lock_pins_what_the_project_asks_for(root: Path) -> None:
    pinned = {
        line.split("==")[0].lower().replace("_", "-") for line in (root / "requirements.lock").read_text().split()
    }
    project = tomllib.loads((root / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    asked = [re.match(r"[A-Za-z0-9_.-]+", one)[0] for one in wanted]  # type: ignore[index]  # each begins with a name
    assert "mcp" in asked
    assert "pytest" in asked
    assert {name.lower().replace("_", "-") for name in asked} - pinned == set()


@pytest.mark.parametrize("option", ["index-url", "extra-index-url", "find-links", "trusted-host", "registry="])
def test_no_tool_is_pointed_at_a_place_of_ours(root: Path, git_files: list[str], option: str) -> None:
    here = Path(__file__).relative_to(root).as_posix()
    pointed = re.compile(rf"(?<!_){option}")
    assert [name for name, text in texts(root, git_files).items() if pointed.search(text) and name != here] == []
