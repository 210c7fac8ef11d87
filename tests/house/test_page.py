"""The shape of a page: each file says what it is for, stays short, and imports the package only from inside."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FILE_LINES = 400
FUNCTION_LINES = 50
SENTENCES = range(1, 7)
FLAT_NAMES = {"server", "tools", "runtime", "registry", "ledger", "canonical"}


@pytest.fixture(scope="session")
def pages(root: Path, git_files: list[str]) -> dict[str, ast.Module]:
    return {name: ast.parse((root / name).read_text(), name) for name in git_files if name.endswith(".py")}


def in_package(pages: dict[str, ast.Module]) -> dict[str, ast.Module]:
    return {name: page for name, page in pages.items() if name.startswith("counterfoil/")}


def sentences(docstring: str) -> int:
    """Full stops at the end of a word; indented lines are examples, not prose."""
    prose = "\n".join(line for line in docstring.splitlines() if not line.startswith("    "))
    return len(re.findall(r"[.!?]['\")`]*(?=\s|$)", prose))


def test_each_file_of_the_package_opens_with_one_to_six_sentences(pages: dict[str, ast.Module]) -> None:
    counts = {name: sentences(ast.get_docstring(page) or "") for name, page in in_package(pages).items()}
    assert {name: count for name, count in counts.items() if count not in SENTENCES} == {}


def test_sentences_are_counted_without_examples() -> None:
    assert sentences("One. Two: a, b and c.\n\n    code.py is. not. prose.\n\nThree `x.y`.") == 3
    assert sentences("no end") == 0


def test_no_file_has_more_than_400_lines(root: Path, pages: dict[str, ast.Module]) -> None:
    lengths = {name: len((root / name).read_text().splitlines()) for name in pages}
    assert {name: length for name, length in lengths.items() if length > FILE_LINES} == {}


def test_no_function_outside_the_tests_has_more_than_50_lines(pages: dict[str, ast.Module]) -> None:
    long = {
        f"{name}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for name, page in pages.items()
        if not name.startswith("tests/")
        for node in ast.walk(page)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    }
    assert long == {}


def imported(page: ast.Module) -> list[tuple[int, str]]:
    """Line and name of each import that is not relative."""
    names: list[tuple[int, str]] = []
    for node in ast.walk(page):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append((node.lineno, node.module))
    return names


def test_nobody_imports_a_room_by_its_flat_name(pages: dict[str, ast.Module]) -> None:
    flat = [
        f"{name}:{line} {module}"
        for name, page in pages.items()
        for line, module in imported(page)
        if module.split(".")[0] in FLAT_NAMES
    ]
    assert flat == []


AUTHORS = {"counterfoil/server/cli/starter/example_tools.py", "counterfoil/server/demo/tools.py"}
"""Tools as their authors write them, who import the package by its name."""


def test_the_package_imports_itself_relatively(pages: dict[str, ast.Module]) -> None:
    absolute = [
        f"{name}:{line} {module}"
        for name, page in in_package(pages).items()
        for line, module in imported(page)
        if module.split(".")[0] == "counterfoil" and name not in AUTHORS
    ]
    assert absolute == []
