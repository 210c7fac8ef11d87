"""What a reader of a plan should know before running it; none of it makes the plan wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...registry.budgets import Budget
from .drafts import DraftPlan
from .facts import Facts
from .model import OnPlanFailure
from .spending import limits_of

MOST_NAMED: Final = 8
"""Steps that one warning names."""


def warnings(
    plan: DraftPlan, ids: Sequence[str], facts: Sequence[Facts], ceiling: Budget | None, most_parallel: int, most: int
) -> Iterator[str]:
    """What a reader should know before running it."""
    pairs = list(zip(ids, facts, strict=True))
    if open_ended := [step for step, fact in pairs if fact.repeats.count is None]:
        yield (
            f"How often these are called is not known yet, at most {most:,} times each; they are counted as one call: "
            f"{_named(open_ended)}."
        )
    if skipped := [step for step, fact in pairs if fact.happens is False]:
        yield f"With this input these are not run, and are not counted: {_named(skipped)}."
    if open_steps := [step for step, fact in pairs if fact.happens is None]:
        yield f"A 'when' decides whether these are run, so the counts are a maximum: {_named(open_steps)}."
    if plan.on_failure is OnPlanFailure.COMPENSATE:
        if standing := [step for step, fact in pairs if not fact.undoable]:
            yield (
                f"These have an effect and no compensation: {_named(standing)}. If the run fails their effects stand, "
                "and its compensation is 'incomplete'."
            )
    elif plan.compensation == "strict":
        yield "'compensation' means nothing while 'on_failure' is 'stop'."
    for kind, limit in limits_of(plan.budget, None, None).items():
        highest = None if ceiling is None else ceiling.limits.get(kind)
        if highest is not None and limit > highest:
            yield f"budget.{kind} is {kind.shown(limit)}; a run gets at most {kind.shown(highest)}."
    if plan.max_parallel is not None and plan.max_parallel > most_parallel:
        yield f"max_parallel is {plan.max_parallel}; at most {most_parallel} steps run at once here."


def _named(steps: Sequence[str]) -> str:
    shown = ", ".join(steps[:MOST_NAMED])
    return shown if len(steps) <= MOST_NAMED else f"{shown} and {len(steps) - MOST_NAMED:,} more"
