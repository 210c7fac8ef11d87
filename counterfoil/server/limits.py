"""From the tables of budgets and rule limits to their values, and how the budgets of a ledger stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ..registry.budgets import MILLIONTHS, Budget, Budgets, Kind, RuleLimit, Scope, millionths
from ..runtime.clock import rfc3339
from .config.budget_tables import KINDS

if TYPE_CHECKING:
    from ..canonical import JsonObject
    from ..ledger.budgeting import CounterRow
    from .config.budget_tables import BudgetsTable, BudgetTable, LimitTable, RunBudgetTable
    from .config.tables import PolicyTable

WIDEST_FIRST: Final = (Scope.SERVER, Scope.TENANT, Scope.SUBJECT)


def budgets_of(tables: BudgetsTable) -> Budgets:
    """The budgets as values."""
    stated = [(scope, table) for scope in WIDEST_FIRST if (table := _table(tables, scope)) is not None]
    windowed = tuple(Budget(scope, _limits(table), _window(table.window_s)) for scope, table in stated)
    return Budgets(Budget(Scope.RUN, _limits(tables.run)) if tables.run is not None else None, windowed)


def limit_of(table: LimitTable | None) -> RuleLimit | None:
    """The limit of a rule as a value."""
    if table is None:
        return None
    return RuleLimit(per=Scope(table.per), window_s=table.window_s, calls=table.calls, sum=table.sum, max=table.max)


def standing(
    tables: BudgetsTable, rules: Iterable[PolicyTable], counters: Iterable[CounterRow], now: int
) -> list[JsonObject]:
    """What is used and left of every counter whose window is under way, with the end of that window."""
    limits = _all_limits(tables, rules)
    found: list[JsonObject] = []
    for row in counters:
        window, limit = limits.get((_family(row.scope), row.kind), (0, 0))
        if window and row.window_start == now // window * window:
            kind = Kind(row.kind)
            found.append(
                {
                    "scope": row.scope,
                    "kind": row.kind,
                    "used": kind.shown(row.used),
                    "limit": kind.shown(limit),
                    "left": kind.shown(max(0, limit - row.used)),
                    "resets_at": rfc3339(row.window_start + window),
                }
            )
    return found


def longest_window(tables: BudgetsTable, rules: Iterable[PolicyTable]) -> int:
    """The length of the longest window, in microseconds; 0 if there is none."""
    return max((window for window, _ in _all_limits(tables, rules).values()), default=0)


def _all_limits(tables: BudgetsTable, rules: Iterable[PolicyTable]) -> dict[tuple[str, str], tuple[int, int]]:
    """Window and limit of each family of counters and kind."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for budget in budgets_of(tables).windowed:
        found |= {(budget.scope.value, kind.value): (budget.window, limit) for kind, limit in budget.limits.items()}
    for rule in rules:
        if rule.limit is not None:
            found |= {
                (f"rule:{rule.id}", kind.value): (_window(rule.limit.window_s), most)
                for kind, most in _rule_limits(rule.limit)
            }
    return found


def _rule_limits(limit: LimitTable) -> Iterator[tuple[Kind, int]]:
    if limit.calls is not None:
        yield Kind.CALLS, limit.calls
    if limit.max is not None:
        yield Kind.SUM, millionths(limit.max, down=True) or 0


def _family(counter: str) -> str:
    """`tenant` of `tenant:a`, `rule:small` of `rule:small/tenant:a`: an id of a rule has no colon."""
    if not counter.startswith("rule:"):
        return counter.partition(":")[0]
    head = counter.partition(":")[2].partition(":")[0]
    return f"rule:{head.rpartition('/')[0]}"


def _table(tables: BudgetsTable, scope: Scope) -> BudgetTable | None:
    found: BudgetTable | None = getattr(tables, scope.value)
    return found


def _limits(table: BudgetTable | RunBudgetTable) -> dict[Kind, int]:
    stated = {Kind(name): getattr(table, name) for name in KINDS if getattr(table, name) is not None}
    return {kind: int(most) if kind.unit == 1 else millionths(most, down=True) or 0 for kind, most in stated.items()}


def _window(seconds: float) -> int:
    return max(1, round(seconds * MILLIONTHS))
