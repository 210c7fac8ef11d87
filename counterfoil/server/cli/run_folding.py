"""The steps of a run as rows that fit on a screen: what needs a look stands alone, what is quiet is folded. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from .answer import View, parts

LOUD: Final = frozenset(
    {"failed", "rejected", "awaiting_approval", "awaiting_reconciliation", "awaiting_external", "running"}
)
"""The states of a step that a person looks for."""
ENDED: Final = frozenset({"succeeded", "failed", "rejected", "skipped", "not_run", "cancelled"})
ROWS: Final = 40
"""How many rows a person is shown."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: one step, or consecutive ones that are told together."""

    steps: tuple[View, ...]

    @property
    def first(self) -> View:
        """The step that it begins with."""
        return self.steps[0]

    @property
    def alone(self) -> bool:
        """Whether it is one step."""
        return len(self.steps) == 1

    @property
    def counts(self) -> Counter[str]:
        """How many steps are in which state."""
        return Counter(str(step.get("state")) for step in self.steps)

    @property
    def loud(self) -> bool:
        """Whether a person looks for it."""
        return any(state in LOUD for state in self.counts)


@dataclass(frozen=True, slots=True)
class Folded:
    """The rows that are shown, and the steps that are not."""

    rows: tuple[Row, ...]
    left_out: tuple[View, ...] = ()


def fold(steps: Sequence[View], most: int = ROWS) -> Folded:
    """All steps where they fit; else neighbours of one state told together, then all quiet neighbours.

    What is still too long keeps its loud rows first; the steps of the others are only counted.
    """
    tried = list(_foldings(steps))
    fitting = next((rows for rows in tried if len(rows) <= most), None)
    return _cut(tried[-1], most) if fitting is None else Folded(fitting)


def _foldings(steps: Sequence[View]) -> Iterator[tuple[Row, ...]]:
    yield tuple(Row((step,)) for step in steps)
    yield tuple(_together(steps, lambda step: _kind(step, quiet=str(step.get("state")))))
    yield tuple(_together(steps, lambda step: _kind(step, quiet="quiet")))


def _kind(step: View, quiet: str) -> str:
    """What must be equal for neighbours to be told together; a loud step stands alone."""
    return f"alone {step.get('id')}" if step.get("state") in LOUD else quiet


def _together(steps: Sequence[View], kind: Callable[[View], str]) -> Iterator[Row]:
    for _, found in groupby(steps, kind):
        yield Row(tuple(found))


def _cut(rows: Sequence[Row], most: int) -> Folded:
    loud = [n for n, row in enumerate(rows) if row.loud]
    quiet = [n for n, row in enumerate(rows) if not row.loud]
    kept = set((loud + quiet)[:most])
    left = (step for n, row in enumerate(rows) if n not in kept for step in row.steps)
    return Folded(tuple(rows[n] for n in sorted(kept)), tuple(left))


def done_of(view: View) -> tuple[int, int]:
    """How many steps have ended, and how many there are."""
    steps = parts(view, "steps")
    return sum(step.get("state") in ENDED for step in steps), len(steps)


def counted(states: Counter[str]) -> str:
    """`3 succeeded, 1 failed`, loud states first, then the most frequent."""
    ranked = sorted(states.items(), key=lambda pair: (pair[0] not in LOUD, -pair[1], pair[0]))
    return ", ".join(f"{count} {state}" for state, count in ranked)


def items_of(step: View) -> str:
    """What became of the items of a `for_each`; nothing for another step."""
    items = parts(step, "items")
    return counted(Counter(str(item.get("state")) for item in items)) if items else ""


def loud_items(steps: Iterable[View]) -> Iterator[tuple[View, View]]:
    """Each item that a person looks for, with its step."""
    for step in steps:
        for item in parts(step, "items"):
            if item.get("state") in LOUD:
                yield step, item
