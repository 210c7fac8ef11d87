"""What steps gave, for the steps that refer to it: in memory while one of those has not ended, else read again.

Values flow through here and through the ledger, never through a model: always the whole one, whatever was shown.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..plan.values import UNSET, Scope, Unset, needed
from ..stepping import NO_OUTPUT, NoOutput
from .folding import has_output

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ...registry.vocabulary import JsonObject, JsonValue
    from ..plan.model import Plan, Step

Read: TypeAlias = "Callable[[CallRow], Awaitable[JsonValue | NoOutput]]"


@dataclass(slots=True)
class _Given:
    """A step's calls, and what they gave as far as it is in memory; `rows` of a `for_each` are its items'."""

    rows: Sequence[CallRow]
    whole: bool  # a list of its items, else the one call's own
    values: dict[int, JsonValue | Unset]

    @property
    def is_loaded(self) -> bool:
        return len(self.values) == len(self.rows)

    @property
    def output(self) -> JsonValue | Unset:
        if not self.whole:
            return self.values[0]
        found: list[JsonValue] = []
        for number in range(len(self.rows)):
            value = self.values[number]
            if isinstance(value, Unset):
                return UNSET
            found.append(value)
        return found


class Outputs:
    """The outputs of one run. `read` gives the whole output of a settled call."""

    def __init__(self, plan: Plan, read: Read) -> None:
        self._read = read
        self._names: dict[str, int] = {}
        for step in plan.steps:
            self._names[step.id] = step.index
            if step.save_as is not None:
                self._names[step.save_as] = step.index
        self._uses = [self._used_by(step) for step in plan.steps]
        self._left = [0] * len(plan.steps)
        for uses in self._uses:
            for other in uses:
                self._left[other] += 1
        self._given: dict[int, _Given] = {}
        self._early: dict[int, dict[int, JsonValue | Unset]] = {}

    def _used_by(self, step: Step) -> frozenset[int]:
        templates: list[JsonValue] = [step.args, step.for_each, step.when, step.if_version]
        return frozenset(self._names[name] for name in needed(templates) if name in self._names)

    @property
    def in_memory(self) -> int:
        """How many steps' outputs are kept or can be read for a step to come."""
        return len(self._given) + len(self._early)

    def gave(self, step: int, item: int, row: CallRow, output: JsonValue | NoOutput) -> None:
        """A call of a step has ended here, and this is what it gave."""
        if not self._left[step]:
            return
        value = UNSET if isinstance(output, NoOutput) or not has_output(row) else output
        self._early.setdefault(step, {})[max(item, 0)] = value

    def ended(self, step: int, rows: Sequence[CallRow] | None, *, whole: bool) -> None:
        """A step has ended with these calls, in the order of its items; None for one without an output.

        What it referred to is needed by one step less.
        """
        early = self._early.pop(step, {})
        if rows is not None and self._left[step]:
            self._given[step] = _Given(rows, whole, early)
        for other in self._uses[step]:
            self._left[other] -= 1
            if not self._left[other]:
                self._given.pop(other, None)

    async def load(self, step: int) -> None:
        """Have everything in memory that this step refers to."""
        for other in self._uses[step]:
            given = self._given.get(other)
            if given is None or given.is_loaded:
                continue
            for number, row in enumerate(given.rows):
                if number not in given.values:
                    found = await self._read(row) if has_output(row) else NO_OUTPUT
                    given.values[number] = UNSET if isinstance(found, NoOutput) else found

    def scope(self, given_input: JsonObject, run_id: str, item: JsonValue | Unset = UNSET) -> Scope:
        """What the references of a step can reach, once its own are loaded."""
        return Scope(given_input, run_id, self._output, self._evidence, item)

    def _output(self, name: str) -> JsonValue | Unset:
        given = self._given.get(self._names[name])
        return UNSET if given is None else given.output

    def _evidence(self, name: str) -> JsonObject | None:
        given = self._given.get(self._names[name])
        if given is None or given.whole or given.rows[0].evidence is None:
            return None
        found: JsonObject = json.loads(given.rows[0].evidence)
        return found
