"""What a run's view says: each step's state and why, outputs within bounds, what waits and how, and what to do."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from counterfoil import Outcome
from counterfoil.ledger.errors import DamagedChainError
from counterfoil.ledger.run_reading import Snapshot
from counterfoil.ledger.run_rows import RunRow, StepRow
from counterfoil.runtime.chain.shown import show_steps
from counterfoil.runtime.chain.views import next_of_run
from counterfoil.runtime.plan.model import Needs, Plan, Step
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.chains import begun, of, plan, planned, ran, seen, states, step, until
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import CAROL

pytestmark = pytest.mark.anyio
MEMBERS = [
    "run_id", "plan_id", "goal", "status", "reason", "steps", "outputs", "pending", "unresolved", "compensation",
    "compensations", "budget", "version", "seq", "started_at", "updated_at", "finished_at", "deadline",
    "cancel_requested_at", "parent_run_id", "trace_id", "next",
]  # fmt: skip


async def test_a_view_has_every_member_in_its_order_and_run_adds_two(app: App) -> None:
    view = await ran(app, step("a"), step("b", for_each=["x"], args={"ref": "${item}"}))
    assert list(view) == [*MEMBERS, "replayed", "error"]
    assert list(of(view, "a")) == ["id", "tool", "state", "outcome", "call_id", "attempts", "reason", "error"]
    assert list(of(view, "b")) == ["id", "tool", "state", "outcome", "items", "attempts", "reason", "error"]
    assert list(of(view, "b")["items"][0]) == ["n", "state", "outcome", "call_id"]
    shown: Any = (await app.runtime.status(app.local, run_id=view["run_id"])).wire()
    assert list(shown) == [*MEMBERS, "events", "more"]


async def test_steps_stand_in_declared_order_and_say_why(app: App, stage: Stage) -> None:
    stage.then("peek", lambda _: 1 / 0)
    view = await ran(
        app,
        step("last", depends_on=["left_out"]),
        step("left_out", depends_on=["bad"]),
        step("bad", "peek"),
        step("fine"),
        step("after", needs="settled", depends_on=["bad"]),
        step("not_wanted", when={"ref": "${fine.ref}", "eq": "no"}),
    )
    assert list(states(view)) == ["last", "left_out", "bad", "fine", "after", "not_wanted"]
    assert states(view) == {
        "last": "not_run", "left_out": "not_run", "bad": "failed", "fine": "succeeded", "after": "succeeded",
        "not_wanted": "skipped",
    }  # fmt: skip
    assert "bad" in of(view, "last")["reason"]
    assert "bad" in of(view, "left_out")["reason"]
    assert of(view, "not_wanted")["reason"] == "when"
    assert of(view, "left_out")["error"] is None
    assert of(view, "bad")["error"]["code"] == "tool_failed"
    assert (of(view, "bad")["attempts"], of(view, "last")["attempts"]) == (1, 0)
    assert (view["status"], view["next"]["tool"]) == ("failed", "status")


async def test_steps_that_have_not_begun_are_waiting_or_ready(app: App, stage: Stage) -> None:
    started, go = stage.hold("note")
    name = await planned(
        app, step("a"), step("b", depends_on=["a"]), step("c", "peek"), step("d", depends_on=["c"]), max_parallel=1
    )
    view = await begun(app, name)
    view = await seen(app, view["run_id"], lambda found: states(found)["a"] == "running")
    assert states(view)["b"] == "waiting"
    assert states(view)["d"] in {"waiting", "ready"}
    assert view["status"] == "running"
    assert "b" not in view["outputs"]
    go.set()
    assert started.is_set()
    await until(app, view["run_id"], "succeeded")


async def test_items_are_shown_by_number_with_the_first_error(app: App, stage: Stage) -> None:
    stage.then("note", lambda _: None, lambda _: Outcome.permanent("no such order"))
    view = await ran(
        app,
        step("each", for_each=["x", "y", "z"], args={"ref": "${item}"}, save_as="all"),
        step("empty", for_each="${input.none}", args={"ref": "${item}"}),
        step("after", depends_on=["each"]),
        input={"none": []},
    )
    each = of(view, "each")
    assert [(one["n"], one["state"]) for one in each["items"]] == [(0, "succeeded"), (1, "failed"), (2, "succeeded")]
    assert (each["state"], each["attempts"]) == ("failed", 3)
    assert each["error"]["details"]["item"] == 1
    assert "1 of 3" in each["reason"]
    assert (of(view, "empty")["state"], of(view, "empty")["items"]) == ("succeeded", [])
    assert view["outputs"] == {"empty": []}


async def test_outputs_have_both_names_and_nothing_stands_for_what_is_not_there(app: App, stage: Stage) -> None:
    stage.then("look", lambda _: Outcome.no_result())
    stage.then("note", lambda _: Outcome.partial({"ref": "half"}, "the second page is missing"))
    view = await ran(
        app, step("none", "look"), step("part"), step("bad", depends_on=["part"]), step("a", "peek", save_as="kept")
    )
    assert view["outputs"] == {"none": None, "part": {"ref": "half"}, "a": {"ref": "a"}, "kept": {"ref": "a"}}
    assert (of(view, "none")["state"], of(view, "none")["outcome"]) == ("succeeded", "no_result")
    part = of(view, "part")
    assert (part["state"], part["outcome"], part["error"]) == ("failed", "partial", None)
    assert "second page" in part["reason"]


async def test_outputs_that_are_too_large_together_are_marked_and_read_elsewhere(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more="[limits]\noutput_model_bytes = 400\n")
    long, short = "l" * 1_000, "s" * 150
    stage.then("peek", *[lambda _, text=text: {"ref": text} for text in (long, short)])
    view = await ran(
        app,
        step("big", "peek"),
        step("small", "peek", depends_on=["big"]),
        step("twice", "note", args={"ref": "${small.ref}"}, save_as="again"),
        step("tiny", depends_on=["twice"]),
    )
    outputs = view["outputs"]
    assert (outputs["small"], outputs["tiny"]) == ({"ref": short}, {"ref": "tiny"})
    assert outputs["twice"] == outputs["again"]
    assert outputs["twice"].keys() == {"truncated"}
    marked = outputs["big"]["truncated"]
    assert marked.keys() == {"bytes", "sha256", "uri", "preview"}
    assert json.dumps({"ref": long}).startswith(marked["preview"].replace('":"', '": "'))
    whole = await app.runtime.artifact(app.local, marked["uri"].rpartition("/")[2], 0, 5_000)
    assert whole is not None
    assert json.loads(whole) == {"ref": long}
    assert stage.effects == [("note", short), ("note", "tiny")]  # a later step gets the whole


async def test_what_is_sealed_of_a_run_is_no_artifact(app: App) -> None:
    await ran(app, step("a", args={"ref": "${input.x}"}), input={"x": "1"})
    with closing(sqlite3.connect(app.ledger.path)) as hand:
        names = [row[0] for row in hand.execute("SELECT payload_id FROM payloads WHERE kind IN ('plan', 'input')")]
    assert len(names) == 2
    assert [await app.runtime.artifact(app.local, name, 0, 10) for name in names] == [None, None]


async def test_a_run_shows_its_limits_and_what_it_has_used(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more="[budgets.run]\ncalls = 9\nwrites = 3\n")
    view = await ran(app, step("a"), step("b", "peek"), budget={"writes": 2, "cost": 1.5})
    assert view["budget"] == {
        "calls": 2, "writes": 1, "destructive": 0, "cost": 0, "output_bytes": 22, "elapsed_s": 0,
        "limits": {"calls": 9, "writes": 2, "cost": 1.5},
    }  # fmt: skip
    assert stage.count("note") == 1


async def test_a_deadline_stands_still_while_only_people_are_awaited(app: App, clock: HandClock) -> None:
    view = await ran(app, step("a", "refund"), deadline_s=60)
    assert view["deadline"] == "2026-09-21T14:14:20.000000Z"
    clock.pass_(100)
    later: Any = (await app.runtime.status(app.local, run_id=view["run_id"])).wire()
    assert later["deadline"] == "2026-09-21T14:16:00.000000Z"
    await app.runtime.decide(view["pending"][0]["approval_id"], "approve", decider=CAROL)
    done = await until(app, view["run_id"], "succeeded")
    assert done["deadline"] == later["deadline"]


async def test_a_call_elsewhere_that_holds_a_run_up_is_named_to_its_subject(app: App, stage: Stage) -> None:
    stage.then("book", lose)
    other = await app.call("book", {"ref": "x"})
    view = await ran(app, step("a", "book", args={"ref": "x"}))
    assert view["status"] == "awaiting_reconciliation"
    [found] = view["unresolved"]
    assert (found["call_id"], found["step"], found["tool"]) == (other.call_id, None, "book")
    assert states(view) == {"a": "ready"}
    await app.runtime.reconcile(
        app.local, call_id=other.call_id, resolution="happened", evidence="looked", person=CAROL
    )
    assert (await until(app, view["run_id"], "succeeded"))["unresolved"] == []


async def test_nothing_is_said_of_a_run_whose_record_is_damaged(app: App) -> None:
    view = await ran(app, step("a"))
    fine = await ran(app, step("b"))
    with closing(sqlite3.connect(app.ledger.path)) as hand:
        hand.execute("UPDATE events SET body = replace(body, 'success', 'failure') WHERE run_id = ?", (view["run_id"],))
        hand.commit()
    told: Any = await app.runtime.status(app.local, run_id=view["run_id"])
    assert told.is_error
    assert "steps" not in told.wire()
    with pytest.raises(DamagedChainError):
        await app.ledger.require_sound_chain(view["run_id"])
    listed: Any = {one.wire()["run_id"]: one for one in await app.runtime.runs()}
    assert listed[view["run_id"]].is_error
    assert not listed[fine["run_id"]].is_error
    again: Any = (await app.run(plan(step("a")))).wire()
    assert (again["run_id"], again["error"]["code"]) == (view["run_id"], "in_progress")


def test_a_step_is_ready_once_all_that_it_needs_has_ended_as_it_needs_it() -> None:
    wanted = (Step("a", 0, "note", "1", "d"), Step("b", 1, "note", "1", "d"))
    late = Step("c", 2, "note", "1", "d", needs=Needs.SETTLED)
    plan_ = Plan("g", (*wanted, late), ((), (0,), (0,)))
    run = RunRow("run_1", "plan_1", "t", "me", "c", "[]", "{}", "g", "p", "i", "", "k", 9, 0, 0)

    def shown(*notes: StepRow) -> list[str]:
        return [one.state.value for one in show_steps(plan_, Snapshot(run, [], [*notes], [], {}, {}, None))]

    assert shown() == ["ready", "waiting", "waiting"]
    assert shown(StepRow("run_1", "a", -1, "failed", 0)) == ["failed", "waiting", "ready"]
    assert shown(StepRow("run_1", "a", -1, "succeeded", 0)) == ["succeeded", "ready", "ready"]


@pytest.mark.parametrize(
    ("changes", "tool", "says"),
    [
        ({"status": "running"}, "status", "by itself"),
        ({"status": "queued"}, "status", "by itself"),
        ({"status": "awaiting_external"}, "status", "by itself"),
        ({"status": "awaiting_reconciliation"}, "reconcile", "repeat"),
        ({"status": "queued", "reason": "stopped"}, "run", "cancelled the request"),
        ({"status": "queued", "reason": "authority_expired"}, "run", "renews"),
        ({"status": "queued", "reason": "held"}, "status", "goes on by itself"),
        ({"status": "queued", "reason": "budget", "due_at": 0, "message": "Calls are used up."}, "status", "1970"),
        ({"status": "queued", "reason": "unavailable", "message": "No pool."}, "run", "No pool."),
        ({"status": "failed", "finished_at": 1, "message": "Step a ended."}, "status", "Step a ended."),
        ({"status": "budget_exhausted", "finished_at": 1}, "status", "request_key"),
    ],
)
def test_each_status_has_its_next_action(changes: dict[str, Any], tool: str, says: str) -> None:
    run = RunRow("run_1", "plan_1", "t", "me", "c", "[]", "{}", "g", "p", "i", "", "k", 9, 0, 0, **changes)
    found = next_of_run(run, [], is_unresolved=False)
    assert found is not None
    assert (found.tool, found.arguments["run_id"]) == (tool, "run_1")
    assert says in found.text


@pytest.mark.parametrize(("asked_at", "then"), [(None, "the run goes on"), (1, "nothing further starts")])
def test_what_is_unknown_is_settled_and_only_a_run_that_was_not_cancelled_goes_on(
    asked_at: int | None, then: str
) -> None:
    kept: dict[str, Any] = {"status": "awaiting_reconciliation", "cancel_requested_at": asked_at}
    run = RunRow("run_1", "plan_1", "t", "me", "c", "[]", "{}", "g", "p", "i", "", "k", 9, 0, 0, **kept)
    found = next_of_run(run, [], is_unresolved=True)
    assert found is not None
    assert then in found.text


@pytest.mark.parametrize("status", ["succeeded", "cancelled"])
def test_a_run_that_is_over_has_nothing_next_unless_something_is_unknown(status: str) -> None:
    run = RunRow("run_1", "p", "t", "me", "c", "[]", "{}", "g", "p", "i", "", "k", 9, 0, 0, status, finished_at=1)
    assert next_of_run(run, [], is_unresolved=False) is None
    found = next_of_run(run, [], is_unresolved=True)
    assert found is not None
    assert found.tool == "reconcile"
