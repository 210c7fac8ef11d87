"""The doors beside `run`: status, cancel, confirm and reconcile of runs, whose they are, and from which process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from counterfoil import Probe
from counterfoil.registry.question import Said
from counterfoil.runtime.chain.viewing import RunViewer
from counterfoil.server.app import App, open_app
from tests.runtime.bench import HandClock
from tests.runtime.chains import begun, of, plan, planned, ran, seen, somebody, states, step, until
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import CAROL, LIMIT_S

pytestmark = pytest.mark.anyio
UNKNOWN = "run_" + "0" * 32


async def status(app: App, run_id: str, **stated: Any) -> Any:
    view = await app.runtime.status(app.local, run_id=run_id, **stated)
    assert not view.is_error, view.wire()
    return view.wire()


async def test_a_run_is_shown_with_its_events_page_by_page(app: App) -> None:
    view = await ran(app, *(step(f"s{n}") for n in range(110)))
    first = await status(app, view["run_id"])
    assert [event["seq"] for event in first["events"]] == list(range(1, 201))
    assert first["more"]
    rest = await status(app, view["run_id"], after_seq=200)
    assert [event["seq"] for event in rest["events"]] == list(range(201, view["seq"] + 1))
    assert not rest["more"]
    assert rest["events"][-1]["type"] == "run_finished"
    assert {name: rest[name] for name in view.keys() & rest.keys()} == {
        name: value for name, value in view.items() if name not in {"replayed", "error"}
    }


async def test_a_wait_with_a_seq_ends_with_the_next_event(app: App, stage: Stage) -> None:
    started, go = stage.hold("note")
    view = await begun(app, plan(step("a")))
    await asyncio.wait_for(started.wait(), LIMIT_S)
    seq = (await status(app, view["run_id"]))["seq"]
    waiting = asyncio.create_task(status(app, view["run_id"], after_seq=seq, wait_s=LIMIT_S))
    await asyncio.sleep(0)
    assert not waiting.done()
    go.set()
    found = await asyncio.wait_for(waiting, LIMIT_S)
    assert found["events"][0]["seq"] == seq + 1
    done = await until(app, view["run_id"], "succeeded")
    began = time.monotonic()
    last = await status(app, view["run_id"], after_seq=done["seq"], wait_s=LIMIT_S)
    assert (last["events"], last["status"]) == ([], "succeeded")
    assert time.monotonic() - began < LIMIT_S / 2  # nothing more can come of a finished run


async def test_a_wait_without_a_seq_ends_when_nothing_moves_by_itself(app: App, stage: Stage) -> None:
    started, go = stage.hold("note")
    view = await begun(app, plan(step("a"), step("b", "refund", depends_on=["a"])))
    await asyncio.wait_for(started.wait(), LIMIT_S)
    waiting = asyncio.create_task(status(app, view["run_id"], wait_s=LIMIT_S))
    await asyncio.sleep(0)
    go.set()
    assert (await asyncio.wait_for(waiting, LIMIT_S))["status"] == "awaiting_approval"


async def test_a_run_that_is_decided_between_the_last_look_and_its_view_is_waited_for_further(
    open_: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, other = await open_(), await open_(role="cli")  # the other one decides, and carries nothing on
    parked = await ran(app, step("a", "refund"))
    view_of = RunViewer.view

    async def decided_just_before(self: RunViewer, run_id: str, **more: Any) -> Any:
        monkeypatch.setattr(RunViewer, "view", view_of)
        await other.runtime.decide(parked["pending"][0]["approval_id"], "approve", decider=CAROL)
        return await view_of(self, run_id, **more)

    monkeypatch.setattr(RunViewer, "view", decided_just_before)
    assert (await status(app, parked["run_id"], wait_s=LIMIT_S))["status"] == "succeeded"


async def test_a_run_of_another_process_is_followed_too(open_: OpenApp, stage: Stage) -> None:
    first, second = await open_(), await open_()
    started, go = stage.hold("note")
    name = await planned(first, step("a"))
    view = await begun(first, name)
    await asyncio.wait_for(started.wait(), LIMIT_S)
    looking = asyncio.create_task(status(second, view["run_id"], wait_s=LIMIT_S))
    asking = asyncio.create_task(second.run(name, wait_s=LIMIT_S))
    await asyncio.sleep(0)
    go.set()
    assert (await looking)["status"] == "succeeded"
    found = (await asking).wire()
    assert (found["run_id"], found["replayed"], found["status"]) == (view["run_id"], True, "succeeded")
    assert stage.count("note") == 1


@pytest.mark.parametrize("door", ["status", "cancel", "reconcile", "confirm"])
async def test_a_run_of_somebody_else_is_one_that_is_not_there(app: App, door: str) -> None:
    view = await ran(app, step("a", "refund"))
    for who in (somebody(app, subject="bob", scopes=frozenset()), somebody(app, tenant="other")):
        theirs = await getattr(app.runtime, door)(who, run_id=view["run_id"])
        unknown = await getattr(app.runtime, door)(who, run_id=UNKNOWN)
        assert theirs.is_error
        assert theirs.error.code == "not_found"
        assert theirs.error.message.replace(view["run_id"], UNKNOWN) == unknown.error.message
        assert theirs.wire().keys() == unknown.wire().keys()
        assert theirs.error.details == unknown.error.details
    assert (await status(app, view["run_id"]))["version"] == view["version"]


async def test_the_overview_has_the_runs_of_its_subject_and_what_waits_in_them(app: App, stage: Stage) -> None:
    stage.then("note", lose)
    view = await ran(app, step("a", "refund"), step("b"))
    mine: Any = (await app.runtime.status(app.local)).wire()
    assert [run["run_id"] for run in mine["runs"]] == [view["run_id"]]
    assert mine["runs"][0]["status"] == "awaiting_reconciliation"
    assert "steps" not in mine["runs"][0]
    assert [(one["run_id"], one["step"]) for one in mine["pending"]] == [(view["run_id"], "a")]
    assert [one["call_id"] for one in mine["unresolved"]] == [of(view, "b")["call_id"]]
    assert mine["calls"] == []
    other: Any = (await app.runtime.status(somebody(app, subject="bob", scopes=frozenset()))).wire()
    assert (other["runs"], other["pending"], other["unresolved"]) == ([], [], [])


async def test_a_call_of_a_run_shows_its_own_events_alone(app: App) -> None:
    view = await ran(app, step("a"), step("b"))
    call_id = of(view, "b")["call_id"]
    found: Any = (await app.runtime.status(app.local, call_id=call_id)).wire()
    assert [event["type"] for event in found["events"]] == ["dispatched", "settled"]
    assert "run_id" not in found


async def test_a_cancelled_run_tells_the_effects_that_stand_and_undoes_none(app: App, stage: Stage) -> None:
    stage.then("note", lambda _: None, lose)
    view = await ran(
        app, step("a"), step("b", depends_on=["a"]), step("r", "peek"), step("c", "refund", depends_on=["a"])
    )
    assert view["status"] == "awaiting_reconciliation"
    answer: Any = (await app.runtime.cancel(app.local, run_id=view["run_id"], reason="enough")).wire()
    assert answer["cancel_requested_at"] is not None
    assert (answer["status"], answer["pending"]) == ("awaiting_reconciliation", [])
    assert states(answer) | {"r": ""} == {"a": "succeeded", "b": "awaiting_reconciliation", "c": "cancelled", "r": ""}
    assert [(one["step"], one["known"]) for one in answer["effects"]] == [("a", True), ("b", False)]
    assert {*answer["effects"][0]} >= {"step", "item", "call_id", "tool"}
    await app.runtime.reconcile(
        app.local, call_id=of(view, "b")["call_id"], resolution="happened", evidence="seen", person=CAROL
    )
    done = await until(app, view["run_id"], "cancelled")
    assert states(done)["b"] == "succeeded"
    again: Any = (await app.runtime.cancel(app.local, run_id=view["run_id"])).wire()
    assert [(one["step"], one["known"]) for one in again["effects"]] == [("a", True), ("b", True)]
    assert again["version"] == done["version"]
    assert stage.count("refund") == 0


async def test_a_cancelled_call_of_a_run_is_a_step_that_was_cancelled(app: App) -> None:
    view = await ran(app, step("a", "refund"), step("b", depends_on=["a"]))
    call_id = of(view, "a")["call_id"]
    await app.runtime.cancel(app.local, call_id=call_id)
    done = await until(app, view["run_id"], "failed")
    assert states(done) == {"a": "cancelled", "b": "not_run"}
    assert of(done, "a")["error"]["code"] == "cancelled"
    assert "a" in of(done, "b")["reason"]


async def test_reconcile_settles_all_of_a_run_that_can_be_settled_and_the_run_goes_on(app: App, stage: Stage) -> None:
    stage.then("probed", lose, lose)
    view = await ran(app, step("a", "probed"), step("b", "probed"), step("c", "peek", depends_on=["a", "b"]))
    assert view["status"] == "awaiting_reconciliation"
    assert [one["step"] for one in view["unresolved"]] == ["a", "b"]
    assert all("reconcile" in one["how"] for one in view["unresolved"])
    assert (view["next"]["tool"], view["next"]["arguments"]) == ("reconcile", {"run_id": view["run_id"]})
    stage.then("probe", *[lambda _: Probe.happened({"ref": "found"})] * 2)
    done: Any = (await app.runtime.reconcile(app.local, run_id=view["run_id"])).wire()
    assert (done["status"], done["unresolved"]) == ("succeeded", [])
    assert done["outputs"]["a"] == {"ref": "found"}
    assert stage.count("probed") == 2


async def test_a_word_that_has_a_step_sent_again_does_not_wait_for_its_new_decision(
    open_: OpenApp, stage: Stage, tmp_path: Path, clock: HandClock
) -> None:
    app = await open_(role="cli")  # it takes up nothing by itself
    stage.then("refund", lose)
    async with open_app(tmp_path / "counterfoil.toml", role="embedded", clock=clock) as first:
        run_id = (await ran(first, step("a", "refund")))["run_id"]
        asked = (await until(first, run_id, "awaiting_approval"))["pending"][0]["approval_id"]
        await first.runtime.decide(asked, "approve", decider=CAROL)
        call_id = of(await until(first, run_id, "awaiting_reconciliation"), "a")["call_id"]
    began = time.monotonic()
    word: dict[str, Any] = {"resolution": "not_happened", "evidence": "looked", "then": "retry", "person": CAROL}
    told: Any = (await app.runtime.reconcile(app.local, call_id=call_id, **word)).wire()
    assert told.get("state") == "awaiting_approval", told
    assert time.monotonic() - began < LIMIT_S / 2  # nothing moves until somebody decides
    third = await open_()
    again = await until(third, run_id, "awaiting_approval")
    await third.runtime.decide(again["pending"][0]["approval_id"], "approve", decider=CAROL)
    assert of(await until(third, run_id, "succeeded"), "a")["attempts"] == 2


async def test_what_only_a_person_can_tell_stays_and_says_so(app: App, stage: Stage) -> None:
    stage.then("note", lose)
    view = await ran(app, step("a"), step("b", depends_on=["a"]))
    still: Any = (await app.runtime.reconcile(app.local, run_id=view["run_id"])).wire()
    assert (still["status"], states(still)) == ("awaiting_reconciliation", states(view))
    call_id = of(view, "a")["call_id"]
    assert f"counterfoil reconcile {call_id}" in still["unresolved"][0]["how"]
    word: dict[str, Any] = {"resolution": "not_happened", "evidence": "looked", "then": "fail"}
    refused: Any = await app.runtime.reconcile(app.local, run_id=view["run_id"], person=CAROL, **word)
    assert (refused.error.code, refused.error.details["call_id"]) == ("in_progress", call_id)
    stale: Any = await app.runtime.reconcile(app.local, run_id=view["run_id"], expected_version=1)
    assert stale.error.code == "version_conflict"
    await app.runtime.reconcile(
        somebody(app, subject="os-user"), call_id=call_id, resolution="happened", evidence="looked", person=CAROL
    )
    done = await until(app, view["run_id"], "succeeded")
    assert stage.count("note") == 2
    assert of(done, "a")["attempts"] == 1


async def test_a_word_about_a_run_is_about_its_one_unresolved_call(app: App, stage: Stage) -> None:
    word: dict[str, Any] = {"resolution": "happened", "evidence": "looked"}
    carol = somebody(app, subject="carol", scopes=frozenset({"reconcile"}))
    stage.then("note", lose, lose)
    view = await ran(app, step("a"), step("b"))
    several: Any = await app.runtime.reconcile(carol, run_id=view["run_id"], asks=True, **word)
    assert several.error.code == "invalid_arguments"
    both = {of(view, "a")["call_id"], of(view, "b")["call_id"]}
    assert {one["call_id"] for one in several.error.details["unresolved"]} == both
    await app.runtime.reconcile(app.local, call_id=of(view, "a")["call_id"], person=CAROL, **word)
    one: Any = await app.runtime.reconcile(carol, run_id=view["run_id"], asks=True, **word)
    said = Said(one.question.key, "accept", "approve", one.question.code)
    await app.runtime.reconcile(carol, run_id=view["run_id"], asks=True, said=said, **word)
    await until(app, view["run_id"], "succeeded")
    none: Any = await app.runtime.reconcile(app.local, run_id=view["run_id"], person=CAROL, **word)
    assert none.error.code == "invalid_arguments"
    stranger: Any = await app.runtime.reconcile(somebody(app, subject="bob"), run_id=view["run_id"], **word)
    assert stranger.error.code == "not_found"


async def test_a_run_that_is_taken_up_has_what_is_unknown_followed_first(app: App, stage: Stage) -> None:
    stage.then("probed", lose)
    view = await ran(app, step("a", "probed"))
    stage.then("probe", lambda _: Probe.happened({"ref": "found"}))
    done = (await app.run(run_id=view["run_id"])).wire()
    assert (done["status"], done["outputs"]) == ("succeeded", {"a": {"ref": "found"}})


async def test_a_call_that_another_process_has_settled_for_sending_again_is_sent_by_its_runs_driver(
    open_: OpenApp, stage: Stage
) -> None:
    first, second = await open_(), await open_()
    started, go = stage.hold("note")
    stage.then("keyed", lose)
    name = await planned(first, step("a", "keyed"), step("b"))
    run_id = (await begun(first, name))["run_id"]
    await asyncio.wait_for(started.wait(), LIMIT_S)
    await seen(first, run_id, lambda view: states(view)["a"] == "awaiting_reconciliation")
    assert (await status(first, run_id))["status"] == "running"
    asking = asyncio.create_task(second.runtime.reconcile(second.local, run_id=run_id))
    await seen(first, run_id, lambda view: states(view)["a"] == "succeeded")
    go.set()
    assert (await asking).wire()["status"] == "succeeded"
    assert stage.effects == [("keyed", "a"), ("note", "b")]
    assert of(await status(first, run_id), "a")["attempts"] == 2


async def test_confirm_of_a_run_is_its_one_proposal_or_the_list(app: App) -> None:
    one = await ran(app, step("a", "refund"))
    two = await ran(app, step("b", "refund"), step("c", "refund"))
    found: Any = await app.runtime.confirm(app.local, run_id=one["run_id"])
    assert not found.is_error
    assert (found.wire()["run_id"], found.wire()["step"]) == (one["run_id"], "a")
    assert "No person has decided yet" in found.wire()["next"]["text"]
    assert "approvals approve" in found.wire()["how"]
    several: Any = await app.runtime.confirm(app.local, run_id=two["run_id"])
    assert several.error.code == "invalid_arguments"
    listed = several.error.details["pending"]
    assert [entry["approval_id"] for entry in listed] == [entry["approval_id"] for entry in two["pending"]]
    await app.runtime.decide(one["pending"][0]["approval_id"], "reject", decider=CAROL)
    done = await until(app, one["run_id"], "failed")
    assert states(done) == {"a": "rejected"}
    decided: Any = await app.runtime.confirm(app.local, approval_id=one["pending"][0]["approval_id"])
    assert (decided.wire()["state"], decided.wire()["how"]) == ("rejected", None)
    none: Any = await app.runtime.confirm(app.local, run_id=one["run_id"])
    assert (none.error.code, none.error.details["pending"]) == ("invalid_arguments", [])


async def test_a_decision_lets_the_run_go_on_whoever_waits(app: App, stage: Stage) -> None:
    view = await ran(app, step("a", "refund"), step("b", depends_on=["a"]))
    [pending] = view["pending"]
    assert pending.keys() == {"approval_id", "step", "tool", "arguments", "digest", "expires_at", "how"}
    assert view["next"]["arguments"]["approval_id"] == pending["approval_id"]
    await app.runtime.decide(pending["approval_id"], "approve", decider=CAROL)
    done = await status(app, view["run_id"], wait_s=LIMIT_S)
    assert done["status"] == "succeeded"
    assert stage.effects == [("refund", "a"), ("note", "b")]


async def test_every_run_of_the_ledger_is_listed_for_the_command_line(app: App) -> None:
    mine = await ran(app, step("a"))
    theirs = await app.run(plan(step("b")), principal=somebody(app, subject="bob"))
    listed: Any = [view.wire() for view in await app.runtime.runs()]
    assert {view["run_id"] for view in listed} == {mine["run_id"], theirs.run_id}
    assert all(states(view) in ({"a": "succeeded"}, {"b": "succeeded"}) for view in listed)
    assert len(await app.runtime.runs(limit=1)) == 1
