"""SIGSTOP past the lease in the middle of a run, a second server that takes the run over, and SIGCONT.

And two servers that start at the same moment on a run whose server is dead: one of them drives it.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from .kit import Forge, Server, Stage, eventually
from .run_kit import (
    KEY,
    PLAN,
    assert_ended,
    assert_kept,
    assert_run_sound,
    calls_of,
    effects_of,
    lives,
    run_of,
    see_through,
    settled,
    stage_of_run,
)

LEASE_S: Final = 1.0
PAUSES_MAX: Final = 100
POINTS: Final = ("guard", "effect", "answer")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return stage_of_run(tmp_path / "stage", lease_s=LEASE_S)


def events_by(stage: Stage, owner: str) -> int:
    """How many events of the run name this owner as the one who acts in them."""
    bodies = [json.loads(row["body"]) for row in stage.rows("SELECT body FROM events WHERE run_id LIKE 'run_%'")]
    return sum(owner in {body.get("data", {}).get(name) for name in ("owner", "to")} for body in bodies)


def stands_still(forge: Forge, stage: Stage, hold: str, **more: str) -> Server:
    """A server that was stopped in the middle of its run, at a point of a tool or between two facts."""
    stage.world.set(f"hold-{hold}")
    first = forge.start(stage, **more)
    first.ask("run", plan=PLAN, request_key=KEY, wait_s=0)
    eventually(lambda: stage.world.is_set(f"at-{hold}"))
    pause_between_facts(first, stage)
    stage.world.take(f"hold-{hold}")
    return first


def pause_between_facts(server: Server, stage: Stage) -> None:
    """Stop it where it holds neither the ledger nor the far side: nobody could write until it goes on."""
    for _ in range(PAUSES_MAX):
        server.pause(stage)
        if is_free(stage):
            return
        server.go_on()
    raise AssertionError(f"it held something at each of {PAUSES_MAX} moments")


def is_free(stage: Stage) -> bool:
    """Whether others can write to the ledger and act in the world now."""
    with closing(sqlite3.connect(stage.ledger, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
    with (stage.world.folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("place", ["plain", "keyed", "probed"])
def test_a_driver_that_comes_back_sends_no_step_twice_and_stops(
    forge: Forge, stage: Stage, place: str, point: str
) -> None:
    first = stands_still(forge, stage, f"{place}-{point}")
    second = forge.start(stage)
    eventually(lambda: (run_of(stage) or {})["wakes"] > 1)
    second.rest()
    kept, acted = settled(stage), events_by(stage, first.owner)

    first.go_on()
    first.rest()

    assert_kept(stage, kept)
    assert not {where: count for where, count in effects_of(stage).items() if count > 1}
    assert events_by(stage, first.owner) == acted, "it records nothing as the driver of this run any more"
    assert place != "plain" or evidence_of(stage, place), "what the stopped attempt came to is kept"
    see_through(second, stage, alone=False)
    for server in (first, second):
        server.rest().stop()
    if point == "guard" and place in {"plain", "probed"}:
        (row,) = [row for row in calls_of(stage) if row["step"] == place]
        assert (row["outcome"], row["sent"], row["settled_by"]) == ("retryable_failure", "no", "late")
        assert effects_of(stage)[place] == 0
        assert_ended(stage, status="failed")
    else:
        assert_ended(stage)


def evidence_of(stage: Stage, step: str) -> bool:
    """Whether the word of the first attempt at a step was heard, as an outcome or beside one."""
    rows = stage.rows(
        "SELECT attempts.late, calls.settled_by, calls.step FROM attempts JOIN calls USING (call_id)"
        " WHERE attempts.generation = 1"
    )
    rows = [row for row in rows if row["step"] == step]
    return any(row["late"] is not None or row["settled_by"] == "late" for row in rows)


def test_a_driver_that_stood_still_between_two_steps_begins_none_when_it_comes_back(forge: Forge, stage: Stage) -> None:
    first = stands_still(forge, stage, "fact", keep_back="settle")
    second = forge.start(stage)
    eventually(lambda: (run_of(stage) or {})["wakes"] > 1)
    second.rest()
    assert (run_of(stage) or {})["status"] == "awaiting_approval"
    kept = settled(stage)

    first.go_on()
    first.rest()

    assert_kept(stage, kept)
    assert {row["owner_id"] for row in calls_of(stage) if row["step"] != "look"} <= {second.owner, None}
    see_through(second, stage, alone=False)
    for server in (first, second):
        server.rest().stop()
    assert_ended(stage)


@pytest.mark.parametrize("death", ["look-answer", "keyed-effect", "probed-answer", "approved-effect"])
def test_two_servers_that_start_at_once_on_an_orphaned_run_drive_it_once(
    forge: Forge, stage: Stage, death: str
) -> None:
    stage.world.set(f"die-{death}")
    assert not lives(forge, stage)
    before, kept = (run_of(stage) or {})["wakes"], settled(stage)

    both = [forge.fork(stage), forge.fork(stage)]
    for server in both:
        server.ready()
    for server in both:
        server.rest()

    assert_run_sound(stage)
    assert_kept(stage, kept)
    claims = stage.rows("SELECT body FROM events WHERE type = 'run_claimed'")
    taken = [data for row in claims if "from" in (data := json.loads(row["body"])["data"])]
    assert len(taken) == 1, "one of them takes it from the dead one"
    assert (run_of(stage) or {})["wakes"] > before
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(see_through, server, stage, alone=False) for server in both]
    assert [end.result()["status"] for end in ends] == ["succeeded"] * 2
    for server in both:
        server.rest().stop()
    assert_ended(stage)
