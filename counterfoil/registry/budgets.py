"""Budgets and the limits of policy rules as values: which counters a call of a contract takes from, and how much.

No clock and no ledger: a `Demand` becomes a charge where the time and what was used are known. Counts are whole
numbers; costs and sums are in millionths, times in microseconds, so that a sum is exact whoever adds it up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .predicates import look_up, parse_pointer
from .vocabulary import Effect

if TYPE_CHECKING:
    from .contract import Contract
    from .principal import Principal
    from .vocabulary import JsonObject

MILLIONTHS: Final = 1_000_000
MOST: Final = 10**17
"""The largest amount that is counted, in millionths; a larger one counts as one that cannot be told."""


class Scope(StrEnum):
    """Whose calls one counter counts, the narrowest first."""

    RUN = "run"
    SUBJECT = "subject"
    TENANT = "tenant"
    SERVER = "server"


class Kind(StrEnum):
    """What is counted. `sum` is a rule's: of a number in the arguments."""

    CALLS = "calls"
    WRITES = "writes"
    DESTRUCTIVE = "destructive"
    COST = "cost"
    OUTPUT_BYTES = "output_bytes"
    ELAPSED_S = "elapsed_s"
    SUM = "sum"

    @property
    def unit(self) -> int:
        """How many of what is stored are one of what is written and shown."""
        return MILLIONTHS if self in {Kind.COST, Kind.SUM, Kind.ELAPSED_S} else 1

    def shown(self, stored: int) -> int | float:
        """A stored number as people write it."""
        whole, rest = divmod(stored, self.unit)
        return whole if rest == 0 else stored / self.unit


USABLE: Final = tuple(kind for kind in Kind if kind is not Kind.SUM)
"""What budgets have: all but the sums of rules."""
SETTLED_LATER: Final = frozenset({Kind.OUTPUT_BYTES, Kind.ELAPSED_S})
"""What is known only after a call: something must be left before it, and what was used is added after it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one call takes from one counter; see the ledger's `Charge`. `window` is its length in microseconds."""

    counter: str
    kind: Kind
    window: int
    amount: int
    limit: int | None
    rule_id: str | None = None

    @property
    def least(self) -> int:
        """How much must be left: of what is known only after the call, anything."""
        return 1 if self.kind in SETTLED_LATER else self.amount


@dataclass(frozen=True, slots=True)
class Budget:
    """What the calls of one scope may use in each window, in stored units; an absent kind is unlimited, 0 is none."""

    scope: Scope
    limits: Mapping[Kind, int]
    window: int = 0


@dataclass(frozen=True, slots=True)
class Budgets:
    """All budgets of a configuration: of every run, and of the windows of wider scopes."""

    run: Budget | None = None
    windowed: Sequence[Budget] = ()

    @property
    def stated(self) -> bool:
        """True if anything is limited."""
        return self.run is not None or bool(self.windowed)

    def demands(self, contract: Contract, principal: Principal) -> list[Demand]:
        """What a call takes from the budgets that have windows."""
        amounts = amounts_of(contract)
        return [
            Demand(counter_of(budget.scope, principal), kind, budget.window, amounts[kind], limit)
            for budget in self.windowed
            for kind, limit in budget.limits.items()
            if kind in amounts
        ]

    def beyond_run(self, contract: Contract) -> Demand | None:
        """What a call that is a run of its own cannot have; None if it fits."""
        if self.run is None:
            return None
        amounts = amounts_of(contract)
        wanted = (
            Demand(Scope.RUN.value, kind, 0, amounts[kind], limit)
            for kind, limit in self.run.limits.items()
            if kind in amounts
        )
        return next((demand for demand in wanted if demand.least > (demand.limit or 0)), None)


def run_demands(run_id: str, limits: Mapping[Kind, int], contract: Contract) -> list[Demand]:
    """What a step takes from the budget of its run.

    Its cost is counted without a limit too, since nothing else remembers it. The time of a run is no sum of its calls'.
    """
    amounts = amounts_of(contract)
    counter = f"{Scope.RUN.value}:{run_id}"
    counted = [*limits, *({Kind.COST} - limits.keys())]
    return [
        Demand(counter, kind, 0, amounts[kind], limits.get(kind))
        for kind in counted
        if kind in amounts and kind is not Kind.ELAPSED_S
    ]


def amounts_of(contract: Contract) -> dict[Kind, int]:
    """What one call of this contract takes, by kind; 0 for what is known only after it.

    A destructive call is a write too.
    """
    effect = contract.gate.effect
    amounts = {Kind.CALLS: 1, Kind.OUTPUT_BYTES: 0, Kind.ELAPSED_S: 0}
    if effect is not Effect.READ:
        amounts[Kind.WRITES] = 1
    if effect is Effect.DESTRUCTIVE:
        amounts[Kind.DESTRUCTIVE] = 1
    if contract.limits.cost > 0:
        amounts[Kind.COST] = millionths(contract.limits.cost) or MOST
    return amounts


def counter_of(scope: Scope, principal: Principal) -> str:
    """The name of a principal's counter: `server`, `tenant:a`, `subject:a/alice`."""
    tenant = principal.tenant.replace("%", "%25").replace("/", "%2F")
    match scope:
        case Scope.TENANT:
            return f"tenant:{tenant}"
        case Scope.SUBJECT:
            return f"subject:{tenant}/{principal.subject}"
        case _:
            return scope.value


def millionths(number: float, *, down: bool = False) -> int | None:
    """A number of 0 or more in whole millionths, exactly up to six decimals, further ones against the caller.

    None for a negative, infinite or unmanageably large one. `down` rounds a limit.
    """
    if not 0 <= number <= MOST // MILLIONTHS:
        return None
    exact = Decimal(number) if isinstance(number, int) else Decimal(repr(number))
    return int((exact * MILLIONTHS).to_integral_value(ROUND_FLOOR if down else ROUND_CEILING))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLimit:
    """How much a rule lets pass before it matches: a number of calls, or a sum over a number in the arguments, or both.

    `per` says whose calls are counted together; `sum` is the JSON Pointer of the number and `max` the most of its sum
    in each window of `window_s` seconds.
    """

    window_s: float
    per: Scope = Scope.SUBJECT
    calls: int | None = None
    sum: str | None = None
    max: float | None = None

    def problem(self) -> tuple[str, str] | None:
        """The field that cannot be right, and what may stand there; None if all is well."""
        absent = "max" if self.max is None else "sum"
        faults = {
            "per": ("it may be 'subject', 'tenant' or 'server'", self.per is Scope.RUN),
            "window_s": ("it is a positive number of seconds", not 0 < self.window_s < math.inf),
            absent: (
                "sum and max go together: the number that is added up, and the most of it in a window",
                (self.sum is None) != (self.max is None),
            ),
            "calls": (
                'it limits nothing; write calls = 20, or sum = "/amount" with max = 1000, or both',
                self.calls is None and self.sum is None and self.max is None,
            ),
        }
        return next(((name, text) for name, (text, wrong) in faults.items() if wrong), None) or self._bad_number()

    def _bad_number(self) -> tuple[str, str] | None:
        if self.calls is not None and self.calls < 0:
            return "calls", "it is a count of 0 or more"
        if self.max is not None and millionths(self.max) is None:
            return "max", f"it is a number from 0 to {MOST // MILLIONTHS}"
        return None


@dataclass(frozen=True, slots=True)
class LimitState:
    """How one limit of a rule stands for one call: what was used before it, and when its window ends.

    `used` is None where calls of other tenants are counted too: what they did is nobody else's to know.
    """

    rule_id: str
    kind: Kind
    used: int | None
    limit: int
    amount: int
    resets_at: int
    beyond: bool

    @property
    def said(self) -> str:
        """In words, without the time."""
        of = "the sum" if self.kind is Kind.SUM else self.kind.value
        if self.used is None:
            return f"{self.kind.shown(self.limit)} ({of}) for everybody together in this window"
        return f"{self.kind.shown(self.used)} of {self.kind.shown(self.limit)} ({of}) are used in this window"


@dataclass(frozen=True, slots=True)
class ReadyLimit:
    """A checked rule limit, with its pointer parsed and its numbers in stored units."""

    rule_id: str
    scope: Scope
    window: int
    calls: int | None
    parts: tuple[str, ...]
    most: int | None

    @classmethod
    def of(cls, rule_id: str, limit: RuleLimit) -> ReadyLimit:
        """From a limit without a problem.

        Raises:
            PredicateError: `sum` is no JSON Pointer.
        """
        parts = parse_pointer(limit.sum) if limit.sum is not None else ()
        most = millionths(limit.max, down=True) if limit.max is not None else None
        return cls(rule_id, limit.per, max(1, round(limit.window_s * MILLIONTHS)), limit.calls, parts, most)

    def amount(self, arguments: JsonObject) -> int | None:
        """What a call adds to the sum; None if that cannot be told, and then the rule matches."""
        found, value = look_up(arguments, self.parts)
        if not found or isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return millionths(value)

    def is_sure(self, arguments: JsonObject) -> bool:
        """False for a call whose share of the sum cannot be told."""
        return self.most is None or self.amount(arguments) is not None

    def demands(self, arguments: JsonObject, principal: Principal) -> list[Demand]:
        """What a call that the rule covers takes from its counters."""
        counter = f"rule:{self.rule_id}/{counter_of(self.scope, principal)}"
        found: list[Demand] = []
        if self.calls is not None:
            found.append(Demand(counter, Kind.CALLS, self.window, 1, self.calls, self.rule_id))
        if self.most is not None:
            found.append(Demand(counter, Kind.SUM, self.window, self.amount(arguments) or 0, self.most, self.rule_id))
        return found
