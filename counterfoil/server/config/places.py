"""Where things live on this machine: the user's data directory and the ledger of one configuration."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

LEDGER_NAME = "counterfoil.db"


def data_directory(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """The user's data directory: `XDG_DATA_HOME`, else what the platform says."""
    environment = os.environ if environment is None else environment
    chosen = environment.get("XDG_DATA_HOME", "")
    if chosen and Path(chosen).is_absolute():
        return Path(chosen)
    if platform == "win32":
        local = environment.get("LOCALAPPDATA", "")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path.home() / ".local" / "share"


def default_ledger_path(config_path: Path) -> Path:
    """The SQLite file of a configuration that names no ledger: one folder for each configuration's resolved path."""
    name = hashlib.sha256(str(config_path.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return data_directory() / "counterfoil" / name / LEDGER_NAME
