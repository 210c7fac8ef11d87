"""What a run has used, by kind, in stored units. Nothing is changed here.

Calls are counted from their rows, and from the counters of the run's budget where that has them. Undos and probes are
free, and so is a call of which no attempt was ever sent.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import and_, bindparam, case, exists, func, or_, select

from .sql import Fact, Sql, fetch, one
from .tables import attempts, budgets, calls, payloads, runs


class Counter(NamedTuple):
    """What a run has used of one kind."""

    kind: str
    used: int


class Tally(NamedTuple):
    """What the calls of a run come to; None where there are none."""

    calls: int
    writes: int | None
    destructive: int | None
    output_bytes: int | None


_RUN_ID = bindparam("run_id", type_=runs.c.run_id.type)
_SENT = exists().where(attempts.c.call_id == calls.c.call_id, or_(attempts.c.sent.is_(None), attempts.c.sent != "no"))
TALLY: Sql[Tally] = Sql(
    select(
        func.count(),
        func.sum(case((calls.c.effect != "read", 1), else_=0)),
        func.sum(case((calls.c.effect == "destructive", 1), else_=0)),
        func.sum(payloads.c.bytes),
    )
    .select_from(calls.outerjoin(payloads, payloads.c.payload_id == calls.c.output_payload))
    .where(and_(calls.c.run_id == _RUN_ID, calls.c.route == "step", _SENT)),
    Tally,
)
COUNTERS_OF_RUN: Sql[Counter] = Sql(
    select(budgets.c.kind, budgets.c.used).where(
        budgets.c.scope == bindparam("scope", type_=budgets.c.scope.type), budgets.c.window_start == 0
    ),
    Counter,
)


def usage(run_id: str) -> Fact[dict[str, int]]:
    """What a run has used of every kind but its time.

    A counter knows of what a row does not say: the cost, and the outputs of earlier attempts.
    """
    tally = (yield from one(TALLY, run_id=run_id)) or Tally(0, 0, 0, 0)
    found = {kind: int(n or 0) for kind, n in tally._asdict().items()} | {"cost": 0}
    for counter in (yield from fetch(COUNTERS_OF_RUN, scope=f"run:{run_id}")):
        if counter.kind in found:
            found[counter.kind] = max(found[counter.kind], counter.used)
    return found
