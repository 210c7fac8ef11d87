"""What calls take from budgets: all of a call's charges or none, inside the transaction of its T1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from .sql import Count, Fact, Sql, change, one
from .tables import budgets


@dataclass(frozen=True, slots=True)
class Charge:
    """What a call takes from one budget; `limit` and `amount` in the budget's own unit, cost in millionths."""

    scope: str
    kind: str
    window_start: int
    amount: int
    limit: int
    resets_at: int | None


@dataclass(frozen=True, slots=True)
class OverBudget:
    """A budget has not enough left."""

    charge: Charge
    used: int


_USED: Sql[Count] = Sql(
    select(budgets.c.used).where(
        budgets.c.scope == bindparam("scope"),
        budgets.c.kind == bindparam("kind"),
        budgets.c.window_start == bindparam("window_start"),
    ),
    Count,
)
_spend = upsert(budgets).values({name: bindparam(name) for name in ("scope", "kind", "window_start", "used")})
_SPEND: Sql[Any] = Sql(
    _spend.on_conflict_do_update(
        index_elements=["scope", "kind", "window_start"], set_={"used": budgets.c.used + _spend.excluded.used}
    )
)
_GIVE_BACK: Sql[Any] = Sql(
    update(budgets)
    .where(
        budgets.c.scope == bindparam("of_scope"),
        budgets.c.kind == bindparam("of_kind"),
        budgets.c.window_start == bindparam("of_window"),
    )
    .values(used=budgets.c.used - bindparam("amount"))
)


def afford(charges: Sequence[Charge]) -> Fact[OverBudget | None]:
    """Take every charge, or none and say which budget has not enough left."""
    for charge in charges:
        found = yield from one(_USED, scope=charge.scope, kind=charge.kind, window_start=charge.window_start)
        used = found.n if found else 0
        if used + charge.amount > charge.limit:
            return OverBudget(charge, used)
    for charge in charges:
        yield from change(
            _SPEND, scope=charge.scope, kind=charge.kind, window_start=charge.window_start, used=charge.amount
        )
    return None


def give_back(charge: Charge, amount: int) -> Fact[None]:
    """Return what was reserved and not used."""
    yield from change(
        _GIVE_BACK, of_scope=charge.scope, of_kind=charge.kind, of_window=charge.window_start, amount=amount
    )
