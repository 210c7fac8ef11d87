"""What rows say of steps, what items say of a `for_each`, and how a run ends: the tables of design section 9."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counterfoil.runtime.chain.folding import Ending, fold_items, has_effect, has_output, state_of, verdict, waits_for
from counterfoil.runtime.chain.states import RunStatus, StepState
from tests.runtime.bench import call_row

S = StepState
PLAIN = Ending()


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"state": "settled", "outcome": "success"}, S.SUCCEEDED),
        ({"state": "settled", "outcome": "no_result"}, S.SUCCEEDED),
        ({"state": "settled", "outcome": "success", "code": "output_invalid"}, S.FAILED),
        ({"state": "settled", "outcome": "partial"}, S.FAILED),
        ({"state": "settled", "outcome": "permanent_failure", "code": "tool_failed"}, S.FAILED),
        ({"state": "settled", "outcome": "retryable_failure", "code": "unavailable"}, S.FAILED),
        ({"state": "settled", "outcome": "permanent_failure", "code": "cancelled"}, S.CANCELLED),
        ({"state": "refused", "outcome": "denied", "code": "approval_rejected"}, S.REJECTED),
        ({"state": "refused", "outcome": "denied", "code": "approval_expired"}, S.REJECTED),
        ({"state": "refused", "outcome": "denied", "code": "denied"}, S.FAILED),
        ({"state": "awaiting_approval"}, S.AWAITING_APPROVAL),
        ({"state": "awaiting_reconciliation", "outcome": "ambiguous"}, S.AWAITING_RECONCILIATION),
        ({"state": "awaiting_external"}, S.AWAITING_EXTERNAL),
        ({"state": "dispatched", "generation": 1}, S.RUNNING),
        ({"state": "queued", "generation": 1}, S.RUNNING),
        ({"state": "queued"}, S.READY),
    ],
)
def test_a_call_says_how_its_step_stands(changes: dict[str, Any], state: StepState) -> None:
    assert state_of(call_row("c", 0)._replace(**changes)) is state


@pytest.mark.parametrize(
    ("outcome", "code", "effect", "output"),
    [
        ("success", None, True, True),
        ("no_result", None, True, True),
        ("partial", None, True, True),
        ("success", "output_invalid", True, False),
        ("permanent_failure", "tool_failed", False, False),
    ],
)
def test_what_partly_happened_or_broke_its_promise_has_an_effect(
    outcome: str, code: str | None, effect: bool, output: bool
) -> None:
    row = call_row("c", 0)._replace(state="settled", outcome=outcome, code=code)
    assert (has_effect(row), has_output(row)) == (effect, output)
    assert not has_effect(row._replace(effect="read"))
    assert not has_output(row._replace(state="dispatched"))


@pytest.mark.parametrize(
    ("items", "state"),
    [
        ([S.SUCCEEDED, S.SUCCEEDED], S.SUCCEEDED),
        ([S.SUCCEEDED, S.FAILED], S.FAILED),
        ([S.SUCCEEDED, S.REJECTED], S.REJECTED),
        ([S.FAILED, S.REJECTED], S.FAILED),
        ([S.CANCELLED, S.SUCCEEDED], S.CANCELLED),
        ([S.SUCCEEDED, S.NOT_RUN], S.FAILED),
        ([S.NOT_RUN, S.NOT_RUN], S.NOT_RUN),
        ([S.CANCELLED, S.CANCELLED], S.CANCELLED),
        ([S.FAILED, S.RUNNING], S.RUNNING),
        ([S.AWAITING_APPROVAL, S.READY], S.RUNNING),
        ([S.AWAITING_APPROVAL, S.AWAITING_RECONCILIATION, S.SUCCEEDED], S.AWAITING_RECONCILIATION),
        ([S.AWAITING_APPROVAL, S.FAILED], S.AWAITING_APPROVAL),
    ],
)
def test_a_for_each_ends_once_all_its_items_have(items: list[StepState], state: StepState) -> None:
    assert fold_items(items) is state


def test_what_nobody_knows_is_waited_for_before_what_somebody_decides() -> None:
    assert waits_for([S.AWAITING_APPROVAL, S.AWAITING_RECONCILIATION]) is RunStatus.AWAITING_RECONCILIATION
    assert waits_for([S.AWAITING_APPROVAL, S.SUCCEEDED]) is RunStatus.AWAITING_APPROVAL
    assert waits_for([S.SUCCEEDED]) is None


def test_what_was_skipped_and_what_follows_from_it_fails_no_run() -> None:
    end = verdict({"a": S.SUCCEEDED, "b": S.SKIPPED, "c": S.NOT_RUN}, PLAIN, {})
    assert (end.status, end.reason) == (RunStatus.SUCCEEDED, None)


def test_a_failure_fails_the_run_and_is_named_with_its_code() -> None:
    end = verdict({"a": S.FAILED, "b": S.NOT_RUN, "c": S.REJECTED}, PLAIN, {"a": "tool_failed"})
    assert (end.status, end.reason, end.code) == (RunStatus.FAILED, "a: failed", "tool_failed")
    assert "2 steps" in (end.message or "")


def test_continue_lets_a_run_succeed_and_says_after_what() -> None:
    end = verdict({"a": S.REJECTED, "b": S.NOT_RUN}, replace(PLAIN, continued=frozenset({"a"})), {})
    assert (end.status, end.reason) == (RunStatus.SUCCEEDED, "continued after a")


@pytest.mark.parametrize(
    ("ending", "status", "code"),
    [
        (Ending(cancelled=True), RunStatus.CANCELLED, "cancelled"),
        (Ending(deadline_passed=True), RunStatus.FAILED, "deadline_exceeded"),
        (Ending(over_budget=True), RunStatus.BUDGET_EXHAUSTED, "budget_exhausted"),
    ],
)
def test_what_ended_a_run_from_outside_is_its_end_whatever_its_steps_did(
    ending: Ending, status: RunStatus, code: str
) -> None:
    end = verdict({"a": S.SUCCEEDED, "b": S.FAILED}, ending, {"b": "tool_failed"})
    assert (end.status, end.code) == (status, code)
