"""An undo is decided about like any call; one that fails, is rejected or lost is told, and tried again by reconcile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.chain.running import CAROL, Runs, step
from tests.runtime.chain.undone import UNDO, acted, doubtful, fails, fates, partly, reconciled, refuse, view_of, word
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio


async def test_an_undo_needs_its_own_approval_and_the_run_waits_for_it(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "ship"), step("b", "pay", depends_on=["a"]), fails("b"), **UNDO)
    assert (row.status, row.compensation) == ("awaiting_approval", "running")
    view = await view_of(runs, row.run_id)
    [pending] = view["pending"]
    assert (pending["step"], pending["tool"], pending["undo"]) == ("b", "pay__undo", True)
    assert fates(view) == [("b", None, "awaiting_approval"), ("a", None, "waiting")]
    await runs.woken(row.run_id)
    await runs.app.runtime.decide(pending["approval_id"], "approve", decider=CAROL)
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "complete")
    assert acted(stage) == [("ship", "a"), ("pay", "b"), ("unpay", "b"), ("unship", "a")]


async def test_a_rejected_undo_is_incomplete_and_reconcile_asks_anew(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "pay"), fails("a"), **UNDO)
    [pending] = (await view_of(runs, row.run_id))["pending"]
    await runs.woken(row.run_id)
    await runs.app.runtime.decide(pending["approval_id"], "reject", decider=CAROL)
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "incomplete")
    view = await view_of(runs, row.run_id)
    assert (fates(view), view["compensations"][0]["error"]["code"]) == (
        [("a", None, "not_undone")], "approval_rejected",
    )  # fmt: skip
    view = await reconciled(runs, row.run_id)
    assert (view["status"], view["compensation"]) == ("awaiting_approval", "running")
    [again] = view["pending"]
    assert again["approval_id"] != pending["approval_id"]
    await runs.woken(row.run_id)
    await runs.app.runtime.decide(again["approval_id"], "approve", decider=CAROL)
    row = await runs.rest(row.run_id)
    assert (row.status, row.reason, row.compensation) == ("failed", "bad: failed", "complete")


async def test_a_failed_undo_is_never_complete_and_only_it_is_tried_again_by_reconcile(
    runs: Runs, stage: Stage
) -> None:
    stage.then("peek", refuse)
    stage.then("unship", refuse)
    row, _ = await runs.end(step("a", "ship"), step("b", "ship", depends_on=["a"]), fails("b"), **UNDO)
    assert (row.status, row.compensation) == ("failed", "incomplete")
    assert acted(stage) == [("ship", "a"), ("ship", "b"), ("unship", "a")]  # best effort: the other one is tried
    view = await view_of(runs, row.run_id)
    assert fates(view) == [("b", None, "not_undone"), ("a", None, "undone")]
    assert view["next"]["tool"] == "reconcile"
    actions = {called[1]: called[2] for called in stage.calls if called[0] == "unship"}
    view = await reconciled(runs, row.run_id)
    assert (view["status"], view["compensation"], fates(view)[0]) == ("failed", "complete", ("b", None, "undone"))
    assert acted(stage)[3:] == [("unship", "b")]
    again = [called for called in stage.calls if called[:2] == ("unship", "b")]
    assert [called[2:] for called in again] == [(actions["b"], 1), (actions["b"], 2)]


async def test_an_undo_is_sent_five_times_at_the_most(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    stage.then("unship", *[refuse] * 9)
    row, _ = await runs.end(step("a", "ship"), fails("a"), **UNDO)
    for _ in range(7):
        view = await reconciled(runs, row.run_id)
    assert (view["compensation"], stage.count("unship")) == ("incomplete", 5)
    assert "by hand" in view["compensations"][0]["reason"]
    assert view["next"]["tool"] == "status"  # nobody is sent to reconcile for nothing
    assert "nothing of it can be tried again" in view["next"]["text"]


async def test_a_strict_run_whose_undo_was_sent_too_often_says_that_only_cancel_ends_it(
    runs: Runs, stage: Stage
) -> None:
    stage.then("peek", refuse)
    stage.then("unship", *[refuse] * 9)
    row, _ = await runs.end(step("a", "ship"), fails("a"), compensation="strict", **UNDO)
    for _ in range(5):
        view = await reconciled(runs, row.run_id)
    assert (view["status"], view["next"]["tool"], stage.count("unship")) == ("awaiting_reconciliation", "cancel", 5)
    await runs.woken(row.run_id)
    await runs.cancel(row.run_id)
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "incomplete")


async def test_an_undo_that_undid_a_part_says_so_and_is_not_sent_again(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    stage.then("unship", partly)
    row, _ = await runs.end(step("a", "ship"), fails("a"), **UNDO)
    view = await reconciled(runs, row.run_id)
    assert (view["compensation"], fates(view), stage.count("unship")) == ("incomplete", [("a", None, "not_undone")], 1)
    assert "a part of it" in view["compensations"][0]["reason"]
    assert view["next"]["tool"] == "status"


async def test_a_lost_undo_is_unresolved_never_undone_and_not_sent_again(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    stage.then("unship", lose)
    row, _ = await runs.end(step("a", "ship"), step("b", "ship", depends_on=["a"]), fails("b"), **UNDO)
    assert (row.status, row.compensation) == ("failed", "incomplete")
    view = await view_of(runs, row.run_id)
    assert fates(view) == [("b", None, "awaiting_reconciliation"), ("a", None, "undone")]
    [unknown] = view["unresolved"]
    assert (unknown["step"], unknown["tool"]) == ("b", "ship__undo")
    view = await reconciled(runs, row.run_id)
    assert (view["compensation"], stage.count("unship")) == ("incomplete", 2)
    await word(runs, unknown["call_id"], "happened")
    row = await runs.until(row.run_id, lambda found: found.compensation == "complete")
    assert (row.status, row.compensation) == ("failed", "complete")
    assert stage.count("unship") == 2


async def test_an_undo_whose_failure_says_nothing_of_its_effect_is_unresolved_too(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    stage.then("unship", doubtful)
    row, _ = await runs.end(step("a", "ship"), fails("a"), **UNDO)
    view = await view_of(runs, row.run_id)
    assert (view["status"], view["compensation"], fates(view)) == (
        "failed", "incomplete", [("a", None, "awaiting_reconciliation")],
    )  # fmt: skip
    await word(runs, view["unresolved"][0]["call_id"], "not_happened", then="fail")
    view = await reconciled(runs, row.run_id)
    assert (view["compensation"], acted(stage)[-1]) == ("complete", ("unship", "a"))


async def test_a_strict_plan_stops_at_the_first_failed_undo_and_goes_on_once_that_is_done(
    runs: Runs, stage: Stage
) -> None:
    stage.then("peek", refuse)
    stage.then("unship", refuse)
    row, _ = await runs.end(
        step("a", "ship"), step("b", "ship", depends_on=["a"]), fails("b"), compensation="strict", **UNDO
    )
    assert (row.status, row.reason, row.compensation, row.finished_at) == (
        "awaiting_reconciliation", "strict", "incomplete", None,
    )  # fmt: skip
    view = await view_of(runs, row.run_id)
    assert fates(view) == [("b", None, "not_undone"), ("a", None, "waiting")]
    assert view["next"]["tool"] == "reconcile"
    view = await reconciled(runs, row.run_id)
    assert (view["status"], view["compensation"]) == ("failed", "complete")
    assert acted(stage) == [("ship", "a"), ("ship", "b"), ("unship", "b"), ("unship", "a")]


async def test_a_word_about_a_run_is_about_its_undo_where_that_is_all_that_is_unresolved(
    runs: Runs, stage: Stage
) -> None:
    stage.then("peek", refuse)
    stage.then("unship", lose)
    row, _ = await runs.end(step("a", "ship"), fails("a"), **UNDO)
    said: Any = await runs.app.runtime.reconcile(
        runs.app.local, run_id=row.run_id, resolution="happened", evidence="their list", person=CAROL
    )
    assert said.error is None, said.error
    await runs.idle()
    view = await view_of(runs, row.run_id)
    assert (view["unresolved"], fates(view)) == ([], [("a", None, "undone")])
