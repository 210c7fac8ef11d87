"""Budgets and the limits of rules on a call's way: what it takes, how they stand before it, and the refusals.

What is asked here before T1 only decides what to do; T1 counts, in its own transaction, and its word is final.
Probes are never charged, and neither are compensations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..ledger.budgeting import Charge, OverBudget, room_for, used_of
from ..registry.budgets import Demand, Kind, LimitState, Scope, run_demands
from ..registry.vocabulary import ErrorCode, JsonObject, Route
from .clock import rfc3339
from .refusal import RefusedError, refuse

if TYPE_CHECKING:
    from ..registry.contract import Contract
    from .case import Case, Within
    from .parts import Parts

MILLISECOND: Final = 1_000
FREE: Final = frozenset({Route.PROBE.value, Route.COMPENSATION.value})


def charges(parts: Parts, case: Case, at: int) -> tuple[Charge, ...]:
    """What a call takes in T1 at this time; a rule that matched already only counts it."""
    within, known = case.within, case.known
    if _is_free(case) or not (parts.limits_calls or _counts(within, known.contract)):
        return ()
    demands = [*parts.budgets.demands(known.contract, case.principal), *_rule_demands(parts, case)]
    if within is not None:
        demands += run_demands(within.run_id, within.budget, known.contract)
    return tuple(_charge(demand, at, counted=demand.rule_id in known.beyond) for demand in demands)


def run_time(case: Case) -> int | None:
    """How long the run of a step may take, in microseconds; None where that is not limited, or not by its budget."""
    return None if case.within is None or _is_free(case) else case.within.budget.get(Kind.ELAPSED_S)


async def weigh(parts: Parts, case: Case, reached: str | None = None) -> None:
    """Decide anew, knowing how the limits of the rules stand that count this call; `reached` is one that T1 met.

    A call that was charged is within its limits for good: they count it once, whatever its attempts.
    """
    if not parts.policy.limited or _is_free(case) or (case.row is not None and case.row.charges is not None):
        return
    known, at = case.known, parts.clock.now()
    wanted = _rule_demands(parts, case)
    asked = [_charge(demand, at, counted=False) for demand in wanted if demand.limit is not None]
    if not asked:
        return
    used = await parts.ledger.reads.look(lambda: used_of(asked))
    states = tuple(_state(charge, n) for charge, n in zip(asked, used, strict=True))
    beyond = known.beyond.union((state.rule_id for state in states if state.beyond), [reached] if reached else [])
    decision = parts.policy.decide(known.contract, known.arguments.value, case.principal, beyond)
    told = _telling(decision.rule_id, states, beyond)
    if told is not None:
        decision = replace(
            decision, reason=f"{decision.reason} Its limit: {told.said}, which ends at {rfc3339(told.resets_at)}."
        )
    case.admitted = replace(known, decision=decision, limits=states, beyond=beyond)


def limit_details(parts: Parts, case: Case) -> dict[str, Any]:
    """What a refusal says of the limits that made its rule match: the last to be reset."""
    known = case.known
    told = _telling(known.decision.rule_id, known.limits, known.beyond)
    if told is None:
        return {}
    return {
        "kind": told.kind.value,
        "used": _shown(told),
        "limit": told.kind.shown(told.limit),
        **reset(parts, told.resets_at),
    }


def shown_limits(case: Case) -> JsonObject:
    """How the limits stand that count this call, as a dry run shows them; nothing where there are none."""
    limits = case.known.limits
    if not limits:
        return {}
    return {
        "limits": [
            {
                "rule_id": state.rule_id,
                "kind": state.kind.value,
                "used": _shown(state),
                "limit": state.kind.shown(state.limit),
                "resets_at": rfc3339(state.resets_at),
                "beyond": state.beyond,
            }
            for state in limits
        ]
    }


async def require_budget(parts: Parts, case: Case) -> None:
    """Refuse what no budget is there for, before anybody is asked about it.

    Raises:
        RefusedError: with the budget that is used up, and when there is room again.
    """
    wanted = [charge for charge in charges(parts, case, parts.clock.now()) if charge.rule_id is None]
    over = await parts.ledger.reads.look(lambda: room_for(wanted)) if wanted else None
    if over is not None:
        raise over_budget(parts, over)


def beyond_run(parts: Parts, case: Case) -> RefusedError | None:
    """The refusal of a call that does not fit the budget of a run, since it is a run of one; None if it fits.

    What a step takes from its run is counted in T1.
    """
    demand = None if _is_free(case) or case.within is not None else parts.budgets.beyond_run(case.known.contract)
    return None if demand is None else over_budget(parts, OverBudget(_charge(demand, 0, counted=False), 0))


def over_budget(parts: Parts, found: OverBudget) -> RefusedError:
    """A budget has not enough left: which, how much, and what to do."""
    charge, kind = found.charge, Kind(found.charge.kind)
    scope, limit = charge.scope.partition(":")[0], charge.limit or 0
    mine = not _is_everybodys(charge)
    left = f"{kind.shown(max(0, limit - found.used))} {kind.value} left of" if mine else f"too few {kind.value} left of"
    needs = "any" if charge.least > charge.amount else kind.shown(charge.needs)
    again = None if charge.never_fits else charge.resets_at
    more = _where_to_ask_for_more(parts, scope, kind, limit)
    when = (
        f"It is full again at {rfc3339(again)}; ask then, or have {more} raised."
        if again is not None
        else f"Waiting does not help: have {more} raised, or do without this call."
    )
    return refuse(
        ErrorCode.BUDGET_EXHAUSTED,
        f"The {scope}'s budget has {left} {kind.shown(limit)} and this call needs {needs}; nothing was sent. {when}",
        scope=scope,
        kind=kind.value,
        limit=kind.shown(limit),
        used=kind.shown(found.used) if mine else None,
        **reset(parts, again),
    )


def _where_to_ask_for_more(parts: Parts, scope: str, kind: Kind, limit: int) -> str:
    """Whose figure it is: a plan may ask for less than the configuration lets every run have."""
    ceiling = parts.budgets.run
    if scope != Scope.RUN.value or (ceiling is not None and ceiling.limits.get(kind) == limit):
        return f"[budgets.{scope}]"
    return f"the plan's own {'allow.max_cost or ' if kind is Kind.COST else ''}budget.{kind.value}"


def reset(parts: Parts, at: int | None) -> dict[str, Any]:
    """When something ends, for a refusal's details; nothing where it does not end by itself."""
    if at is None:
        return {}
    return {
        "resets_at": rfc3339(at),
        "retry_after_s": math.ceil(max(0, at - parts.clock.now()) / MILLISECOND) / 1000,
    }


def _rule_demands(parts: Parts, case: Case) -> list[Demand]:
    known = case.known
    arguments = known.arguments.value
    counting = parts.policy.counting(known.contract, arguments, case.principal)
    return [
        demand if limit.is_sure(arguments) else replace(demand, limit=None)
        for limit in counting
        for demand in limit.demands(arguments, case.principal)
    ]


def _charge(demand: Demand, at: int, *, counted: bool) -> Charge:
    start = at // demand.window * demand.window if demand.window else 0
    return Charge(
        scope=demand.counter,
        kind=demand.kind.value,
        window_start=start,
        amount=demand.amount,
        limit=None if counted else demand.limit,
        resets_at=start + demand.window if demand.window else None,
        least=demand.least,
        rule_id=demand.rule_id,
    )


def _is_everybodys(charge: Charge) -> bool:
    """True for a counter that the calls of all tenants share: what is used of it would tell of theirs."""
    return charge.scope.removeprefix(f"rule:{charge.rule_id}/") == Scope.SERVER.value


def _state(charge: Charge, used: int) -> LimitState:
    return LimitState(
        rule_id=charge.rule_id or "",
        kind=Kind(charge.kind),
        used=None if _is_everybodys(charge) else used,
        limit=charge.limit or 0,
        amount=charge.amount,
        resets_at=charge.resets_at or 0,
        beyond=charge.exceeds(used),
    )


def _shown(state: LimitState) -> float | None:
    return None if state.used is None else state.kind.shown(state.used)


def _telling(rule_id: str, states: Sequence[LimitState], beyond: frozenset[str]) -> LimitState | None:
    """The state that says why this rule matches: the one that is exceeded and ends last. None if no limit made it."""
    mine = [state for state in states if state.rule_id == rule_id and rule_id in beyond]
    return max(mine, key=lambda state: (state.beyond, state.resets_at), default=None)


def _counts(within: Within | None, contract: Contract) -> bool:
    """True if a step takes from counters of its run; what its run may take of time is no counter."""
    return within is not None and (bool(within.budget.keys() - {Kind.ELAPSED_S}) or contract.limits.cost > 0)


def _is_free(case: Case) -> bool:
    route = case.row.route if case.row is not None else case.request.route.value if case.request is not None else ""
    return route in FREE
