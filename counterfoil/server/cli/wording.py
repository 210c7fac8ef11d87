"""What the help pages of all commands share, and the options that several of them take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

EVERYWHERE: Final = "Every command takes --config F (default: counterfoil.toml here or in a folder above) and --json."
Wait = Annotated[float | None, typer.Option(metavar="S", min=0, help="Wait at most this many seconds.")]
Output = Annotated[Path | None, typer.Option(metavar="FILE", help="Into this file instead of stdout.")]


def example(line: str) -> str:
    """What stands below each command's options: a line to try, and what all commands take."""
    return f"Example: {line}\n\n{EVERYWHERE}"
