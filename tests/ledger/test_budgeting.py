"""Counters of budgets and limits: all charges or none, exact also across processes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from counterfoil.ledger.budgeting import Charge, OverBudget, afford, held, list_counters, prune, room_for, spend
from counterfoil.ledger.store import Ledger

pytestmark = pytest.mark.anyio
LIMIT_S = 60
CALLS = Charge("tenant:t", "calls", 0, 1, 5, 100)

_CHILD = """
import asyncio, sys, time
from pathlib import Path
from counterfoil.ledger.budgeting import Charge, afford
from counterfoil.ledger.store import Ledger, LedgerSettings

async def main():
    ledger = await Ledger.open(LedgerSettings(path=Path(sys.argv[1]), clock=lambda: time.time_ns() // 1000, busy_s=30))
    print("ready", flush=True)
    sys.stdin.readline()
    charges = (Charge("server", "calls", 0, 1, 100, None), Charge("tenant:t", "cost", 0, 3, 60, None))
    found = await asyncio.gather(*(ledger.record(lambda: afford(charges)) for _ in range(20)))
    print(sum(one is None for one in found), flush=True)
    await ledger.close()

asyncio.run(main())
"""


async def counters(ledger: Ledger) -> dict[tuple[str, str, int], int]:
    rows = await ledger.record(lambda: list_counters(0))
    return {(row.scope, row.kind, row.window_start): row.used for row in rows}


def test_processes_together_never_take_more_than_there_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    taken = [int(child.communicate(timeout=LIMIT_S)[0]) for child in children]
    assert sum(taken) == 20


async def test_a_charge_that_does_not_fit_takes_nothing_of_the_others(ledger: Ledger) -> None:
    wide, narrow = CALLS, replace(CALLS, scope="subject:t/ann", limit=1)
    assert await ledger.record(lambda: afford([wide, narrow])) is None
    over = await ledger.record(lambda: afford([wide, narrow]))
    assert over == OverBudget(narrow, 1)
    assert await counters(ledger) == {("subject:t/ann", "calls", 0): 1, ("tenant:t", "calls", 0): 1}


async def test_of_several_a_budget_is_named_before_a_rule_and_the_last_to_end_before_the_others(ledger: Ledger) -> None:
    soon, late = replace(CALLS, limit=0), replace(CALLS, scope="server", limit=0, resets_at=900)
    rule = replace(CALLS, scope="rule:r/server", limit=0, resets_at=9_000, rule_id="r")
    for charges in ([soon, late, rule], [rule, late, soon]):
        assert await ledger.record(partial(room_for, charges)) == OverBudget(late, 0)
    assert await ledger.record(lambda: room_for([rule])) == OverBudget(rule, 0)


async def test_what_is_only_counted_never_refuses(ledger: Ledger) -> None:
    counted = replace(CALLS, limit=None)
    for _ in range(9):
        assert await ledger.record(lambda: afford([counted])) is None
    assert await counters(ledger) == {("tenant:t", "calls", 0): 9}


async def test_what_is_known_only_later_needs_something_left_and_takes_nothing_yet(ledger: Ledger) -> None:
    later = Charge("server", "output_bytes", 0, 0, 10, None, least=1)
    assert await ledger.record(lambda: afford([later])) is None
    assert await counters(ledger) == {}
    await ledger.record(lambda: spend([replace(later, amount=25)]))
    assert await ledger.record(lambda: afford([later])) == OverBudget(later, 25)


async def test_windows_are_apart(ledger: Ledger) -> None:
    full = replace(CALLS, limit=1)
    assert await ledger.record(lambda: afford([full])) is None
    assert await ledger.record(lambda: afford([full])) is not None
    assert await ledger.record(lambda: afford([replace(full, window_start=100)])) is None


async def test_a_window_that_was_made_longer_is_kept_until_its_new_end(ledger: Ledger) -> None:
    longer = replace(CALLS, resets_at=500)
    for charge in (CALLS, longer, CALLS):
        assert await ledger.record(partial(afford, [charge])) is None
    assert await ledger.record(lambda: prune(500)) == 0
    assert await ledger.record(lambda: prune(501)) == 1


async def test_a_window_of_an_older_ledger_gets_its_end_with_its_next_call(ledger: Ledger) -> None:
    await ledger.record(lambda: afford([replace(CALLS, resets_at=None)]))
    assert await ledger.record(lambda: prune(10**17)) == 0
    await ledger.record(lambda: afford([CALLS]))
    assert await ledger.record(lambda: prune(101)) == 1


def test_a_row_says_what_its_call_took_and_nothing_where_it_took_nothing() -> None:
    assert held(()) is None
    assert json.loads(held([CALLS]) or "") == [["tenant:t", "calls", 0, 1, 100]]
