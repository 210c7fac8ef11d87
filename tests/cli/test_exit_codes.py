"""A script can tell done, no, and nobody-knows-yet apart."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil.server.cli.answer import exit_of_call, exit_of_reconcile
from counterfoil.server.cli.exits import Exit


@pytest.mark.parametrize(
    ("view", "code"),
    [
        ({"state": "settled", "outcome": "success"}, Exit.DONE),
        ({"state": "settled", "outcome": "no_result", "error": None}, Exit.DONE),
        ({"state": "settled", "outcome": "success", "error": {"code": "output_invalid"}}, Exit.NO),
        ({"state": "settled", "outcome": "partial"}, Exit.NO),
        ({"state": "settled", "outcome": "permanent_failure", "error": {"code": "tool_failed"}}, Exit.NO),
        ({"state": "refused", "outcome": "denied", "error": {"code": "ambiguous"}}, Exit.NO),
        ({"state": "awaiting_approval", "outcome": None}, Exit.WAITING),
        ({"state": "dispatched", "outcome": None, "error": {"code": "in_progress"}}, Exit.WAITING),
        ({"state": "awaiting_reconciliation", "outcome": "ambiguous", "error": {"code": "ambiguous"}}, Exit.WAITING),
        ({"dry_run": True, "verdict": "approve", "missing_scopes": []}, Exit.DONE),
        ({"dry_run": True, "verdict": "deny", "missing_scopes": []}, Exit.NO),
        ({"dry_run": True, "verdict": "allow", "missing_scopes": ["a"]}, Exit.NO),
    ],
)
def test_the_exit_code_of_a_call_follows_its_view(view: dict[str, Any], code: Exit) -> None:
    assert exit_of_call(view) is code


def test_a_reconcile_is_done_once_the_call_is_settled_even_as_failed() -> None:
    settled = {"state": "settled", "outcome": "permanent_failure", "error": {"code": "tool_failed"}}
    assert exit_of_reconcile(settled, refused=False) is Exit.DONE


def test_a_reconcile_that_found_nothing_out_is_still_waiting() -> None:
    view = {"state": "awaiting_reconciliation", "outcome": "ambiguous"}
    assert exit_of_reconcile(view, refused=False) is Exit.WAITING


def test_a_refused_reconcile_says_no() -> None:
    assert exit_of_reconcile({"state": "awaiting_reconciliation"}, refused=True) is Exit.NO
