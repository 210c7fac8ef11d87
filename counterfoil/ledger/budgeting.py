"""What calls take from budgets and limits: all of a call's charges or none, inside the transaction of its T1.

A counter is one row: a scope, a kind and the start of a window. What it means, and how much it allows, is handed in.
What a call holds is written in its own row, so that whoever settles it, in whatever process, can give it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import bindparam, case, delete, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from ..canonical import JsonObject
from .rows import SELECT_ATTEMPTS, CallRow
from .sealing import Sealed
from .sql import Count, Fact, Sql, change, fetch, one
from .tables import budgets, calls


@dataclass(frozen=True, slots=True)
class Charge:
    """What a call takes from one counter; `limit` and `amount` in the counter's own unit.

    At `least` this much must be left, where the amount itself is known only later. Without a `limit` it is only
    counted. `rule_id` names the policy rule whose limit this is; a budget has none.
    """

    scope: str
    kind: str
    window_start: int
    amount: int
    limit: int | None
    resets_at: int | None
    least: int = 0
    rule_id: str | None = None

    @property
    def needs(self) -> int:
        """How much must be left."""
        return max(self.amount, self.least)

    @property
    def never_fits(self) -> bool:
        """True if it would not fit into an empty window either: waiting does not help."""
        return self.limit is not None and self.needs > self.limit

    def exceeds(self, used: int) -> bool:
        """True if this much was used before and the charge does not fit any more."""
        return self.limit is not None and used + self.needs > self.limit


@dataclass(frozen=True, slots=True)
class OverBudget:
    """A counter has not enough left."""

    charge: Charge
    used: int


class Taken(NamedTuple):
    """What a call holds of one counter; `ends_at` is the end of its window."""

    scope: str
    kind: str
    window_start: int
    amount: int
    ends_at: int | None = None


class CounterRow(NamedTuple):
    """One counter; a run's has a `window_start` of 0."""

    scope: str
    kind: str
    window_start: int
    used: int


_USED: Sql[Count] = Sql(
    select(budgets.c.used).where(
        budgets.c.scope == bindparam("scope"),
        budgets.c.kind == bindparam("kind"),
        budgets.c.window_start == bindparam("window_start"),
    ),
    Count,
)
_spend = upsert(budgets).values(
    {name: bindparam(name) for name in ("scope", "kind", "window_start", "used", "ends_at")}
)
_LATER_END = case(
    (or_(budgets.c.ends_at.is_(None), budgets.c.ends_at < _spend.excluded.ends_at), _spend.excluded.ends_at),
    else_=budgets.c.ends_at,
)  # a window may have been made longer, and begin at the same time
_SPEND: Sql[Any] = Sql(
    _spend.on_conflict_do_update(
        index_elements=["scope", "kind", "window_start"],
        set_={"used": budgets.c.used + _spend.excluded.used, "ends_at": _LATER_END},
    )
)
_PRUNE: Sql[Any] = Sql(delete(budgets).where(budgets.c.ends_at < bindparam("before", type_=budgets.c.ends_at.type)))
_GIVE_BACK: Sql[Any] = Sql(
    update(budgets)
    .where(
        budgets.c.scope == bindparam("of_scope"),
        budgets.c.kind == bindparam("of_kind"),
        budgets.c.window_start == bindparam("of_window"),
    )
    .values(used=budgets.c.used - bindparam("amount"))
)
_LET_GO: Sql[Any] = Sql(update(calls).where(calls.c.call_id == bindparam("of")).values(charges=None))
COUNTERS: Sql[CounterRow] = Sql(
    select(*[budgets.c[name] for name in CounterRow._fields])
    .where(budgets.c.window_start >= bindparam("since"))
    .order_by(budgets.c.scope, budgets.c.kind, budgets.c.window_start),
    CounterRow,
)


def used_of(charges: Iterable[Charge]) -> Fact[list[int]]:
    """How much of each counter is used, in the order of the charges."""
    found: list[int] = []
    for charge in charges:
        row = yield from one(_USED, scope=charge.scope, kind=charge.kind, window_start=charge.window_start)
        found.append(row.n if row else 0)
    return found


def room_for(charges: Sequence[Charge]) -> Fact[OverBudget | None]:
    """What the charges do not fit into, None if they do: budgets before rules, of several the last to have room."""
    limited = [charge for charge in charges if charge.limit is not None]
    used = yield from used_of(limited)
    over = [OverBudget(charge, n) for charge, n in zip(limited, used, strict=True) if charge.exceeds(n)]
    return max(over, key=_lasting, default=None)


def _lasting(over: OverBudget) -> tuple[bool, bool, int]:
    charge = over.charge
    return charge.rule_id is None, charge.resets_at is None or charge.never_fits, charge.resets_at or 0


def afford(charges: Sequence[Charge]) -> Fact[OverBudget | None]:
    """Take every charge, or none and say which counter has not enough left."""
    if not charges:
        return None
    over = yield from room_for(charges)
    if over is None:
        yield from spend(charges)
    return over


def spend(charges: Iterable[Charge]) -> Fact[None]:
    """Take what was used, whatever is left."""
    for charge in charges:
        if charge.amount:
            yield from _spend_of(_taken_by(charge), charge.amount)


def spend_after(row: CallRow, output: Sealed | None, took: int = 0) -> Fact[None]:
    """Take what is known only after an attempt from the counters that its call was charged to.

    That is the size of its output and how long it took, in microseconds.
    """
    used = {"output_bytes": output.bytes if output is not None else 0, "elapsed_s": took}
    for taken in _taken(row):
        if used.get(taken.kind):
            yield from _spend_of(taken, used[taken.kind])


def _spend_of(taken: Taken, used: int) -> Fact[None]:
    yield from change(
        _SPEND,
        scope=taken.scope,
        kind=taken.kind,
        window_start=taken.window_start,
        used=used,
        ends_at=taken.ends_at,
    )


def held(charges: Sequence[Charge]) -> str | None:
    """What a call's row says of its charges; None if there are none."""
    if not charges:
        return None
    return json.dumps([_taken_by(charge) for charge in charges])


def shown(charges: Sequence[Charge]) -> JsonObject | None:
    """What a T1 event says of its charges, each counter with what was taken; None if there are none."""
    return {f"{charge.scope}#{charge.kind}": charge.amount for charge in charges} or None


def give_back(row: CallRow) -> Fact[None]:
    """Return what an ended call took, if no attempt of it was ever sent."""
    if row.charges is None or row.sent != "no":
        return
    if any(crossing.sent != "no" for crossing in (yield from fetch(SELECT_ATTEMPTS, call_id=row.call_id))):
        return
    for taken in _taken(row):
        if taken.amount:
            yield from change(
                _GIVE_BACK,
                of_scope=taken.scope,
                of_kind=taken.kind,
                of_window=taken.window_start,
                amount=taken.amount,
            )
    yield from change(_LET_GO, of=row.call_id)


def _taken_by(charge: Charge) -> Taken:
    return Taken(charge.scope, charge.kind, charge.window_start, charge.amount, charge.resets_at)


def _taken(row: CallRow) -> list[Taken]:
    return [Taken(*entry) for entry in json.loads(row.charges or "[]")]


def prune(before: int) -> Fact[int]:
    """Forget the counters of windows that had ended before this time; what each call took stands in its events."""
    return (yield from change(_PRUNE, before=before))


def list_counters(since: int) -> Fact[list[CounterRow]]:
    """The counters of windows that began at or after this time."""
    return (yield from fetch(COUNTERS, since=since))
