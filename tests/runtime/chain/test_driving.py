"""A run from its claim to its end: what runs in which order, what flows, what fails and what follows from it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from counterfoil import Outcome
from tests.runtime.chain.running import LIMIT_S, Runs, step
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio


async def test_a_chain_runs_in_the_order_of_its_dependencies_whatever_order_it_is_told_in(
    runs: Runs, stage: Stage
) -> None:
    row, states = await runs.end(step("c", depends_on=["b"]), step("b", depends_on=["a"]), step("a"), on_failure="stop")
    assert (row.status, row.reason) == ("succeeded", None)
    assert states == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}
    assert stage.effects == [("book", "a"), ("book", "b"), ("book", "c")]
    assert [said for _, _, said in runs.told] == ["a: succeeded", "b: succeeded", "c: succeeded"]
    assert [done for done, total, _ in runs.told if total == 3] == [1, 2, 3]


async def test_a_run_and_its_calls_are_one_chain_with_one_event_for_each_change(runs: Runs) -> None:
    run_id = await runs.start(step("a"), step("b", depends_on=["a"]))
    await runs.rest(run_id)
    kinds = await runs.kinds(run_id)
    assert kinds == {"run_created": 1, "run_claimed": 1, "dispatched": 2, "settled": 2, "run_finished": 1}


async def test_independent_steps_run_side_by_side(runs: Runs, stage: Stage) -> None:
    first, go_first = stage.hold("book")
    second, go_second = stage.hold("book")
    run_id = await runs.start(step("a"), step("b"))
    async with asyncio.timeout(LIMIT_S):
        await first.wait()
        await second.wait()
    go_first.set()
    go_second.set()
    assert (await runs.rest(run_id)).status == "succeeded"


async def test_max_parallel_counts_what_was_sent_and_nothing_that_waits(runs: Runs, stage: Stage) -> None:
    begun, go = stage.hold("note")
    run_id = await runs.start(
        step("ask", "refund"), step("n1", "note"), step("n2", "note"), step("n3", "note"), max_parallel=1
    )
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    assert stage.count("note") == 1
    go.set()
    row = await runs.rest(run_id)
    assert (row.status, stage.effects) == ("awaiting_approval", [("note", "n1"), ("note", "n2"), ("note", "n3")])


async def test_steps_on_one_exclusive_resource_never_overlap_and_go_in_declared_order(runs: Runs, stage: Stage) -> None:
    on: dict[str, Any] = {"args": {"ref": "same"}}
    begun, go = stage.hold("book")
    run_id = await runs.start(step("z", **on), step("m", **on), step("a", "keyed", **on))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    assert len(stage.calls) == 1
    go.set()
    assert (await runs.rest(run_id)).status == "succeeded"
    assert [name for name, _ in stage.effects] == ["book", "book", "keyed"]
    calls = await runs.calls(run_id)
    assert calls["z", -1].seq < calls["m", -1].seq < calls["a", -1].seq


async def test_outputs_flow_into_later_steps_with_their_types(runs: Runs, stage: Stage) -> None:
    stage.then("look", lambda _: {"ref": "found", "n": "7"})
    row, _ = await runs.end(
        step("find", "look"),
        step("use", "note", args={"ref": "${find.ref}", "text": "is ${find.ref} of ${run.id} for ${input.who}"}),
        input={"who": "me"},
    )
    assert row.status == "succeeded"
    assert stage.effects == [("note", "found")]
    call = await runs.call(row.run_id, "use")
    assert json.loads(call.args_shown) == {"ref": "found", "text": f"is found of {row.run_id} for me"}


async def test_a_path_that_is_missing_fails_the_step_before_it_is_sent(runs: Runs, stage: Stage) -> None:
    stage.then("peek", lambda _: Outcome.no_result())
    row, states = await runs.end(step("find", "peek"), step("use", "note", args={"ref": "${find.ref}"}))
    assert (row.status, row.code) == ("failed", "invalid_arguments")
    assert states == {"find": "succeeded", "use": "failed"}
    note = (await runs.notes(row.run_id))["use", -1]
    assert (note.code, note.outcome) == ("invalid_arguments", "invalid_request")
    assert stage.count("note") == 0


async def test_whoever_depends_on_a_failed_step_is_not_run_and_names_it_however_far_away(
    runs: Runs, stage: Stage
) -> None:
    stage.then("book", lambda _: Outcome.permanent("no"))
    row, states = await runs.end(
        step("b"),
        step("d", "note", depends_on=["b"]),
        step("e", "note", depends_on=["d"]),
        step("c", "note"),
    )
    assert (row.status, row.reason, row.code) == ("failed", "b: failed", "tool_failed")
    assert states == {"b": "failed", "d": "not_run", "e": "not_run", "c": "succeeded"}
    notes = await runs.notes(row.run_id)
    assert {name: notes[name, -1].reason for name in ("d", "e")} == {"d": "b", "e": "b"}


async def test_needs_settled_runs_after_any_other_end(runs: Runs, stage: Stage) -> None:
    stage.then("book", lambda _: Outcome.permanent("no"))
    row, states = await runs.end(
        step("a"), step("b", "note", depends_on=["a"]), step("tell", "note", depends_on=["a", "b"], needs="settled")
    )
    assert (row.status, states) == ("failed", {"a": "failed", "b": "not_run", "tell": "succeeded"})


async def test_continue_lets_the_run_succeed_with_a_reason(runs: Runs, stage: Stage) -> None:
    stage.then("book", lambda _: Outcome.permanent("no"))
    row, states = await runs.end(
        step("a", on_failure="continue"), step("b", "note", depends_on=["a"]), step("c", "note")
    )
    assert (row.status, row.reason, row.code) == ("succeeded", "continued after a", None)
    assert states == {"a": "failed", "b": "not_run", "c": "succeeded"}


async def test_a_partial_outcome_fails_its_step_and_its_effect_counts(runs: Runs, stage: Stage) -> None:
    stage.then("book", lambda _: Outcome.partial({"ref": "half"}, "one of two"))
    row, states = await runs.end(step("a"), step("b", "note", depends_on=["a"]), on_failure="compensate")
    assert (row.status, states) == ("failed", {"a": "failed", "b": "not_run"})
    assert row.compensation == "incomplete"


async def test_when_is_asked_once_and_a_step_that_it_skips_fails_nothing(runs: Runs, stage: Stage) -> None:
    stage.then("look", lambda _: {"ref": "x"})
    row, states = await runs.end(
        step("find", "look"),
        step("no", "note", when={"ref": "${find.ref}", "eq": "y"}),
        step("after", "note", depends_on=["no"]),
        step("yes", "note", when={"ref": "${find.ref}", "eq": "x"}),
    )
    assert row.status == "succeeded"
    assert states == {"find": "succeeded", "no": "skipped", "after": "not_run", "yes": "succeeded"}
    assert stage.effects == [("note", "yes")]


async def test_for_each_calls_once_for_each_item_and_gives_their_outputs_in_order(runs: Runs, stage: Stage) -> None:
    row, states = await runs.end(
        step("each", for_each="${input.refs}", args={"ref": "${item}"}),
        step("last", "note", args={"ref": "${each[2].ref}"}),
        input={"refs": ["x", "y", "z"]},
    )
    assert (row.status, states) == ("succeeded", {"each": "succeeded", "last": "succeeded"})
    assert sorted(stage.effects) == [("book", "x"), ("book", "y"), ("book", "z"), ("note", "z")]
    assert {place: call.item for place, call in (await runs.calls(row.run_id)).items()}["each", 1] == 1
    note = (await runs.notes(row.run_id))["each", -1]
    assert (note.items, note.state) == (3, "running")


async def test_an_empty_for_each_succeeds_with_an_empty_list(runs: Runs, stage: Stage) -> None:
    row, states = await runs.end(
        step("none", for_each="${input.refs}", args={"ref": "${item}"}),
        step("over", "note", for_each="${none}", args={"ref": "${item.ref}"}),
        input={"refs": []},
    )
    assert (row.status, states) == ("succeeded", {"none": "succeeded", "over": "succeeded"})
    assert stage.calls == []


async def test_a_for_each_fails_if_an_item_does_after_all_have_ended(runs: Runs, stage: Stage) -> None:
    stage.then("book", lambda _: Outcome.permanent("no"))
    row, states = await runs.end(
        step("each", for_each="${input.refs}", args={"ref": "${item}"}),
        step("after", "note", depends_on=["each"]),
        input={"refs": ["x", "y"]},
    )
    assert (row.status, row.code, states) == ("failed", "tool_failed", {"each": "failed", "after": "not_run"})
    assert stage.count("book") == 2


@pytest.mark.parametrize(("given", "said"), [({"a": 1}, "expected a list"), ([*range(201)], "at most 200")])
async def test_a_for_each_over_no_list_or_too_long_a_one_sends_nothing(
    runs: Runs, stage: Stage, given: object, said: str
) -> None:
    stage.then("give", lambda _: given)
    row, states = await runs.end(step("find", "give"), step("each", for_each="${find}", args={"ref": "x"}))
    assert (row.status, states["each"], stage.count("book")) == ("failed", "failed", 0)
    assert said in ((await runs.notes(row.run_id))["each", -1].message or "")


async def test_an_ambiguous_step_parks_the_run_once_nothing_else_moves(runs: Runs, stage: Stage) -> None:
    stage.then("book", lose)
    row, states = await runs.end(step("a"), step("b", "note", depends_on=["a"]), step("c", "note"))
    assert (row.status, row.owner_id, row.finished_at) == ("awaiting_reconciliation", None, None)
    assert states == {"a": "awaiting_reconciliation", "b": "waiting", "c": "succeeded"}
    await runs.say(row.run_id, "a", "happened")
    row = await runs.rest(row.run_id)
    assert (row.status, stage.count("book")) == ("succeeded", 1)
