"""What a plan takes from budgets, what it may take, and the refusal of one that certainly takes more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ...registry.budgets import SETTLED_LATER, Budget, Kind, amounts_of, millionths
from ...registry.vocabulary import JsonObject
from .drafts import Draft, DraftPlan
from .facts import Facts
from .fields import Spot
from .problems import Code

COUNTED: Final = (Kind.CALLS, Kind.WRITES, Kind.DESTRUCTIVE, Kind.COST)


def limits_of(budget: JsonObject, allow: JsonObject | None, ceiling: Budget | None) -> dict[Kind, int]:
    """What a run may use, in stored units: the least of the plan's budget, its `allow.max_cost` and the ceiling."""
    found = dict(ceiling.limits) if ceiling is not None else {}
    stated = [(Kind(name), amount) for name, amount in budget.items()]
    cost = (allow or {}).get("max_cost")
    for kind, amount in [*stated, *([(Kind.COST, cost)] if cost is not None else [])]:
        if isinstance(amount, int | float):
            stored = int(amount) if kind.unit == 1 else millionths(amount, down=True) or 0
            found[kind] = min(found.get(kind, stored), stored)
    return found


def used(facts: Sequence[Facts | None], *, certain: bool) -> dict[Kind, int]:
    """What the steps take in stored units; `certain` counts only what happens in every run that succeeds."""
    totals: dict[Kind, int] = dict.fromkeys(COUNTED, 0)
    for fact in facts:
        if fact is None or fact.happens is False or (certain and fact.happens is None):
            continue
        calls = fact.repeats.least if certain else fact.repeats.shown
        for kind, amount in amounts_of(fact.contract).items():
            if kind in totals:
                totals[kind] += amount * calls
    return totals


def check_budget(spot: Spot, totals: Mapping[Kind, int], plan: DraftPlan, ceiling: Budget | None) -> None:
    """Refuse a plan that certainly takes more than it may; whose limit that is, is said."""
    own = limits_of(plan.budget, None, None)
    for kind, limit in limits_of(plan.budget, plan.allow, ceiling).items():
        least = min(1, totals[Kind.CALLS]) if kind in SETTLED_LATER else totals.get(kind, 0)
        if least <= limit:
            continue
        takes = f"the plan takes {'some' if kind in SETTLED_LATER else f'at least {kind.shown(least)}'} ({kind})"
        if own.get(kind) == limit:
            spot.add(f"budget.{kind}", Code.OVER_BUDGET, f"budget.{kind}: {takes}; it asks for {kind.shown(limit)}")
        elif ceiling is not None and ceiling.limits.get(kind) == limit:
            told = f"budget.{kind}: {takes}; a run may have {kind.shown(limit)} by [budgets.run]"
            spot.add(f"budget.{kind}", Code.OVER_BUDGET, told)
        else:
            told = f"allow.max_cost: {takes}; its allow.max_cost is {kind.shown(limit)}"
            spot.add("allow.max_cost", Code.DENIED, told)


def check_windows(steps: Sequence[Draft], facts: Sequence[Facts | None], budgets: Sequence[Budget]) -> None:
    """Refuse a step that happens for certain and fits into no window of a wider budget: it would wait for ever."""
    for step, fact in zip(steps, facts, strict=True):
        if fact is None or fact.happens is not True or not fact.repeats.least:
            continue
        amounts = amounts_of(fact.contract)
        for budget in budgets:
            for kind, limit in budget.limits.items():
                needs = 1 if kind in SETTLED_LATER else amounts.get(kind, 0)
                if needs > limit:
                    takes = f"some {kind}" if kind in SETTLED_LATER else f"{kind.shown(needs)} ({kind})"
                    told = f"it takes {takes}; [budgets.{budget.scope}] has {kind.shown(limit)} in each window"
                    step.spot.add("tool", Code.OVER_BUDGET, told)


def shown_budget(facts: Sequence[Facts | None], limits: Mapping[Kind, int]) -> JsonObject:
    """The `budget` of `plan`."""
    totals = used(facts, certain=False)
    figures: JsonObject = {kind.value: kind.shown(totals[kind]) for kind in COUNTED}
    figures["limits"] = {kind.value: kind.shown(limit) for kind, limit in limits.items()}
    return figures
