"""What can be wrong with a plan, in the one shape of the wire, and the collection of all of it at once.

Bounded: `MOST` problems are told and the rest is counted; a message has at most `LONGEST` characters. Whoever finds a
problem never quotes a value that may be secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ...registry.vocabulary import JsonObject

MOST: Final = 100
"""Problems that are told of one plan."""
MOST_TOLD: Final = 3 * MOST
"""Problems that are looked at for being told; many of them can be the same in words."""
LONGEST: Final = 500
"""Characters of one message; of a field's path, a quarter of them."""


class Code(StrEnum):
    """Why a plan is refused (design section 7, `plan`)."""

    CYCLE = "cycle"
    SELF_REFERENCE = "self_reference"
    UNKNOWN_STEP = "unknown_step"
    DUPLICATE_ID = "duplicate_id"
    BAD_REFERENCE = "bad_reference"
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    INSUFFICIENT_SCOPE = "insufficient_scope"
    OVER_BUDGET = "over_budget"
    TOO_LARGE = "too_large"
    NOT_COMPENSABLE = "not_compensable"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """One thing that is wrong; `step` is None where it is about the plan, or about a step without an id."""

    step: str | None
    field: str
    code: str
    message: str

    def wire(self) -> JsonObject:
        """One of the `errors` of `plan`."""
        return {"step": self.step, "field": self.field, "code": self.code, "message": self.message}


class PlanInvalidError(Exception):
    """Everything that is wrong with a plan, at most `MOST` things of it; `more` counts the rest."""

    def __init__(self, problems: tuple[PlanProblem, ...], more: int = 0) -> None:
        self.problems = problems
        self.more = more
        found = len(problems) + more
        text = f"the plan has {found} {'problem' if found == 1 else 'problems'}; nothing was run"
        super().__init__(f"{text} ({more} more are not told; mend these first)" if more else text)


class ForkRefusedError(PlanInvalidError):
    """A run that cannot be gone on from like this; the message says it all, `problems` step by step."""

    def __init__(self, error: PlanInvalidError) -> None:
        super().__init__(error.problems, error.more)
        first, count = error.problems[0].message, len(error.problems) + error.more
        self.args = (f"Nothing was run. {first}" + (f" ({count} problems in all; see errors)" if count > 1 else ""),)


class Problems:
    """Collects what is found; the order is that of finding, sorted by step at the end."""

    def __init__(self) -> None:
        self.count = 0
        self._came = 0
        self._found: dict[PlanProblem, int] = {}

    @property
    def full(self) -> bool:
        """True if one more is only counted, so that its hint need not be looked for."""
        return len(self._found) >= MOST or self._came >= MOST_TOLD

    def add(self, step: str | None, field: str, code: Code, message: str, at: int = -1) -> None:
        """Note one problem of the step at index `at`; -1 stands for the plan."""
        problem = PlanProblem(step, _cut(field, LONGEST // 4), code.value, _cut(message, LONGEST))
        full = self.full
        self._came += 1
        if problem in self._found:
            return
        self.count += 1
        if not full:
            self._found[problem] = at

    def raise_any(self) -> None:
        """Refuse the plan if anything was found.

        Raises:
            PlanInvalidError: all of it, those of the plan first, then by step.
        """
        if self.count:
            found = sorted(self._found, key=self._found.__getitem__)
            raise PlanInvalidError(tuple(found), self.count - len(found))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
