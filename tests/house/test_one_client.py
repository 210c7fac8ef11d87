"""All HTTP of the package leaves by the one outbound client: nobody else loads a library that could send it."""

from __future__ import annotations

import ast
from pathlib import Path

LIBRARIES = {"httpx2", "httpcore2", "httpx", "httpcore", "h11", "aiohttp", "requests", "urllib3"}
CLIENTS = {("http", "client"), ("urllib", "request")}
CLIENT = {"counterfoil/tools/http/outbound.py", "counterfoil/tools/http/network.py"}
"""The client, and the seam beneath it that only the client imports."""
DEMO = "counterfoil/server/demo/"


def loaded(page: ast.Module) -> set[tuple[str, ...]]:
    names: set[str] = set()
    for node in ast.walk(page):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {tuple(name.split(".")) for name in names}


def test_only_the_outbound_client_loads_a_library_that_sends_http(root: Path, git_files: list[str]) -> None:
    senders = {
        name
        for name in git_files
        if name.startswith("counterfoil/") and name.endswith(".py") and not name.startswith(DEMO)
        for steps in loaded(ast.parse((root / name).read_text(), name))
        if steps[0] in LIBRARIES or steps[:2] in CLIENTS
    }
    assert senders == CLIENT


def test_only_the_outbound_client_uses_the_seam_beneath_it(root: Path, git_files: list[str]) -> None:
    users = [
        name
        for name in git_files
        if name.startswith("counterfoil/") and name.endswith(".py")
        for node in ast.walk(ast.parse((root / name).read_text(), name))
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module == "network"
    ]
    assert users == ["counterfoil/tools/http/outbound.py"]
