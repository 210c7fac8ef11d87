"""Reading one member of a JSON object strictly: its type, its limits, and what to write instead.

Each reader answers None both for an absent member (null counts as absent) and for one that it has told of.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeGuard, TypeVar

from ...registry.nearest import hint
from ...registry.problems import described
from ...registry.vocabulary import JsonObject, JsonValue
from .problems import Code, Problems

LONGEST_NAME: Final = 80
"""Characters of an unknown name that are compared with the known ones, and shown."""
_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Spot:
    """Whose fields are read: the plan's (`at` -1), or those of a step, by its id or, without one, by its place."""

    problems: Problems
    step: str | None = None
    at: int = -1
    note: str = ""
    """Ends each message: which item of a `for_each` it is about."""

    def add(self, field: str, code: Code, message: str) -> None:
        """Note a problem of one of its fields."""
        if self.step is None and self.at >= 0:
            field = f"steps[{self.at}].{field}" if field else f"steps[{self.at}]"
        self.problems.add(self.step, field, code, message + self.note, self.at)

    def invalid(self, field: str, wanted: str, got: JsonValue, *, hidden: bool = False) -> None:
        """Note a field that holds something else than it may; `hidden` tells of the kind alone."""
        told = f"expected {wanted}, got {described(got, hidden=hidden)}"
        self.add(field, Code.INVALID_ARGUMENTS, f"{field}: {told}" if field else told)


@dataclass(frozen=True, slots=True)
class Fields:
    """The members of one object of the document; `prefix` is where it stands, such as `retry`."""

    spot: Spot
    table: JsonObject
    prefix: str = ""

    def place(self, name: str) -> str:
        """The whole path of a member."""
        return f"{self.prefix}.{name}" if self.prefix else name

    def only(self, known: Collection[str], moved: Mapping[str, str] | None = None) -> None:
        """Tell of every member that there is no such field as; `moved` says more of some."""
        for name in self.table:
            if name not in known:
                self._unknown(name, known, moved or {})

    def _unknown(self, name: str, known: Collection[str], moved: Mapping[str, str]) -> None:
        shown = name[:LONGEST_NAME]
        if self.spot.problems.full:
            advice = ""
        else:
            listed = f"; it has {', '.join(known)}"
            advice = f"; {moved[name]}" if name in moved else hint(shown, known) or listed
        place = self.place(shown)
        self.spot.add(place, Code.INVALID_ARGUMENTS, f"{place}: there is no such field{advice}")

    def invalid(self, name: str, wanted: str) -> None:
        """Tell of a member that holds something else than it may."""
        self.spot.invalid(self.place(name), wanted, self.table.get(name))

    def need(self, name: str, wanted: str) -> bool:
        """Whether a required member is there; tells if not."""
        if self.table.get(name) is None:
            self.spot.add(self.place(name), Code.INVALID_ARGUMENTS, f"{self.place(name)}: missing; expected {wanted}")
            return False
        return True

    def text(self, name: str, most: int, wanted: str = "a string") -> str | None:
        """A string of at most so many characters."""
        value = self.table.get(name)
        if value is None:
            return None
        if isinstance(value, str) and 0 < len(value) <= most:
            return value
        if isinstance(value, str):
            self.spot.add(
                self.place(name),
                Code.INVALID_ARGUMENTS,
                f"{self.place(name)}: expected {wanted} of 1 to {most:,} characters, got {len(value):,}",
            )
        else:
            self.invalid(name, wanted)
        return None

    def word(self, name: str, words: type[_Word]) -> _Word | None:
        """One of a closed list of words."""
        value = self.table.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value in list(words):
            return words(value)
        self.invalid(name, " or ".join(repr(word.value) for word in words))
        return None

    def number(self, name: str, most: float, *, above_zero: bool = False) -> float | None:
        """A number of 0 or more, or of more than 0."""
        value = self.table.get(name)
        if value is None:
            return None
        if _is_number(value) and (value > 0 if above_zero else value >= 0) and value <= most:
            return value
        self.invalid(name, f"a number {'above 0' if above_zero else 'of 0 or more'}, at most {most:,}")
        return None

    def count(self, name: str, least: int, most: int) -> int | None:
        """A whole number; 10.0 is one."""
        value = self.table.get(name)
        if value is None:
            return None
        if _is_number(value) and value == int(value) and least <= value <= most:
            return int(value)
        self.invalid(name, f"a whole number from {least} to {most:,}")
        return None

    def object(self, name: str) -> JsonObject | None:
        """An object; what stands in its place may be the text of one, with secrets in it."""
        value = self.table.get(name)
        if value is None or isinstance(value, dict):
            return value
        advice = "an object itself, not its text" if isinstance(value, str) else "an object"
        self.spot.invalid(self.place(name), advice, value, hidden=True)
        return None

    def list(self, name: str) -> Sequence[JsonValue] | None:
        """A list."""
        value = self.table.get(name)
        if value is None or isinstance(value, list):
            return value
        self.invalid(name, "a list")
        return None

    def names(self, name: str, wanted: str) -> tuple[str, ...]:
        """A list of strings, each once; the order of the first ones stays."""
        found: dict[str, None] = {}
        for index, value in enumerate(self.list(name) or ()):
            if isinstance(value, str):
                found[value] = None
            else:
                self.spot.invalid(f"{self.place(name)}[{index}]", wanted, value)
        return tuple(found)


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
