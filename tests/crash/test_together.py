"""Two servers on one ledger under load, one of them killed in the middle and started again."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from .kit import Forge, GoneError, Server, Stage, assert_sound, eventually

CALLS = 100
THINGS = 5
KILL_AFTER = 40


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.make(tmp_path / "stage", lease_s=2)


def ask_all(server: Server, name: str) -> list[int]:
    return [
        server.ask("call", tool="touch", arguments={"thing": f"thing-{n % THINGS}", "note": f"{name}-{n}"})
        for n in range(CALLS)
    ]


def answers(server: Server, numbers: list[int]) -> list[dict[str, Any]]:
    """Those that come; a killed server gives no more."""
    found: list[dict[str, Any]] = []
    try:
        found.extend(server.answer(number) for number in numbers)
    except GoneError:
        pass
    return found


def resolve_all(server: Server, stage: Stage) -> None:
    """A person says of each unknown call what the far side's books have."""
    for row in stage.calls():
        if row["state"] == "awaiting_reconciliation":
            happened = stage.world.found(row["action_id"]) is not None
            server.do(
                "reconcile",
                call_id=row["call_id"],
                resolution="happened" if happened else "not_happened",
                evidence="the far side's own books",
            )


def test_calls_on_one_thing_never_overlap_and_every_effect_is_accounted_for(forge: Forge, stage: Stage) -> None:
    killed, other = forge.start(stage), forge.start(stage)
    with ThreadPoolExecutor(2) as pool:
        killed_answers = pool.submit(answers, killed, ask_all(killed, "killed"))
        other_answers = pool.submit(answers, other, ask_all(other, "other"))
        eventually(lambda: len(stage.world.effects()) >= KILL_AFTER)
        killed.kill()
        again = forge.start(stage)
        given = killed_answers.result(), other_answers.result()
    for server in (again, other):
        server.rest()
    resolve_all(again, stage)
    again.stop()
    other.stop()

    assert_sound(stage)
    assert_apart(stage)
    by_action = {row["action_id"]: row for row in stage.calls()}
    assert all(by_action[effect["action_id"]]["outcome"] == "success" for effect in stage.world.effects())
    told = [view for views in given for view in views if view["outcome"] == "success"]
    effects = {effect["reference"] for effect in stage.world.effects()}
    assert {view["output"]["reference"] for view in told} <= effects
    assert len(given[1]) == CALLS


def assert_apart(stage: Stage) -> None:
    """The calls of each thing follow one another: in the order of commits, by the ledger's times, and in the world."""
    spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in stage.calls("touch"):
        if row["dispatched_at"] is not None:
            spans[row["resources"]].append((row["dispatched_at"], row["settled_at"]))
    assert len(spans) == THINGS
    for thing, found in spans.items():
        for (_, ended), (began, _) in pairwise(sorted(found)):
            assert ended <= began, f"two calls overlap on {thing}"
    held: dict[str, str | None] = {}
    for event in stage.rows(
        "SELECT calls.resources AS thing, events.type AS type, events.call_id AS call_id FROM events"
        " JOIN calls USING (call_id) WHERE calls.tool = 'touch' ORDER BY events.id"
    ):
        if event["type"] == "dispatched":
            assert held.get(event["thing"]) is None, f"{event['thing']} is taken twice"
            held[event["thing"]] = event["call_id"]
        elif event["type"] in {"settled", "resolved", "abandoned"} and held.get(event["thing"]) == event["call_id"]:
            held[event["thing"]] = None
