"""Reads the manifest of promises, and finds the tests that name one, without running or importing them."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ROOT / "tests" / "promises" / "manifest.toml"
DISARMING = {"skip", "skipif", "xfail"}


@dataclass(frozen=True, slots=True)
class Promise:
    """One sentence that users can rely on."""

    id: str
    says: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One `@pytest.mark.promise("ID")`; `disarmed` names a mark beside it under which the test may not run."""

    promise: str
    test: str
    disarmed: str | None


def load(path: Path = MANIFEST) -> list[Promise]:
    """Every promise, in the order of the manifest."""
    with path.open("rb") as file:
        return [Promise(entry["id"], entry["says"]) for entry in tomllib.load(file)["promise"]]


def marked(root: Path = ROOT) -> list[Mark]:
    """Every mark of a test under `root`/tests, sorted by test."""
    found: list[Mark] = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text(), str(path))
        found += _in_body(module.body, path.relative_to(root).as_posix())
    return sorted(found, key=lambda mark: (mark.test, mark.promise))


def problems(promises: list[Promise], marks: list[Mark]) -> list[str]:
    """What is wrong, both ways: a promise that nothing keeps, a mark that names none, a test that may not run."""
    ids = [promise.id for promise in promises]
    named = {mark.promise for mark in marks if mark.disarmed is None}
    return [
        *(f"{one}: stands twice in the manifest" for one in sorted({i for i in ids if ids.count(i) > 1})),
        *(f"{promise.id}: says nothing that ends in a full stop" for promise in promises if promise.says[-1:] != "."),
        *(f"{one}: no test keeps it" for one in ids if one not in named),
        *(f"{mark.test}: names {mark.promise}, which no promise has" for mark in marks if mark.promise not in ids),
        *(f"{mark.test}: keeps {mark.promise}, but is marked {mark.disarmed}" for mark in marks if mark.disarmed),
    ]


def _in_body(body: list[ast.stmt], where: str) -> list[Mark]:
    found: list[Mark] = []
    for node in body:
        if isinstance(node, ast.ClassDef):
            found += _in_body(node.body, f"{where}::{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            disarmed = next((name for name in map(_name, node.decorator_list) if name in DISARMING), None)
            found += [
                Mark(argument.value, f"{where}::{node.name}", disarmed)
                for decorator in node.decorator_list
                if isinstance(decorator, ast.Call) and _name(decorator) == "promise"
                for argument in decorator.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            ]
    return found


def _name(decorator: ast.expr) -> str | None:
    """`x` of `@pytest.mark.x` or `@pytest.mark.x(...)`."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return target.attr if isinstance(target, ast.Attribute) and _is_mark(target.value) else None


def _is_mark(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "mark"
