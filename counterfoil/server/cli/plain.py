"""Printing without rich, for what may happen before it is loaded: JSON answers and errors."""

from __future__ import annotations

import json
import sys
from typing import Any

from .exits import CommandError


def print_json(data: Any) -> None:  # noqa: ANN401 (any JSON value)
    """One JSON document on stdout, in ASCII, so that no terminal or pipe can fail on a character."""
    sys.stdout.write(json.dumps(data, ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()


def refuse(error: CommandError, *, json_mode: bool) -> int:
    """Say why a command was not carried out; its exit code."""
    if json_mode:
        print_json(error.wire())
    else:
        said = error.message if error.message.startswith("Usage:") else f"counterfoil: {error.message}"
        sys.stderr.write(f"{said}\n")
    return error.exit_code
