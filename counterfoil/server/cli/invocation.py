"""What every command takes, wherever it stands on the line: `--config F` and `--json`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .exits import usage

END_OF_OPTIONS = "--"
_SHOWN = 80
_TAKE_A_FILE = frozenset({("bench",), ("demo",), ("ledger", "backup"), ("ledger", "verify")})


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


def check_text(rest: Sequence[str]) -> None:
    """Refuse bytes that are no UTF-8 in a line without its shared options; only the name of a file may have them.

    Raises:
        CommandError: an id, an option or another value that is no text.
    """
    if tuple(rest[:1]) in _TAKE_A_FILE or tuple(rest[:2]) in _TAKE_A_FILE:
        return
    for word in rest:
        shown = word.encode(errors="backslashreplace").decode()
        if shown != word:
            raise usage(f"expected UTF-8 text, got bytes that are none: {shown[:_SHOWN]}")


def command_of(rest: Sequence[str]) -> str | None:
    """The command that a line without the shared options asks for."""
    return rest[0] if rest else None
