"""SIGKILL at every commit of a run that fails and is undone: each effect and each undo is there once, or is told of.

A life is always the same: open the ledger, take up what is there, ask for the run by its key, decide, tell what is
unknown, stop. The next life sees it through.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.run_rules import FINAL, check_run_view

from .kit import Forge, GoneError, Server, Stage, assert_whole
from .run_kit import EVIDENCE, KEY, WAIT_S, assert_left_to_somebody, run_of, status

COMMITS: Final = 26
"""How many commits a life makes on a quiet machine."""
COMMITS_MAX: Final = 90
WORDS_MAX: Final = 16
PLAN: Final[dict[str, Any]] = {
    "goal": "Fail, and leave nothing behind",
    "steps": [
        {"id": "keyed", "tool": "made_keyed", "args": {"note": "keyed"}},
        {"id": "probed", "tool": "made_probed", "args": {"note": "probed"}, "depends_on": ["keyed"]},
        {"id": "approved", "tool": "made_approved", "args": {"note": "approved"}, "depends_on": ["probed"]},
        {"id": "bad", "tool": "refused", "args": {"note": "bad"}, "depends_on": ["approved"]},
        {"id": "late", "tool": "made_keyed", "args": {"note": "late"}, "depends_on": ["bad"]},
    ],
    "on_failure": "compensate",
}
UNDONE: Final = {"keyed": "unmade_keyed", "probed": "unmade_probed", "approved": "unmade_approved"}
POINTS: Final = tuple(
    f"die-{point}"
    for step in ("un-keyed", "un-probed", "un-approved")
    for point in (f"{step}-effect", f"{step}-answer")
)


def stage_of(folder: Path) -> Stage:
    return Stage.make(folder, hands="tests.crash.undo_hands")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return stage_of(tmp_path / "stage")


def acts(stage: Stage) -> Counter[tuple[str, str]]:
    return Counter((line["tool"], line["note"]) for line in stage.world.effects())


def take_the_way_on(server: Server, stage: Stage, view: dict[str, Any]) -> None:
    """Approve what waits; say of what is unknown what the far side's books have; and have the rest tried again."""
    for asked in view["pending"]:
        server.do("decide", approval_id=asked["approval_id"], decision="approve")
    if not view["unresolved"] and view["compensation"] != "incomplete":
        return
    left = server.do("reconcile", run_id=view["run_id"])
    for unknown in left["unresolved"]:
        rows = [row for row in stage.calls() if row["call_id"] == unknown["call_id"]]
        if not rows or rows[0]["state"] != "awaiting_reconciliation":
            continue
        happened = stage.world.found(rows[0]["action_id"]) is not None
        word = {"resolution": "happened"} if happened else {"resolution": "not_happened", "then": "fail"}
        server.do("reconcile", call_id=unknown["call_id"], evidence=EVIDENCE, **word)


def see_through(server: Server, stage: Stage, plan: dict[str, Any]) -> dict[str, Any]:
    if run_of(stage) is not None:
        assert_left_to_somebody_or_strict(stage)
    view = server.do("run", plan=plan, request_key=KEY, wait_s=WAIT_S)
    assert view["error"] is None, view
    for _ in range(WORDS_MAX):
        check_run_view(view)
        if view["status"] in FINAL and view["compensation"] in {"none", "complete"}:
            return view
        take_the_way_on(server, stage, view)
        view = status(server, view["run_id"])
    raise AssertionError(f"still {view['status']}, {view['compensation']} after {WORDS_MAX} words: {view}")


def assert_left_to_somebody_or_strict(stage: Stage) -> None:
    run = run_of(stage)
    assert run is not None
    if run["reason"] != "strict":
        assert_left_to_somebody(stage)


def lives(forge: Forge, stage: Stage, **death: object) -> dict[str, Any] | None:
    """One server's life with the plan of this file; None if it was killed."""
    return lives_with(forge, stage, PLAN, **death)


def lives_with(forge: Forge, stage: Stage, plan: dict[str, Any], **death: object) -> dict[str, Any] | None:
    """One server's life; None if it was killed."""
    try:
        server = forge.start(stage, **death).rest()
        view = see_through(server, stage, plan)
        server.rest().stop()
    except GoneError:
        return None
    return view


def assert_accounted_for(stage: Stage) -> None:
    """At any moment: nothing happened twice, and nothing is called undone that is not."""
    assert not {act: n for act, n in acts(stage).items() if n > 1}, "something is there twice"
    if not stage.ledger.exists():
        return
    assert_whole(stage)
    by_action = {line["action_id"] for line in stage.world.effects()}
    for row in stage.calls():
        if row["state"] == "settled" and row["outcome"] == "success":
            assert row["action_id"] in by_action, row
        if row["state"] == "settled" and row["outcome"] != "success":
            assert row["action_id"] not in by_action, row


def assert_all_undone(stage: Stage, view: dict[str, Any]) -> None:
    assert_accounted_for(stage)
    assert view["status"] == "failed"
    there, fates = acts(stage), {one["step"]: one["state"] for one in view["compensations"]}
    for step, undo in UNDONE.items():
        done = sum(n for (tool, note), n in there.items() if note == step and tool not in UNDONE.values())
        undone = sum(n for (tool, note), n in there.items() if note == step and tool == undo)
        assert done == undone, (step, there)
        assert fates.get(step, "undone") == "undone", fates
    assert ("made_keyed", "late") not in there
    assert stage.rows("SELECT * FROM outbox") == []


def survives(forge: Forge, stage: Stage, said: str) -> None:
    try:
        assert_accounted_for(stage)
        view = lives(forge, stage)
        assert view is not None
        assert_all_undone(stage, view)
    except AssertionError as error:
        raise AssertionError(f"{said}: {error}\n{(stage.folder / 'log').read_text()[-2_000:]}") from error


@pytest.mark.promise("DAG-05")
@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_a_run_that_is_undone_survives_a_kill_after_any_commit(forge: Forge, stage: Stage, number: int) -> None:
    lives(forge, stage, commit=number, side="after")
    survives(forge, stage, f"killed after commit {number}")


def test_no_commit_of_such_a_life_comes_after_those(forge: Forge, tmp_path: Path) -> None:
    for number in range(COMMITS + 1, COMMITS_MAX):
        stage = stage_of(tmp_path / f"{number}")
        ended = lives(forge, stage, commit=number, side="after")
        survives(forge, stage, f"killed after commit {number}")
        if ended is not None:
            return
    raise AssertionError(f"a life makes more than {COMMITS_MAX} commits")


@pytest.mark.promise("DAG-05")
@pytest.mark.parametrize("point", POINTS)
def test_a_server_that_dies_around_the_effect_of_an_undo_leaves_it_unknown_and_never_twice(
    forge: Forge, stage: Stage, point: str
) -> None:
    stage.world.set(point)
    assert lives(forge, stage) is None
    survives(forge, stage, point)
