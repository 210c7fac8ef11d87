"""Forks: a new run goes on from a finished one. What was done is not done again, what was read too long ago is read
again, and whatever would happen twice is refused before anything runs.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from counterfoil import Outcome
from counterfoil.registry.request import RunRequest
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import CAROL
from tests.runtime.chains import Wire, begun, of, plan, somebody, states, step, until
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose

pytestmark = pytest.mark.anyio
TWO = (step("a"), step("b", args={"ref": "b ${a.ref}"}))
LAST = step("c", args={"ref": "c ${b.ref}"})


def broken(_: Any) -> Outcome[Any]:
    return Outcome.permanent("no")


async def fork(app: App, run_id: str, wait_s: float | None = None, **more: Any) -> Wire:
    """The answer of `run {fork_of}`, once nothing of it moves by itself."""
    principal = more.pop("principal", app.local)
    request = RunRequest(principal, fork_of=run_id, wait_s=wait_s, wait_given=wait_s is not None, **more)
    return (await app.runtime.run(request)).wire()


async def failed(app: App, *steps: Wire, **more: Any) -> Wire:
    """A run that has failed."""
    view = (await app.run(plan(*steps, **more))).wire()
    assert view["status"] == "failed", view
    return view


async def failing_at_c(app: App, stage: Stage, **more: Any) -> Wire:
    """`a` and `b` have succeeded, `c` has failed without effect."""
    stage.then("note", lambda _: None, lambda _: None, broken)
    return await failed(app, *TWO, LAST, **more)


def refused(view: Wire) -> list[Wire]:
    """What a refused fork is told to be in its way."""
    assert view["error"]["code"] == "plan_invalid", view
    assert view["errors"], view
    return list(view["errors"])


async def test_a_fork_goes_on_after_what_was_done_and_repeats_nothing_of_it(app: App, stage: Stage) -> None:
    first = await failing_at_c(app, stage)
    view = await fork(app, first["run_id"])
    assert view["status"] == "succeeded", view
    assert (view["parent_run_id"], view["plan_id"]) == (first["run_id"], first["plan_id"])
    assert [ref for _, ref in stage.effects] == ["a", "b a", "c b a"]
    assert stage.count("note") == 4
    assert view["outputs"] == {"a": {"ref": "a"}, "b": {"ref": "b a"}, "c": {"ref": "c b a"}}
    for name in "ab":
        assert of(view, name)["call_id"] == of(first, name)["call_id"]
        assert of(view, name)["reason"] == f"reused from {first['run_id']}"
        assert (of(view, name)["state"], of(view, name)["outcome"], of(view, name)["attempts"]) == (
            "succeeded", "success", 0,
        )  # fmt: skip
    assert view["budget"]["calls"] == 1
    assert of(view, "c")["call_id"] not in {None, of(first, "c")["call_id"]}


async def test_the_same_fork_is_one_run_and_another_step_makes_another(app: App, stage: Stage) -> None:
    first = await failing_at_c(app, stage)
    view = await fork(app, first["run_id"])
    again = await fork(app, first["run_id"])
    assert (again["run_id"], again["replayed"]) == (view["run_id"], True)
    other = await fork(app, first["run_id"], from_step="c")
    assert (other["run_id"] != view["run_id"], other["replayed"]) == (True, False)
    third = await fork(app, first["run_id"], from_step="c", request_key=first["run_id"])
    assert third["error"]["code"] == "key_conflict"
    changed = await fork(app, first["run_id"], input={"more": 1})
    assert changed["error"]["code"] == "key_conflict"


async def test_a_fork_of_somebody_elses_run_is_one_of_a_run_that_is_not_there(app: App, stage: Stage) -> None:
    first = await failing_at_c(app, stage)
    for who in (somebody(app, subject="bob"), somebody(app, tenant="other")):
        theirs = await fork(app, first["run_id"], principal=who)
        unknown = await fork(app, "run_nothing", principal=who)
        assert theirs["error"]["code"] == unknown["error"]["code"] == "not_found"
    assert stage.count("note") == 3


async def test_a_run_that_is_not_finished_is_not_forked(app: App, stage: Stage) -> None:
    started, go = stage.hold("note")
    view = await begun(app, plan(step("a")))
    await started.wait()
    told = refused(await fork(app, view["run_id"]))
    assert "only a finished run is forked" in told[0]["message"]
    go.set()
    await until(app, view["run_id"], "succeeded")
    assert (await fork(app, view["run_id"]))["status"] == "succeeded"
    assert stage.count("note") == 1


async def test_a_run_with_a_call_that_nobody_knows_of_is_not_forked(app: App, stage: Stage) -> None:
    stage.then("note", lose)
    view = await begun(app, plan(step("a")))
    await until(app, view["run_id"], "awaiting_reconciliation")
    told = refused(await fork(app, view["run_id"]))
    assert any("awaiting_reconciliation" in problem["message"] for problem in told)


async def test_a_run_that_waits_for_a_decision_is_not_forked(app: App, stage: Stage) -> None:
    view = await begun(app, plan(step("a", "refund")))
    await until(app, view["run_id"], "awaiting_approval")
    told = refused(await fork(app, view["run_id"]))
    assert any("is awaiting_approval" in problem["message"] for problem in told)
    assert stage.count("refund") == 0


async def test_a_failure_that_may_have_had_its_effect_stands_in_the_way(app: App, stage: Stage) -> None:
    stage.then("note", lambda _: Outcome.permanent("perhaps", sent="unknown"))
    first = await failed(app, step("a"))
    (problem,) = refused(await fork(app, first["run_id"]))
    assert (problem["step"], "not known" in problem["message"]) == ("a", True)
    assert stage.count("note") == 1


@pytest.mark.parametrize("name", ["a", "b"])
async def test_an_effect_at_or_behind_from_step_refuses_the_fork(app: App, stage: Stage, name: str) -> None:
    first = await failing_at_c(app, stage)
    told = refused(await fork(app, first["run_id"], from_step=name))
    assert [problem["step"] for problem in told] == ["a", "b"]["ab".index(name) :]
    assert all(problem["field"] == "from_step" and "twice" in problem["message"] for problem in told)
    assert stage.count("note") == 3


async def test_a_step_that_is_not_in_the_plan_is_told(app: App, stage: Stage) -> None:
    first = await failing_at_c(app, stage)
    (problem,) = refused(await fork(app, first["run_id"], from_step="z"))
    assert (problem["step"], problem["code"]) == ("z", "unknown_step")


async def test_a_part_that_was_done_counts_as_done(app: App, stage: Stage) -> None:
    stage.then("note", lambda _: Outcome.partial({"ref": "half"}, "half of it"))
    first = await failed(app, step("a"))
    (problem,) = refused(await fork(app, first["run_id"]))
    assert (problem["step"], "partial" in problem["message"]) == ("a", True)


async def test_reads_at_and_behind_from_step_are_made_again_and_others_are_not(app: App, stage: Stage) -> None:
    steps = (step("x", "look"), step("y", "look", args={"ref": "y ${x.ref}"}), step("z", "look"), step("n"))
    stage.then("note", broken)
    first = await failed(app, *steps)
    view = await fork(app, first["run_id"], from_step="x")
    assert view["status"] == "succeeded", view
    assert sorted(ref for _, ref in stage.effects) == ["n", "x", "x", "y x", "y x", "z"]
    assert of(view, "z")["call_id"] == of(first, "z")["call_id"]


async def test_a_read_that_is_too_old_is_made_again_and_what_asks_the_same_of_it_is_not(
    app: App, stage: Stage, clock: HandClock
) -> None:
    steps = (step("x", "look"), step("y", "look", args={"ref": "y ${x.ref}"}), step("w", args={"ref": "w ${y.ref}"}))
    stage.then("note", lambda _: None, broken)
    first = await failed(app, *steps, LAST | {"args": {"ref": "c ${w.ref}"}})
    clock.pass_(299)
    assert (await fork(app, first["run_id"], request_key="fresh"))["status"] == "succeeded"
    assert stage.count("look") == 2
    clock.pass_(2)
    view = await fork(app, first["run_id"], request_key="stale")
    assert view["status"] == "succeeded", view
    assert stage.count("look") == 4
    assert of(view, "w")["call_id"] == of(first, "w")["call_id"]
    assert [ref for name, ref in stage.effects if name == "note"] == ["w y x", "c w y x", "c w y x"]


async def test_a_fresh_read_that_would_ask_for_something_else_now_is_made_again(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_()
    steps = (step("x", "give"), step("y", "look", args={"ref": "y ${x.id}"}, depends_on=["x"]), step("c"))
    stage.then("give", lambda _: {"id": "1"}, lambda _: {"id": "2"})
    stage.then("look", lambda _: clock.pass_(250))
    stage.then("note", broken)
    first = await failed(app, *steps[:2], steps[2] | {"depends_on": ["y"]})
    clock.pass_(100)
    view = await fork(app, first["run_id"])
    assert view["status"] == "succeeded", view
    assert [ref for name, ref, *_ in stage.calls if name == "look"] == ["y 1", "y 2"]


async def test_an_effect_whose_arguments_differ_after_a_new_read_is_neither_had_again_nor_taken_over(
    app: App, stage: Stage, clock: HandClock
) -> None:
    stage.then("give", lambda _: {"id": "1"}, lambda _: {"id": "2"})
    stage.then("note", lambda _: None, broken)
    first = await failed(
        app, step("x", "give"), step("w", args={"ref": "w ${x.id}"}), LAST | {"args": {"ref": "${w.ref}"}}
    )
    clock.pass_(400)
    view = await fork(app, first["run_id"])
    assert (view["status"], states(view)) == ("failed", {"x": "succeeded", "w": "failed", "c": "not_run"})
    assert of(view, "w")["error"]["code"] == "plan_invalid"
    assert of(first, "w")["call_id"] in of(view, "w")["error"]["message"]
    assert [ref for name, ref, *_ in stage.calls if name == "note"] == ["w 1", "w 1"]
    clock.pass_(400)
    stage.then("give", lambda _: {"id": "1"})
    second = await fork(app, view["run_id"])
    assert (second["status"], of(second, "w")["call_id"]) == ("succeeded", of(first, "w")["call_id"])
    assert [ref for name, ref, *_ in stage.calls if name == "note"] == ["w 1", "w 1", "w 1"]


async def test_another_input_that_changes_what_was_done_refuses_the_fork(app: App, stage: Stage) -> None:
    stage.then("note", lambda _: None, broken)
    steps = (step("a", args={"ref": "${input.who}"}), step("b", args={"ref": "${input.text}"}, depends_on=["a"]))
    first = await failed(app, *steps, input={"who": "x", "text": "bad"})
    (problem,) = refused(await fork(app, first["run_id"], input={"who": "y"}))
    assert (problem["step"], problem["field"]) == ("a", "args")
    view = await fork(app, first["run_id"], input={"text": "good"})
    assert (view["status"], stage.effects) == ("succeeded", [("note", "x"), ("note", "good")])


async def test_an_effect_that_named_its_own_run_is_another_one_in_a_fork(app: App, stage: Stage) -> None:
    stage.then("note", lambda _: None, broken)
    first = await failed(app, step("a", args={"ref": "${run.id}"}), step("b", depends_on=["a"]))
    (problem,) = refused(await fork(app, first["run_id"]))
    assert (problem["step"], problem["field"]) == ("a", "args")


async def test_items_that_were_done_are_kept_and_the_others_run(app: App, stage: Stage) -> None:
    each = step("each", args={"ref": "${item}"}, for_each="${input.who}")
    stage.then("note", lambda _: None, broken, lambda _: None)
    first = await failed(app, each, input={"who": ["x", "y", "z"]}, max_parallel=1)
    view = await fork(app, first["run_id"])
    assert view["status"] == "succeeded", view
    assert sorted(ref for _, ref in stage.effects) == ["x", "y", "z"]
    assert [one["state"] for one in of(view, "each")["items"]] == ["succeeded"] * 3
    kept = {one["call_id"] for one in of(view, "each")["items"]} & {
        one["call_id"] for one in of(first, "each")["items"]
    }
    assert len(kept) == 2
    assert of(view, "each")["reason"] == f"2 of its items reused from {first['run_id']}"
    assert [one["ref"] for one in view["outputs"]["each"]] == ["x", "y", "z"]


@pytest.mark.parametrize("who", [["x", "y", "z", "more"], ["x", "other", "z"], ["x", "y"], []])
async def test_another_list_refuses_a_fork_of_items_that_had_effects(app: App, stage: Stage, who: list[str]) -> None:
    each = step("each", args={"ref": "${item}"}, for_each="${input.who}")
    stage.then("note", lambda _: None, broken, lambda _: None)
    first = await failed(app, each, input={"who": ["x", "y", "z"]}, max_parallel=1)
    (problem,) = refused(await fork(app, first["run_id"], input={"who": who}))
    assert (problem["step"], problem["field"]) == ("each", "for_each")
    assert stage.count("note") == 3


async def test_another_list_of_reads_is_read_anew(app: App, stage: Stage) -> None:
    each = step("each", "look", args={"ref": "${item}"}, for_each="${input.who}")
    stage.then("note", broken)
    first = await failed(app, each, step("n"), input={"who": ["x", "y"]})
    view = await fork(app, first["run_id"], input={"who": ["x", "z"]})
    assert (view["status"], stage.count("look")) == ("succeeded", 4)


@pytest.mark.parametrize(("now", "status"), [(["x", "y"], "succeeded"), (["x", "z"], "failed"), (["x"], "failed")])
async def test_a_list_that_is_read_anew_is_compared_before_any_item(
    app: App, stage: Stage, clock: HandClock, now: list[str], status: str
) -> None:
    stage.then("give", lambda _: {"who": ["x", "y"]}, lambda _: {"who": now})
    stage.then("note", lambda _: None, broken)
    each = step("each", args={"ref": "${item}"}, for_each="${g.who}")
    first = await failed(app, step("g", "give"), each, max_parallel=1)
    clock.pass_(400)
    view = await fork(app, first["run_id"])
    assert view["status"] == status, view
    assert [ref for name, ref in stage.effects if name == "note"] == ["x", *(["y"] if status == "succeeded" else [])]


async def test_what_was_skipped_or_not_run_is_asked_again(app: App, stage: Stage) -> None:
    steps = (
        step("s", when="${input.do}"),
        step("a", depends_on=["s"], needs="settled"),
        step("n", depends_on=["a"]),
    )
    stage.then("note", broken)
    first = await failed(app, *steps, input={"do": False})
    assert states(first) == {"s": "skipped", "a": "failed", "n": "not_run"}
    view = await fork(app, first["run_id"], input={"do": True})
    assert (view["status"], [ref for _, ref in stage.effects]) == ("succeeded", ["s", "a", "n"])


async def test_a_fork_of_a_fork_names_the_call_that_did_it_and_keeps_what_it_never_came_to(
    app: App, stage: Stage, clock: HandClock
) -> None:
    steps = (step("x", "look"), step("w", args={"ref": "w ${x.ref}"}), LAST | {"args": {"ref": "${w.ref}"}})
    stage.then("note", lambda _: None, broken)
    first = await failed(app, *steps)
    clock.pass_(400)
    stage.then("look", lambda _: Outcome.permanent("gone"))
    second = await fork(app, first["run_id"])
    assert states(second) == {"x": "failed", "w": "not_run", "c": "not_run"}
    third = await fork(app, second["run_id"])
    assert third["status"] == "succeeded", third
    assert of(third, "w")["call_id"] == of(first, "w")["call_id"]
    assert of(third, "w")["reason"] == f"reused from {first['run_id']}"
    assert [ref for name, ref in stage.effects if name == "note"] == ["w x", "w x"]


async def test_a_rejected_step_is_asked_for_again_in_a_fork(app: App, stage: Stage) -> None:
    view = await begun(app, plan(step("a"), step("r", "refund", depends_on=["a"])))
    waiting = await until(app, view["run_id"], "awaiting_approval")
    (asked,) = waiting["pending"]
    await app.runtime.decide(asked["approval_id"], "reject", digest=asked["digest"], note=None, decider=CAROL)
    await until(app, view["run_id"], "failed")
    again = await fork(app, view["run_id"], wait_s=0)
    waiting = await until(app, again["run_id"], "awaiting_approval")
    (asked,) = waiting["pending"]
    await app.runtime.decide(asked["approval_id"], "approve", digest=asked["digest"], note=None, decider=CAROL)
    await until(app, again["run_id"], "succeeded")
    assert stage.effects == [("note", "a"), ("refund", "r")]


async def test_tools_that_have_changed_refuse_a_fork(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    first = await failing_at_c(app, stage)
    app.catalogue.remove("note")
    view = await fork(app, first["run_id"])
    assert view["error"]["code"] == "plan_stale"


async def test_a_call_that_a_fork_took_over_and_that_is_in_doubt_since_keeps_it_from_being_forked(
    app: App, stage: Stage
) -> None:
    first = await failing_at_c(app, stage)
    stage.then("note", broken)
    second = await fork(app, first["run_id"])
    assert second["status"] == "failed"
    call_id = of(second, "b")["call_id"]
    with closing(sqlite3.connect(app.ledger.path)) as hand:  # as its failure at another attempt, after late evidence
        hand.execute(
            "UPDATE calls SET outcome = 'permanent_failure', code = 'tool_failed', details = ? WHERE call_id = ?",
            ('{"effect": "unknown"}', call_id),
        )
        hand.commit()
    told = refused(await fork(app, second["run_id"]))
    assert any(call_id in problem["message"] and "not known" in problem["message"] for problem in told), told
