"""A configuration of tools that are described in TOML, read without a ledger; `HEAD` stands before each text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from counterfoil.server.app import Tools, read_tools
from counterfoil.server.config import ConfigError, Problem

HEAD: Final = '[http]\nallow_hosts = ["orders.example", "127.0.0.1:9000"]\n[pools.orders]\nconcurrency = 4\n'
BEFORE: Final = HEAD.count("\n")


def offered(folder: Path, text: str) -> Tools:
    path = folder / "counterfoil.toml"
    path.write_text(HEAD + text)
    return read_tools(path)


def problems_of(folder: Path, text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        offered(folder, text)
    return list(caught.value.problems)
