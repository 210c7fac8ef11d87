"""The tables that bound how much is done: `[budgets.*]`, and the `limit` of a policy rule.

The text below a key is its documentation: `reference()` reads it from here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ...registry.budgets import RuleLimit
from .kinds import Pointer, Window
from .table import Table

Most = Annotated[int, Field(ge=0, le=10**15)]
Amount = Annotated[float, Field(ge=0, le=10**11, allow_inf_nan=False)]
KINDS = ("calls", "writes", "destructive", "cost", "output_bytes", "elapsed_s")


class RunBudgetTable(Table):
    """What every run may use, a direct call as a run of one; its plan may ask for less. Absent: unlimited. 0: none."""

    calls: Most | None = None
    """Calls, each counted once whatever its attempts."""
    writes: Most | None = None
    """Calls of tools with an effect, destructive ones included."""
    destructive: Most | None = None
    """Calls of destructive tools, counted when they are sent, not when they are proposed."""
    cost: Amount | None = None
    """The sum of the tools' `cost`."""
    output_bytes: Most | None = None
    """Bytes of output; added after each call, which needs something left."""
    elapsed_s: Amount | None = None
    """Seconds from a run's submission on, without the time in which only people are awaited; then it is over."""


class BudgetTable(Table):
    """What all calls of one scope may use in each window. Absent: unlimited. 0: none."""

    window_s: Window
    """The length of a window, in seconds; windows begin at its multiples since 1970, in UTC."""
    calls: Most | None = None
    """Calls, each counted once whatever its attempts."""
    writes: Most | None = None
    """Calls of tools with an effect, destructive ones included."""
    destructive: Most | None = None
    """Calls of destructive tools, counted when they are sent, not when they are proposed."""
    cost: Amount | None = None
    """The sum of the tools' `cost`."""
    output_bytes: Most | None = None
    """Bytes of output; added after each call, which needs something left."""
    elapsed_s: Amount | None = None
    """Seconds that calls took; added after each call, which needs something left."""

    @model_validator(mode="after")
    def _limits_something(self) -> BudgetTable:
        if all(getattr(self, kind) is None for kind in KINDS):
            raise ValueError(f"it limits nothing; expected at least one of {', '.join(KINDS)}")
        return self


class BudgetsTable(Table):
    """How much may be done; every budget that applies must have enough left."""

    run: RunBudgetTable | None = None
    """Of each run, and of each direct call."""
    subject: BudgetTable | None = None
    """Of each subject of a tenant."""
    tenant: BudgetTable | None = None
    """Of each tenant."""
    server: BudgetTable | None = None
    """Of everybody on this ledger together."""


class LimitTable(Table):
    """What a rule lets pass in each window before it matches: calls, a sum, or both."""

    per: Literal["subject", "tenant", "server"] = "subject"
    """Whose calls are counted together."""
    window_s: Window
    """The length of a window, in seconds; windows begin at its multiples since 1970, in UTC."""
    calls: Most | None = None
    """How many calls."""
    sum: Pointer | None = None
    """A number in the arguments that is added up, by JSON Pointer; with `max`."""
    max: Amount | None = None
    """The most of that sum."""

    @model_validator(mode="after")
    def _limits_something(self) -> LimitTable:
        limit = RuleLimit(window_s=self.window_s, calls=self.calls, sum=self.sum, max=self.max)
        if (problem := limit.problem()) is not None:
            raise ValueError(problem[1])
        return self
