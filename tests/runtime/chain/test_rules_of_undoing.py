"""What `check` says of a run that was undone: each breach is planted by hand into a copy of its ledger."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.ledger.check import check
from tests.runtime.chain.running import Runs, step
from tests.runtime.chain.undone import UNDO, fails, refuse
from tests.runtime.hands import Stage

pytestmark = pytest.mark.anyio
OF_THE_UNDO = "UPDATE calls SET {} WHERE route = 'compensation'"
OF_A_STEP = "UPDATE calls SET {} WHERE route = 'step' AND step = 'a'"
BREACHES = [
    (OF_THE_UNDO.format("state = 'awaiting_external'"), "complete_is_undone"),
    (OF_THE_UNDO.format("outcome = 'partial'"), "complete_is_undone"),
    ("UPDATE undos SET state = 'not_undone'", "complete_is_undone"),
    (OF_A_STEP.format("state = 'queued'"), "run_ended"),
    (OF_THE_UNDO.format("state = 'dispatched'"), "run_ended"),
]
OPEN = ("awaiting_external", "queued", "awaiting_reconciliation")


async def breached(runs: Runs, stage: Stage, sql: str, tmp_path: Path) -> set[tuple[str, str]]:
    """The rules that are broken once the hand was at a run with one effect undone and one kept."""
    stage.then("peek", refuse)
    kept = step("k", "note", compensate="none")
    row, _ = await runs.end(step("a", "ship"), kept, fails("a", "k"), **UNDO)
    assert (row.status, row.compensation) == ("failed", "complete")
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(runs.app.ledger.path)) as source, closing(sqlite3.connect(copy)) as hand:
        source.backup(hand)
        assert check(copy).breaches == ()
        hand.executescript(sql)
    return {(breach.rule, breach.row) for breach in check(copy).breaches if breach.row == row.run_id}


@pytest.mark.parametrize(("sql", "rule"), BREACHES)
async def test_a_planted_breach_is_named_with_its_run(
    runs: Runs, stage: Stage, tmp_path: Path, sql: str, rule: str
) -> None:
    assert rule in {name for name, _ in await breached(runs, stage, sql, tmp_path)}


@pytest.mark.parametrize("state", OPEN)
async def test_an_undo_may_be_asked_about_and_sent_again_after_the_end_of_its_run(
    runs: Runs, stage: Stage, tmp_path: Path, state: str
) -> None:
    sql = OF_THE_UNDO.format(f"state = '{state}'")
    assert "run_ended" not in {name for name, _ in await breached(runs, stage, sql, tmp_path)}
