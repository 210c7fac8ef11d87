"""What every command takes, wherever it stands on the line: `--config F` and `--json`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .exits import usage

END_OF_OPTIONS = "--"


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that all commands share."""

    config: Path | None = None
    json: bool = False


def split(arguments: Sequence[str]) -> tuple[Invocation, list[str]]:
    """The shared options, and the line without them. After `--` everything is left alone.

    Raises:
        CommandError: `--config` without a file.
    """
    config: str | None = None
    json = False
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == END_OF_OPTIONS:
            rest += [word, *words]
        elif word == "--json":
            json = True
        elif word == "--config" or word.startswith("--config="):
            config = word.partition("=")[2] or next(words, "")
            if not config:
                raise usage("--config needs a file, such as --config counterfoil.toml")
        else:
            rest.append(word)
    return Invocation(Path(config) if config else None, json), rest


def command_of(rest: Sequence[str]) -> str | None:
    """The command that a line without the shared options asks for."""
    return rest[0] if rest else None
