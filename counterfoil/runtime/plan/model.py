"""The frozen values of a checked plan and of its steps, as runs work with them.

Nothing here reads or checks a document; a `Plan` that exists was checked, or was stored by one who did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from ...registry.vocabulary import JsonObject, JsonValue


class Needs(StrEnum):
    """What a step asks of its dependencies: that they succeeded, or only that they came to an end."""

    SUCCESS = "success"
    SETTLED = "settled"


class OnStepFailure(StrEnum):
    """What a step's failure means for its run."""

    FAIL = "fail"
    CONTINUE = "continue"


class OnPlanFailure(StrEnum):
    """What happens to the effects of a run that failed."""

    STOP = "stop"
    COMPENSATE = "compensate"


Compensation: TypeAlias = Literal["best_effort", "strict"]


@dataclass(frozen=True, slots=True)
class RetryLimit:
    """How a step narrows its contract's `retry`; None where it leaves the contract's figure."""

    attempts: int | None = None
    backoff_s: float | None = None
    least_s: float | None = None


@dataclass(frozen=True, slots=True)
class Undo:
    """A step's own compensation: a tool, and the template of its arguments."""

    tool: str
    args: JsonObject


@dataclass(frozen=True, slots=True)
class Step:
    """One node; `version` and `schema_digest` (64 hex characters) are those that were pinned.

    `args`, `for_each`, `when` and `if_version` are templates (see `values`); None where a step states none.
    `compensate` None means `default`.
    """

    id: str
    index: int
    tool: str
    version: str
    schema_digest: str
    args: JsonObject = field(default_factory=dict[str, JsonValue])
    depends_on: tuple[str, ...] = ()
    needs: Needs = Needs.SUCCESS
    save_as: str | None = None
    for_each: JsonValue = None
    when: JsonValue = None
    if_version: str | None = None
    timeout_s: float | None = None
    retry: RetryLimit | None = None
    on_failure: OnStepFailure = OnStepFailure.FAIL
    compensate: Literal["default", "none"] | Undo | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The graph; `edges` has for each step the indexes of all that it waits for, stated or referred to, ascending.

    `input` is the plan's own; a run may have laid another over it.
    """

    goal: str
    steps: tuple[Step, ...]
    edges: tuple[tuple[int, ...], ...]
    input: JsonObject = field(default_factory=dict[str, JsonValue])
    on_failure: OnPlanFailure = OnPlanFailure.STOP
    compensation: Compensation = "best_effort"
    max_parallel: int | None = None
    deadline_s: float | None = None
    budget: JsonObject = field(default_factory=dict[str, JsonValue])
    allow: JsonObject | None = None
