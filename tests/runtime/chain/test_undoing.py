"""A failed run is undone in reverse order of completion, by governed calls; what is not undone is never said to be."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil import Outcome, Probe
from counterfoil.ledger.undoing import undo_calls
from counterfoil.registry.request import RunRequest
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import CAROL, Runs, step
from tests.runtime.chain.undone import UNDO, acted, doubtful, fails, fails_later, fates, refuse, view_of
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio


async def test_what_was_done_is_undone_last_first_and_only_then_the_run_has_its_end(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(
        step("a", "ship"), step("b", "ship", depends_on=["a"]), fails("b"), step("late", depends_on=["bad"]), **UNDO
    )
    assert (row.status, row.reason, row.compensation) == ("failed", "bad: failed", "complete")
    assert acted(stage) == [("ship", "a"), ("ship", "b"), ("unship", "b"), ("unship", "a")]
    view = await view_of(runs, row.run_id)
    assert fates(view) == [("b", None, "undone"), ("a", None, "undone")]
    assert all(one["tool"] == "ship__undo" and one["attempts"] == 1 for one in view["compensations"])
    kinds = [event.type for event in await runs.events(row.run_id)]
    assert kinds.index("compensation_started") < len(kinds) - 1
    assert kinds[-1] == "run_finished"


async def test_an_undo_is_a_call_of_its_own_about_the_first_with_its_own_action(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "ship"), fails("a"), **UNDO)
    first = await runs.call(row.run_id, "a")
    [undo] = await runs.app.ledger.record(lambda: undo_calls(row.run_id))
    assert (undo.parent_call_id, undo.route, undo.step, undo.run_id) == (
        first.call_id, "compensation", "a", row.run_id,
    )  # fmt: skip
    assert undo.action_id != first.action_id
    assert [called[2] for called in stage.calls if called[0] == "unship"] == [undo.action_id]
    shown: Any = (await runs.app.runtime.status(runs.app.local, call_id=undo.call_id)).wire()
    assert (shown["state"], shown["outcome"]) == ("settled", "success")


async def test_nothing_to_undo_is_no_compensation(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(fails(), step("late", "ship", depends_on=["bad"]), **UNDO)
    assert (row.status, row.compensation, acted(stage)) == ("failed", "none", [])


async def test_without_compensate_nothing_is_undone(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "ship"), fails("a"))
    assert (row.status, row.compensation, acted(stage)) == ("failed", "none", [("ship", "a")])


async def test_what_the_plan_keeps_is_listed_and_is_no_lack(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(
        step("a", "ship"), step("b", "note", depends_on=["a"], compensate="none"), fails("b"), **UNDO
    )
    assert (row.status, row.compensation) == ("failed", "complete")
    assert fates(await view_of(runs, row.run_id)) == [("b", None, "kept"), ("a", None, "undone")]


async def test_an_effect_without_a_compensation_stands_and_is_never_called_undone(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "ship"), step("b", "note", depends_on=["a"]), fails("b"), **UNDO)
    assert (row.status, row.compensation) == ("failed", "incomplete")
    view = await view_of(runs, row.run_id)
    assert fates(view) == [("b", None, "not_undone"), ("a", None, "undone")]
    assert "no compensation" in view["compensations"][0]["reason"]
    assert view["next"]["tool"] == "reconcile"


async def test_a_steps_own_compensation_takes_values_from_the_step_and_its_ancestors(runs: Runs, stage: Stage) -> None:
    stage.then("peek", lambda _: {"ref": "first"}, refuse)
    row, _ = await runs.end(
        step("look", "peek"),
        step(
            "a", "note", args={"ref": "x", "text": "${look.ref}"},
            compensate={"tool": "note", "args": {"ref": "undo ${a.ref}", "text": "${look.ref} ${input.y}"}},
        ),
        fails("a"), input={"y": "z"}, **UNDO,
    )  # fmt: skip
    assert (row.compensation, acted(stage)) == ("complete", [("note", "x"), ("note", "undo x")])
    [undo] = await runs.app.ledger.record(lambda: undo_calls(row.run_id))
    assert undo.args_shown == '{"ref": "undo x", "text": "first z"}'


async def test_each_item_is_undone_with_its_own_value_last_first(runs: Runs, stage: Stage) -> None:
    stage.then("give", lambda _: ["x", "y", "z"])
    stage.then("peek", refuse)
    row, _ = await runs.end(
        step("list", "give"),
        step(
            "each", "note", for_each="${list}", args={"ref": "${item}"},
            compensate={"tool": "book", "args": {"ref": "undo ${item}"}},
        ),
        fails("each"), max_parallel=1, **UNDO,
    )  # fmt: skip
    assert row.compensation == "complete"
    assert acted(stage) == [
        ("note", "x"), ("note", "y"), ("note", "z"), ("book", "undo z"), ("book", "undo y"), ("book", "undo x"),
    ]  # fmt: skip
    assert fates(await view_of(runs, row.run_id)) == [("each", n, "undone") for n in (2, 1, 0)]


async def test_a_partial_effect_counts_as_completed(runs: Runs, stage: Stage) -> None:
    stage.then("ship", lambda _: Outcome.partial({"ref": "half"}, "one of two"))
    row, states = await runs.end(step("a", "ship"), **UNDO)
    assert (states["a"], row.status, row.compensation) == ("failed", "failed", "complete")
    assert acted(stage) == [("unship", "a")]


async def test_a_failure_whose_effect_is_not_known_is_settled_before_anything_is_undone(
    runs: Runs, stage: Stage
) -> None:
    stage.then("asked", doubtful)
    stage.then("asked_happened", lambda _: Probe.happened({"ref": "b"}))
    row, _ = await runs.end(step("a", "ship"), step("b", "asked", depends_on=["a"]), **UNDO)
    assert (row.status, row.reason, row.compensation) == ("failed", "b: failed", "complete")
    assert acted(stage) == [("ship", "a"), ("unasked", "b"), ("unship", "a")]


async def test_what_did_not_happen_is_not_undone(runs: Runs, stage: Stage) -> None:
    stage.then("book", doubtful)
    row, _ = await runs.end(step("a", "ship"), step("b", "book", depends_on=["a"]), **UNDO)
    assert (row.status, row.compensation, acted(stage)) == (
        "awaiting_reconciliation", "running", [("ship", "a")],
    )  # fmt: skip
    view = await view_of(runs, row.run_id)
    assert [one["step"] for one in view["unresolved"]] == ["b"]
    await runs.say(row.run_id, "b", "not_happened")
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "complete")
    assert acted(stage) == [("ship", "a"), ("unship", "a")]
    assert fates(await view_of(runs, row.run_id)) == [("a", None, "undone")]


async def test_an_unknown_outcome_beside_a_failure_keeps_everything_until_it_is_known(runs: Runs, stage: Stage) -> None:
    stage.then("book", lose)
    stage.then("peek", refuse)
    row, states = await runs.end(
        step("a", "ship"), step("b", "book", depends_on=["a"]), fails("a"), step("c", "peek", depends_on=["b"]), **UNDO
    )
    assert (row.status, row.compensation, acted(stage)) == ("awaiting_reconciliation", "running", [("ship", "a")])
    assert states["c"] == "not_run"
    await runs.say(row.run_id, "b", "happened")
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "incomplete")  # a booking has no compensation
    assert acted(stage) == [("ship", "a"), ("unship", "a")]


async def test_an_unknown_outcome_under_a_key_is_sent_again_so_that_it_can_be_undone(runs: Runs, stage: Stage) -> None:
    stage.then("keyed", lose)
    stage.then("peek", refuse)
    row, _ = await runs.end(
        step("a", "keyed", compensate={"tool": "note", "args": {"ref": "undo"}}), fails("a", tool="peek") | {
            "depends_on": []
        }, **UNDO,
    )  # fmt: skip
    assert (row.status, row.compensation) == ("failed", "complete")
    assert acted(stage) == [("keyed", "a"), ("note", "undo")]
    actions = [called[2] for called in stage.calls if called[0] == "keyed"]
    assert len(actions) == 2
    assert len(set(actions)) == 1


async def test_a_cancel_while_it_is_undone_stops_the_undoing_and_says_what_stands(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "ship"), step("b", "pay", depends_on=["a"]), fails("b"), **UNDO)
    assert row.status == "awaiting_approval"
    await runs.cancel(row.run_id)
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation) == ("failed", "incomplete")
    view = await view_of(runs, row.run_id)
    assert fates(view) == [("b", None, "not_undone"), ("a", None, "not_undone")]
    assert view["pending"] == []
    assert (view["next"]["tool"], "cancelled" in view["next"]["text"]) == ("status", True)  # reconcile would do nothing
    assert acted(stage) == [("ship", "a"), ("pay", "b")]


async def test_a_cancelled_run_is_never_compensated(runs: Runs, stage: Stage) -> None:
    begun, go = stage.hold("note")
    run_id = await runs.start(step("a", "ship"), step("b", "note", depends_on=["a"]), **UNDO)
    await begun.wait()
    await runs.cancel(run_id)
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.compensation) == ("cancelled", "none")
    assert ("unship", "a") not in stage.effects


async def test_a_deadline_that_passed_is_a_failure_and_does_not_keep_undos_back(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    begun, go = stage.hold("note")
    run_id = await runs.start(step("a", "ship"), step("b", depends_on=["a"], tool="note"),
                              step("c", "ship", depends_on=["b"]), deadline_s=60, **UNDO)  # fmt: skip
    await begun.wait()
    clock.pass_(61)
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.reason, row.compensation) == ("failed", "deadline_exceeded", "incomplete")
    assert acted(stage) == [("ship", "a"), ("note", "b"), ("unship", "a")]


async def test_undos_take_nothing_from_the_runs_budget(runs: Runs, stage: Stage) -> None:
    stage.then("give", lambda _: ["x"])
    row, _ = await runs.end(
        step("a", "ship"),
        step("b", "ship", depends_on=["a"]),
        step("c", "give", depends_on=["b"]),
        step("d", "ship", for_each="${c}", args={"ref": "${item}"}),
        budget={"writes": 2},
        **UNDO,
    )
    assert (row.status, row.compensation) == ("budget_exhausted", "complete")
    assert acted(stage)[-2:] == [("unship", "b"), ("unship", "a")]


async def test_a_hold_keeps_undos_back_until_it_is_released(runs: Runs, stage: Stage) -> None:
    go, act = fails_later()
    stage.then("peek", act)
    holding = runs.app.runtime.holding
    run_id = await runs.start(step("a", "ship"), fails("a"), **UNDO)
    await runs.until_state(run_id, "a", "settled")
    await holding.hold("tool", "ship__undo", by="os:carol", reason="look first")
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.reason, row.compensation) == ("queued", "held", "running")
    await runs.woken(run_id)
    await holding.release("tool", "ship__undo", by="os:carol")
    row = await runs.rest(run_id)
    assert (row.status, row.compensation) == ("failed", "complete")


async def test_a_lapsed_grant_parks_the_undoing_until_its_subject_takes_it_up(
    runs: Runs, stage: Stage, clock: HandClock
) -> None:
    go, act = fails_later()
    stage.then("peek", act)
    run_id = await runs.start(step("a", "ship"), fails("a"), **UNDO)
    await runs.until_state(run_id, "a", "settled")
    clock.pass_(3_700)
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, row.reason) == ("queued", "authority_expired")
    await runs.take_up(run_id)
    row = await runs.rest(run_id)
    assert (row.status, row.compensation) == ("failed", "complete")


async def test_what_is_sent_again_and_then_fails_without_saying_what_it_did_is_in_doubt_too(
    runs: Runs, stage: Stage
) -> None:
    stage.then("keyed", lose, doubtful)
    stage.then("peek", refuse)
    undo = {"compensate": {"tool": "note", "args": {"ref": "undo"}}}
    row, _ = await runs.end(step("a", "keyed", **undo), step("bad", "peek"), **UNDO)
    assert (row.status, row.compensation) == ("awaiting_reconciliation", "running")
    assert [one["step"] for one in (await view_of(runs, row.run_id))["unresolved"]] == ["a"]
    await runs.say(row.run_id, "a", "happened")
    row = await runs.rest(row.run_id)
    assert (row.status, row.compensation, acted(stage)) == ("failed", "complete", [("note", "undo")])


async def test_an_effect_from_which_a_fork_has_gone_on_is_not_undone_under_it(runs: Runs, stage: Stage) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(step("a", "pay"), fails("a"), **UNDO)
    [pending] = (await view_of(runs, row.run_id))["pending"]
    await runs.woken(row.run_id)
    await runs.app.runtime.decide(pending["approval_id"], "reject", decider=CAROL)
    await runs.rest(row.run_id)
    fork: Any = (await runs.app.runtime.run(RunRequest(runs.app.local, fork_of=row.run_id))).wire()
    assert (fork["status"], acted(stage)) == ("succeeded", [("pay", "a")])
    await runs.app.runtime.reconcile(runs.app.local, run_id=row.run_id, wait_s=5)
    await runs.idle()
    view = await view_of(runs, row.run_id)
    assert (view["status"], view["compensation"], view["pending"]) == ("failed", "incomplete", [])
    assert acted(stage) == [("pay", "a")]
