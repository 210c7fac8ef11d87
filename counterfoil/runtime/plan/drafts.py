"""A plan and its steps as far as they could be read: what the checks work on until all of it is right.

Nothing here checks anything; fields that could not be read have their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ...registry.vocabulary import JsonObject, JsonValue
from .fields import Spot
from .model import Compensation, Needs, OnPlanFailure, OnStepFailure, RetryLimit, Undo
from .references import Reference


@dataclass(frozen=True, slots=True)
class Use:
    """One reference: the field where it stands, such as `args.order_id`, and whether other text stands beside it."""

    field: str
    reference: Reference
    in_text: bool = False


@dataclass(slots=True)
class Draft:
    """A step as far as it could be read; `uses` and `undo_uses` are its references, the latter of `compensate.args`."""

    index: int
    spot: Spot
    id: str | None
    tool: str | None = None
    version: str | None = None
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
    uses: list[Use] = field(default_factory=list[Use])
    undo_uses: list[Use] = field(default_factory=list[Use])

    @property
    def named(self) -> str:
        """How texts call it."""
        return self.id if self.id is not None else f"steps[{self.index}]"


@dataclass(slots=True)
class DraftPlan:
    """A plan as far as it could be read."""

    spot: Spot
    goal: str = ""
    steps: list[Draft] = field(default_factory=list[Draft])
    input: JsonObject = field(default_factory=dict[str, JsonValue])
    on_failure: OnPlanFailure = OnPlanFailure.STOP
    compensation: Compensation = "best_effort"
    max_parallel: int | None = None
    deadline_s: float | None = None
    budget: JsonObject = field(default_factory=dict[str, JsonValue])
    allow: JsonObject | None = None
