"""Whatever takes, gives back and adds, and in whatever order: no counter passes its limit, and none loses track.

The facts are the ledger's own, on a real file; what must hold is added up beside them.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.ledger import migrations
from counterfoil.ledger.budgeting import (
    Charge,
    OverBudget,
    afford,
    give_back,
    held,
    list_counters,
    prune,
    spend_after,
)
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.run_rows import RunRow
from counterfoil.ledger.sealing import Sealed
from counterfoil.ledger.sql import run
from counterfoil.registry.budgets import Kind, ReadyLimit, RuleLimit
from counterfoil.registry.principal import Principal
from counterfoil.runtime.chain.timing import bound_of, elapsed_of
from tests.runtime.bench import call_row

WINDOW: Final = 100
"""The length of every window; a run has none."""
LIMITS: Final = {
    ("server", "calls"): 6,
    ("tenant:t", "cost"): 7,
    ("tenant:t", "elapsed_s"): 40,
    ("run:run_1", "calls"): 4,
    ("run:run_1", "output_bytes"): 50,
}
Key = tuple[str, str, int]


@dataclass(frozen=True)
class Ask:
    """A call that comes at this time."""

    at: int
    cost: int

    def charges(self) -> list[Charge]:
        """What it takes; some of it is known only later."""
        amounts = {"calls": 1, "cost": self.cost}
        found: list[Charge] = []
        for (scope, kind), limit in LIMITS.items():
            start = 0 if scope.startswith("run:") else self.at // WINDOW * WINDOW
            ends = None if scope.startswith("run:") else start + WINDOW
            least = 0 if kind in amounts else 1
            found.append(Charge(scope, kind, start, amounts.get(kind, 0), limit, ends, least))
        return found


@dataclass(frozen=True)
class Unsend:
    """One of the calls that were let through comes back unsent."""

    which: int


@dataclass(frozen=True)
class End:
    """An attempt of one of them ends, with so much output and after so long."""

    which: int
    output: int
    took: int


@dataclass
class Sheet:
    """What each counter must be, and the calls that took from it."""

    used: Counter[Key] = field(default_factory=Counter[Key])
    calls: list[tuple[CallRow, list[Charge]]] = field(default_factory=list[tuple[CallRow, list[Charge]]])
    ends: dict[Key, int | None] = field(default_factory=dict[Key, int | None])

    def add(self, charge: Charge, amount: int) -> None:
        key = (charge.scope, charge.kind, charge.window_start)
        if amount:
            self.used[key] += amount
            self.ends[key] = charge.resets_at


TIMES = st.integers(0, 299)
WHICH = st.integers(0, 30)
STEPS = st.one_of(
    st.builds(Ask, at=TIMES, cost=st.integers(0, 3)),
    st.builds(Ask, at=TIMES, cost=st.integers(0, 3)),
    st.builds(Unsend, which=WHICH),
    st.builds(End, which=WHICH, output=st.integers(0, 30), took=st.integers(0, 30)),
)


def output_of(size: int) -> Sealed:
    return Sealed("pay_1", "call_1", "t", "output", size, "", "", b"", "", (), 0)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    made = migrations.connect(tmp_path_factory.mktemp("counters") / "ledger.db", now=1, durability="normal")
    with closing(made):
        yield made


@given(steps=st.lists(STEPS, max_size=25), before=st.integers(0, 400))
def test_a_call_is_let_through_exactly_if_all_of_it_fits_and_counters_say_what_was_used(
    connection: sqlite3.Connection, steps: list[Ask | Unsend | End], before: int
) -> None:
    connection.execute("DELETE FROM budgets")
    sheet = Sheet()
    for step in steps:
        match step:
            case Ask():
                ask(connection, sheet, step)
            case Unsend(which=which) if sheet.calls:
                row, charges = sheet.calls.pop(which % len(sheet.calls))
                run(connection, give_back(row._replace(sent="no")))
                for charge in charges:
                    sheet.add(charge, -charge.amount)
            case End(which=which, output=output, took=took) if sheet.calls:
                row, charges = sheet.calls[which % len(sheet.calls)]
                run(connection, spend_after(row, output_of(output), took))
                for charge in charges:
                    sheet.add(charge, {"output_bytes": output, "elapsed_s": took}.get(charge.kind, 0))
    assert stored(connection) == +sheet.used
    reserved = {key: n for key, n in sheet.used.items() if key[1] in {"calls", "cost"}}
    assert all(0 <= n <= LIMITS[key[:2]] for key, n in reserved.items())
    run(connection, prune(before))
    ends = {key: ends for key, ends in sheet.ends.items() if sheet.used[key]}
    assert stored(connection).keys() == {key for key, at in ends.items() if at is None or at >= before}


def ask(connection: sqlite3.Connection, sheet: Sheet, wanted: Ask) -> None:
    """It is let through exactly if everything fits, and then takes everything, else nothing."""
    charges = wanted.charges()
    fits = all(
        sheet.used[charge.scope, charge.kind, charge.window_start] + max(charge.amount, charge.least)
        <= LIMITS[charge.scope, charge.kind]
        for charge in charges
    )
    over = run(connection, afford(charges))
    assert (over is None) == fits
    if isinstance(over, OverBudget):
        assert over.charge in charges
        assert over.used == sheet.used[over.charge.scope, over.charge.kind, over.charge.window_start]
        return
    name = f"call_{len(sheet.calls)}"
    sheet.calls.append((call_row(name, wanted.at)._replace(charges=held(charges)), charges))
    for charge in charges:
        sheet.add(charge, charge.amount)


def stored(connection: sqlite3.Connection) -> dict[Key, int]:
    """The counters that are not empty."""
    rows = run(connection, list_counters(0))
    return {(row.scope, row.kind, row.window_start): row.used for row in rows if row.used}


@given(pauses=st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)), max_size=10), paused=st.booleans())
def test_a_runs_time_is_all_time_but_that_in_which_only_people_were_awaited(
    pauses: list[tuple[int, int]], paused: bool
) -> None:
    taken, stood = sum(moves for moves, _ in pauses), sum(waits for _, waits in pauses)
    now = 5_000 + taken + stood
    row = RunRow(
        "run_1", "plan_1", "t", "me", "c", "[]", "{}", "g", "d", "i", "p", "k", 0, 5_000, 5_000,
        stood_still=stood, paused_at=now if paused else None,
    )  # fmt: skip
    later = now + 77
    assert elapsed_of(row, later) == taken + (0 if paused else 77)
    bound = bound_of(row, 10_000)
    assert bound is not None
    assert bound.at - now == 10_000 - taken


@given(amounts=st.lists(st.decimals(0, 1_000, places=6), max_size=20), most=st.integers(0, 5_000))
def test_a_sum_is_reached_exactly_when_its_decimals_add_up_to_more(amounts: list[Decimal], most: int) -> None:
    limit = ReadyLimit.of("r", RuleLimit(window_s=60, sum="/n", max=most))
    ann, used = Principal("t", "ann"), 0
    for count, amount in enumerate(amounts, 1):
        (demand,) = limit.demands({"n": float(amount)}, ann)
        assert demand.kind is Kind.SUM
        used += demand.amount
        assert (used > (demand.limit or 0)) == (sum(amounts[:count]) > most)
