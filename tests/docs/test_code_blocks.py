"""The examples of the README and the docs run as they are printed, and their links lead somewhere.

A page's Python blocks run in order as one program, with the page's line numbers. `<!-- no-run -->` on the line before
a block leaves it out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^( *)(`{3,})([a-z-]*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
NO_RUN = "<!-- no-run -->"


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text and the line at which the text begins."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    return [
        Block(match[3], match[4], page[: match.start(4)].count("\n") + 1)
        for match in FENCE.finditer(page)
        if not page[: match.start()].rstrip().endswith(NO_RUN)
    ]


def program(page: str) -> str:
    """The page's Python blocks at their own lines, everything else blank."""
    lines: list[str] = []
    for block in blocks(page):
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n" if lines else ""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def pages_with(language: str) -> list[Path]:
    return [path for path in PAGES if any(block.language == language for block in blocks(path.read_text()))]


@pytest.mark.promise("HOUSE-3")
@pytest.mark.parametrize("path", pages_with("python"), ids=name)
def test_the_python_of_a_page_runs(path: Path, tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(program(path.read_text()))
    done = subprocess.run(
        [sys.executable, "my_tools.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, f"{name(path)}\n{done.stderr}"


@pytest.mark.promise("HOUSE-3")
@pytest.mark.parametrize("path", pages_with("toml"), ids=name)
def test_the_toml_of_a_page_is_read(path: Path) -> None:
    for block in blocks(path.read_text()):
        if block.language == "toml":
            assert tomllib.loads(block.text)


@pytest.mark.parametrize("path", pages_with("json"), ids=name)
def test_the_json_of_a_page_is_read(path: Path) -> None:
    for block in blocks(path.read_text()):
        if block.language == "json":
            json.loads(block.text)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_the_links_of_a_page_lead_somewhere(path: Path) -> None:
    links = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", pages_with("sh"), ids=name)
def test_every_make_target_that_a_page_names_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        word for block in blocks(path.read_text()) for word in re.findall(r"^make ([a-z]+)", block.text, re.MULTILINE)
    }
    assert named - targets == set()


def test_blocks_keep_their_lines_and_can_be_left_out() -> None:
    page = (
        "# A\n\n```python\nx = 1\n```\n\n"
        f"{NO_RUN}\n```python\nboom\n```\n\n"
        "```toml\na = 1\n```\n\n```python\nx = 2\n```\n"
    )
    assert program(page).splitlines()[3] == "x = 1"
    assert program(page).splitlines()[16] == "x = 2"
    assert "boom" not in program(page)
    assert [block.language for block in blocks(page)] == ["python", "toml", "python"]
