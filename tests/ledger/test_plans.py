"""No statement on the way of a call may walk through the calls of a subject, of a run or of the ledger."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from counterfoil.ledger import (
    admission,
    approving,
    bookkeeping,
    chain,
    dispatching,
    migrations,
    queries,
    recovering,
    rows,
    settling,
)
from counterfoil.ledger.sql import Sql

MODULES = (rows, admission, bookkeeping, dispatching, settling, approving, recovering, chain, queries)
LISTS = {"RECENT", "RECENT_APPROVALS", "SINCE"}  # what is newest, by an index over time


def statements(module: ModuleType) -> dict[str, Sql[Any]]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Sql) and name not in LISTS}


def plan_of(path: Path, statement: Sql[Any]) -> list[str]:
    connection = migrations.connect(path, now=1, durability="normal", busy_s=5)
    try:
        found = connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", [None] * len(statement.order))
        return [str(row[3]) for row in found]
    finally:
        connection.close()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_no_statement_walks_through_all_calls_or_all_calls_of_a_subject(tmp_path: Path, module: ModuleType) -> None:
    for name, statement in statements(module).items():
        for step in plan_of(tmp_path / "ledger.db", statement):
            assert not step.startswith(("SCAN calls", "SCAN events", "SCAN attempts", "SCAN payloads")), (name, step)
            assert "calls_recent" not in step, (name, step)


def test_the_duplicate_rules_ask_their_own_indexes(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    assert any("calls_joinable" in step for step in plan_of(path, rows.SELECT_JOINABLE))
    assert any("calls_waiting" in step for step in plan_of(path, rows.SELECT_WAITING))
