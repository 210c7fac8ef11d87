"""A script can tell a run that succeeded, one that did not, and one that still goes on or waits apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from counterfoil.server.cli.answer import exit_of_plan, exit_of_run, exit_of_run_reconcile
from counterfoil.server.cli.exits import Exit

Command = Callable[..., Any]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("succeeded", Exit.DONE),
        ("failed", Exit.NO),
        ("cancelled", Exit.NO),
        ("budget_exhausted", Exit.NO),
        ("queued", Exit.WAITING),
        ("running", Exit.WAITING),
        ("awaiting_approval", Exit.WAITING),
        ("awaiting_reconciliation", Exit.WAITING),
        ("awaiting_external", Exit.WAITING),
    ],
)
def test_the_exit_code_of_a_run_follows_its_status(status: str, code: Exit) -> None:
    assert exit_of_run({"status": status}, refused=False) is code
    assert exit_of_run({"status": status}, refused=True) is Exit.NO


def test_a_plan_is_valid_or_not() -> None:
    assert exit_of_plan({"plan_id": "plan_1"}) is Exit.DONE
    assert exit_of_plan({"error": {"code": "plan_invalid"}}) is Exit.NO


def test_a_reconcile_is_done_once_the_run_has_ended_with_nothing_unknown() -> None:
    ended = {"status": "failed", "unresolved": []}
    assert exit_of_run_reconcile(ended, refused=False) is Exit.DONE
    assert exit_of_run_reconcile(ended | {"unresolved": [{"call_id": "c"}]}, refused=False) is Exit.WAITING
    assert exit_of_run_reconcile({"status": "running"}, refused=False) is Exit.WAITING
    assert exit_of_run_reconcile(ended, refused=True) is Exit.NO


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    "line",
    [
        ("run",),
        ("run", "{}", "--plan-id", "plan_1"),
        ("run", "--run-id", "run_1", "--key", "k"),
        ("run", "--run-id", "run_1", "--input", "{}"),
        ("run", "{}", "--key", ""),
        ("run", "{}", "--key", "k" * 201),
        ("run", "{}", "--input", "{"),
        ("runs",),
        ("runs", "show", "call_1"),
        ("runs", "cancel", "plan_1"),
        ("runs", "fork", "call_1"),
        ("runs", "replay", "plan_1"),
        ("runs", "list", "--limit", "0"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(command: Command, line: tuple[str, ...]) -> None:
    ran = command(*line, "--json")
    assert (ran.exit_code, ran.answer["ok"]) == (2, False)
