"""SIGKILL of a run's server at each adapter call, before and after its effect, and around single facts of runs.

After an adapter's kill a restart alone takes the run as far as it may: what can be known or repeated without a second
effect is, and the rest waits for a person.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from .kit import Forge, GoneError, Server, Stage, eventually
from .run_kit import (
    EVIDENCE,
    KEY,
    PLAN,
    View,
    assert_ended,
    assert_kept,
    assert_left_to_somebody,
    assert_run_sound,
    begin,
    calls_of,
    effects_of,
    lives,
    run_of,
    see_through,
    settled,
    status,
)

PLACES: Final = ("look", "plain", "keyed", "probed", "first", "second", "approved")
POINTS: Final = ("effect", "answer")
BY_A_PERSON: Final = frozenset({"plain", "approved"})
AGAIN: Final = ("keyed", "first")
"""Whose adapter is called by the recovery too."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.make(tmp_path / "stage", hands="tests.crash.chain_hands")


def call_at(stage: Stage, place: str) -> View:
    """The call of a step, or of the item of that name."""
    step, item = ("each", ("first", "second").index(place)) if place in {"first", "second"} else (place, -1)
    return next(row for row in calls_of(stage) if (row["step"], row["item"]) == (step, item))


def restarted(forge: Forge, stage: Stage) -> None:
    """A restart that nobody helps; the run waits for a person then."""
    forge.start(stage).rest().stop()
    assert_run_sound(stage)
    assert_left_to_somebody(stage)
    run = run_of(stage)
    assert run is not None
    unknown = any(row["state"] == "awaiting_reconciliation" for row in calls_of(stage))
    assert run["status"] == ("awaiting_reconciliation" if unknown else "awaiting_approval")


def seen_through(forge: Forge, stage: Stage) -> None:
    """The run is seen through by a last life, and nothing that was settled moves any more."""
    kept = settled(stage)
    assert lives(forge, stage)
    assert_kept(stage, kept)
    assert_ended(stage)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("place", PLACES)
def test_a_restart_alone_takes_a_run_as_far_as_it_may(forge: Forge, stage: Stage, place: str, point: str) -> None:
    stage.world.set(f"die-{place}-{point}")
    assert not lives(forge, stage)
    assert_run_sound(stage)
    before = effects_of(stage)

    restarted(forge, stage)

    row = call_at(stage, place)
    if place in BY_A_PERSON or (place, point) == ("probed", "effect"):
        assert row["state"] == "awaiting_reconciliation"
        assert effects_of(stage)[place] == before[place] == (point == "answer")
    else:
        assert (row["state"], row["outcome"]) == ("settled", "success")
    picture = stage.picture()
    restarted(forge, stage)
    assert stage.picture() == picture, "a second restart changes nothing"
    seen_through(forge, stage)


@pytest.mark.parametrize("again", POINTS)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("place", AGAIN)
def test_a_kill_in_the_adapter_of_the_recovery_is_recovered_from(
    forge: Forge, stage: Stage, place: str, point: str, again: str
) -> None:
    for mark in (point, again):
        stage.world.set(f"die-{place}-{mark}")
        assert not lives(forge, stage)
        assert_run_sound(stage)
    restarted(forge, stage)
    assert call_at(stage, place)["outcome"] == "success"
    seen_through(forge, stage)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_in_the_probe_of_the_recovery_is_recovered_from(forge: Forge, stage: Stage, point: str) -> None:
    for mark in (f"probed-{point}", "probe"):
        stage.world.set(f"die-{mark}")
        assert not lives(forge, stage)
        assert_run_sound(stage)
    seen_through(forge, stage)


def held(forge: Forge, stage: Stage, place: str, **death: str) -> Server:
    """A server whose run stands before the effect of a step; it has not come to its death."""
    stage.world.set(f"hold-{place}-effect")
    server = forge.start(stage, **death)
    server.ask("run", plan=PLAN, request_key=KEY, wait_s=0)
    eventually(lambda: stage.world.is_set(f"at-{place}-effect"))
    return server


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("fact", ["ask_cancel", "request_cancel", "finish"])
def test_a_kill_while_a_run_is_cancelled_leaves_it_cancelled_in_the_end(
    forge: Forge, stage: Stage, fact: str, side: str
) -> None:
    server = held(forge, stage, "plain", **{side: fact})
    run = run_of(stage)
    assert run is not None
    with suppress(GoneError):
        number = server.ask("cancel", run_id=run["run_id"])
        if fact == "finish":
            eventually(lambda: (run_of(stage) or {})["cancel_requested_at"] is not None)
            stage.world.take("hold-plain-effect")
        server.answer(number)
    server.gone()
    stage.world.take("hold-plain-effect")
    assert_run_sound(stage)
    kept = settled(stage)

    after = forge.start(stage).rest()
    after.do("cancel", run_id=run["run_id"])
    view = told_of(after, stage, run["run_id"])

    assert view["status"] == "cancelled"
    assert_kept(stage, kept)
    after.rest().stop()
    assert_ended(stage, status="cancelled")
    assert not {*effects_of(stage)} & {"first", "second", "approved"}


def told_of(server: Server, stage: Stage, run_id: str) -> View:
    """A run that is being cancelled, once a person has told of every unknown call."""
    view = status(server, run_id)
    for unknown in view["unresolved"]:
        row = next(row for row in calls_of(stage) if row["call_id"] == unknown["call_id"])
        happened = "happened" if stage.world.found(row["action_id"]) else "not_happened"
        server.do("reconcile", call_id=row["call_id"], resolution=happened, evidence=EVIDENCE)
    return status(server, run_id)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("fact", ["ask_cancel", "withdraw", "finish"])
def test_a_kill_while_a_proposal_is_withdrawn_leaves_nothing_to_approve(
    forge: Forge, stage: Stage, fact: str, side: str
) -> None:
    first = forge.start(stage)
    parked = begin(first)
    assert parked["status"] == "awaiting_approval"
    first.stop()
    server = forge.start(stage, **{side: fact}).rest()
    with suppress(GoneError):
        server.do("cancel", run_id=parked["run_id"])
    server.gone()
    assert_run_sound(stage)

    after = forge.start(stage).rest()
    after.do("cancel", run_id=parked["run_id"])
    refused = after.do("decide", approval_id=parked["pending"][0]["approval_id"], decision="approve")

    assert refused.get("error") is not None, refused
    assert status(after, parked["run_id"])["status"] == "cancelled"
    after.stop()
    assert_ended(stage, status="cancelled")
    assert effects_of(stage)["approved"] == 0


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("fact", ["ask_stop", "park", "take_up"])
def test_a_kill_while_a_run_is_stopped_or_taken_up_loses_nothing(
    forge: Forge, stage: Stage, fact: str, side: str
) -> None:
    stage.world.set("hold-plain-effect")
    server = forge.start(stage, **({side: fact} if fact != "take_up" else {}))
    number = server.ask("run", plan=PLAN, request_key=KEY)
    eventually(lambda: stage.world.is_set("at-plain-effect"))
    with suppress(GoneError):
        server.do("abandon", number=number)
    if fact == "take_up":
        eventually(lambda: (run_of(stage) or {})["stopped_at"] is not None)
        stage.world.take("hold-plain-effect")
        server.rest().stop()
        assert (run_of(stage) or {})["reason"] == "stopped"
        taking = forge.start(stage, **{side: fact}).rest()
        with suppress(GoneError):
            taking.do("run", run_id=(run_of(stage) or {})["run_id"])
        taking.gone()
    else:
        stage.world.take("hold-plain-effect")
        server.gone()
    assert_run_sound(stage)
    kept = settled(stage)

    after = forge.start(stage).rest()
    assert_left_to_somebody(stage)
    run = run_of(stage)
    assert run is not None
    if run["stopped_at"] is not None:
        assert effects_of(stage)["probed"] == 0, "a stopped run sends no further write"
        after.do("run", run_id=run["run_id"])
    see_through(after, stage)
    after.rest().stop()
    assert_kept(stage, kept)
    assert_ended(stage)


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_kill_while_a_run_is_released_by_an_orderly_stop_loses_nothing(forge: Forge, stage: Stage, side: str) -> None:
    server = held(forge, stage, "keyed", **{side: "release_run"})
    server.ask("stop")
    server.gone()
    stage.world.take("hold-keyed-effect")
    assert_run_sound(stage)
    restarted(forge, stage)
    seen_through(forge, stage)
