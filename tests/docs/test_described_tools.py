"""The tools that the README and the docs describe in TOML are ones a server starts with, and `check` likes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from counterfoil.server.app import read_tools
from counterfoil.server.http_tools.findings import findings

ROOT: Final = Path(__file__).parents[2]
FENCE: Final = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS: Final = [
    pytest.param(block, id=f"{path.relative_to(ROOT).as_posix()}-{index}")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for index, block in enumerate(FENCE.findall(path.read_text()))
    if "[tools." in block
]


@pytest.mark.promise("HOUSE-3")
@pytest.mark.parametrize("block", BLOCKS)
def test_a_described_tool_of_a_page_is_registered(block: str, tmp_path: Path) -> None:
    (tmp_path / "counterfoil.toml").write_text(block)
    tools = read_tools(tmp_path / "counterfoil.toml")
    assert {contract.name for contract in tools.catalogue.contracts()} >= set(tools.config.tools) != set()
    assert findings(tools.config) == []


def test_the_pages_describe_some_tools() -> None:
    assert len(BLOCKS) >= 5
