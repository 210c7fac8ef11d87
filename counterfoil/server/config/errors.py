"""The room's error tree for configuration.

ConfigError     the file cannot be used; carries every problem found, each with its place
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KeyPath = tuple[str | int, ...]


def spell(path: KeyPath) -> str:
    """A key path as a person writes it: `policy[0].when`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: in which table, at which key, on which line (None if the file itself cannot be read)."""

    table: str
    key: str
    line: int | None
    message: str
    nearest: str | None = None

    def __str__(self) -> str:
        """`line 3, [server], server.wiat_s: unknown key; did you mean wait_s?`."""
        place = [f"line {self.line}"] if self.line is not None else []
        place += [f"[{self.table}]"] if self.table else []
        place += [self.key] if self.key else []
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{', '.join(place)}: {self.message}{hint}" if place else f"{self.message}{hint}"


class ConfigError(Exception):
    """`FILE: line N, [table], key path: what is wrong; did you mean X?`, one line for each problem."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))
