"""Plans as they were accepted: stored once, sealed, never changed."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from .run_rows import PlanRow
from .sealing import Sealed, store
from .sql import Fact, Sql, add, one
from .tables import plans

SELECT_PLAN: Sql[PlanRow] = Sql(
    select(*[plans.c[name] for name in PlanRow._fields]).where(
        plans.c.plan_id == bindparam("plan_id", type_=plans.c.plan_id.type)
    ),
    PlanRow,
)


def save_plan(plan: PlanRow, document: Sealed) -> Fact[PlanRow]:
    """Store a plan with its document."""
    yield from store(document)
    yield from add(plans, plan)
    return plan


def get_plan(plan_id: str) -> Fact[PlanRow | None]:
    """A plan's row."""
    return (yield from one(SELECT_PLAN, plan_id=plan_id))
