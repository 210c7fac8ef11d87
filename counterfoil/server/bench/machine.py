"""What a figure must be read with: versions, processors, durability. Nothing here names a machine or a person."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

from ... import __version__
from ...ledger.measure import SQLITE_VERSION


def machine() -> dict[str, Any]:
    """Facts of this machine that identify nobody."""
    return {
        "counterfoil": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
        "mcp": version("mcp"),
        "sqlite": SQLITE_VERSION,
    }
