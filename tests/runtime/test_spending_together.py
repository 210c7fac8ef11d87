"""Many spenders on one ledger, in processes of their own: never more than there is, and a kill gives nothing back.

Five processes with four tasks each stand for twenty, since a start costs its time; they share nothing but the
file, and what really happened is counted outside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil.ledger.budgeting import list_counters
from counterfoil.ledger.check import check
from counterfoil.ledger.verify import verify_database
from counterfoil.runtime.deciding import Decider
from counterfoil.server.app import open_app
from tests.kit.spender import BOOK, CONFIG

pytestmark = pytest.mark.anyio
ROOT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 60
PROCESSES, TASKS, CALLS = 5, 4, 4
DECADE = 315_360_000
"""A window that does not end while a test runs: the next one begins in December 2029, in UTC."""
ENDS = "2029-12-17T00:00:00.000000Z"
CAROL = Decider("os:carol", "same_user", "cli")
BUDGET = f"[budgets.tenant]\nwindow_s = {DECADE}\ncalls = 50\n"
SUM = f"""
[[policy]]
id = "fifty-in-all"
tool = "pay"
verdict = "deny"
limit = {{ per = "tenant", window_s = {DECADE}, sum = "/amount", max = 50 }}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "counterfoil.toml"


def go(config: Path, *, tool: str = "pay", processes: int = 1, tasks: int = 1, calls: int = 1) -> list[dict[str, Any]]:
    """How all calls of all processes were answered; a process that did not reach its end says nothing."""
    args = [sys.executable, "-m", "tests.kit.spender", str(config), str(processes), str(tasks), str(calls), tool]
    env = os.environ | {"PYTHONPATH": str(ROOT), BOOK.upper(): str(config.with_name(BOOK))}
    done = subprocess.run(args, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True)
    return [answer for said in done.stdout.splitlines() for answer in json.loads(said)]


def effects(config: Path) -> list[str]:
    return config.with_name(BOOK).read_text().split()


@pytest.mark.parametrize(
    ("more", "code", "scope"), [(BUDGET, "budget_exhausted", "tenant"), (SUM, "denied", None)], ids=["budget", "sum"]
)
def test_processes_together_send_exactly_what_there_is_and_tell_the_others_when_it_is_back(
    config: Path, more: str, code: str, scope: str | None
) -> None:
    config.write_text(CONFIG.format(root=ROOT) + more)
    answers = go(config, processes=PROCESSES, tasks=TASKS, calls=CALLS)
    assert len(answers) == PROCESSES * TASKS * CALLS == 80
    done = [answer for answer in answers if answer["outcome"] == "success"]
    told = [answer["error"] for answer in answers if answer["outcome"] != "success"]
    assert len(done) == len(effects(config)) == len(set(effects(config))) == 50
    for error in told:
        details = error["details"]
        assert (error["code"], details.get("scope"), details["used"], details["limit"]) == (code, scope, 50, 50)
        assert details["resets_at"] == ENDS
    ledger = config.with_name("ledger.db")
    assert verify_database(ledger).ok
    assert check(ledger).ok


async def test_a_kill_between_dispatch_and_outcome_leaves_what_was_reserved(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BOOK.upper(), str(config.with_name(BOOK)))
    config.write_text(CONFIG.format(root=ROOT) + BUDGET.replace("calls = 50", "calls = 2"))
    assert go(config, tool="vanish") == []
    assert effects(config) == ["p0-0-0"]
    async with open_app(config, role="embedded") as app:

        async def used() -> list[tuple[str, str, int]]:
            return [row[:2] + row[3:] for row in await app.ledger.record(lambda: list_counters(0))]

        assert await used() == [("tenant:local", "calls", 1)]
        assert (await app.call("pay", {"ref": "a"})).outcome == "success"
        over = await app.call("pay", {"ref": "b"})
        assert over.error is not None
        assert (over.error.code, over.error.details["used"]) == ("budget_exhausted", 2)
        status: Any = (await app.runtime.status(app.local)).wire()
        lost = status["unresolved"][0]["call_id"]
        await app.runtime.reconcile(
            app.local, call_id=lost, resolution="not_happened", evidence="their list", then="fail", person=CAROL
        )
        assert await used() == [("tenant:local", "calls", 2)]  # it was sent, whatever came of it
        assert len(effects(config)) == 2
