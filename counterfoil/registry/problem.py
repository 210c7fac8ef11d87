"""One thing that is wrong with the arguments of a call, in the one shape of `error.details.problems`.

Who finds it says what was expected and what came, and never shows a value that may be secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..canonical import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: `path` is a JSON Pointer, `nearest` the field that was probably meant."""

    path: str
    expected: str
    got: str
    message: str
    nearest: str | None = None

    @classmethod
    def of(cls, path: str, expected: str, got: str) -> Problem:
        """One whose message says just that."""
        place = path.removeprefix("/").replace("/", ".") or "the arguments"
        return cls(path, expected, got, f"{place}: expected {expected}, got {got}")

    def as_json(self) -> JsonObject:
        """The same four members everywhere; `nearest` is null where nothing comes near."""
        return {"path": self.path, "expected": self.expected, "got": self.got, "nearest": self.nearest}


def as_json(problems: Sequence[Problem]) -> list[JsonValue]:
    """`error.details.problems`."""
    return [problem.as_json() for problem in problems]
