"""SIGKILL around what a far side has accepted: the wait goes on in the next server, and what it did is found once."""

from __future__ import annotations

import pytest

from .kit import Forge, GoneError, Stage, assert_sound, eventually, recover

DAY_S = 86_400
POINTS = {
    "before the far side has it": {"die": "effect"},
    "before the acceptance is recorded": {"die": "answer"},
    "after the acceptance is recorded": {"after": "settle"},
}
QUESTIONS = {
    "before it is claimed": {"before": "claim_poll"},
    "once it is claimed": {"after": "claim_poll"},
    "while the far side is asked": {"die": "probe"},
    "before the answer is recorded": {"before": "note_probe"},
    "after the answer is recorded": {"after": "note_probe"},
    "after it is settled": {"after": "resolve"},
}


def killed(forge: Forge, stage: Stage, point: dict[str, str], **more: object) -> None:
    """A server that is killed at a point: of a call, or of a question that it asks by itself."""
    if "die" in point:
        stage.world.set(f"die-{point['die']}")
    server = forge.start(stage, **{name: fact for name, fact in point.items() if name != "die"}, **more)
    if not more:
        with pytest.raises(GoneError):
            server.call("accepting")
    server.gone()


def shows(stage: Stage, state: str) -> None:
    eventually(lambda: stage.call()["state"] == state)


def done_later(forge: Forge, stage: Stage) -> None:
    """The far side has its effect, and a server of a later time finds it."""
    stage.world.act("accepting", "n", stage.call()["action_id"])
    server = forge.start(stage, ahead_s=2 * 3_600)
    shows(stage, "settled")
    server.rest().stop()
    assert (stage.call()["outcome"], len(stage.world.effects())) == ("success", 1)
    assert_sound(stage)


@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_around_the_acceptance_it_is_waited_for_or_unknown(forge: Forge, stage: Stage, point: str) -> None:
    killed(forge, stage, POINTS[point])
    recover(forge, stage)
    assert_sound(stage)
    has_it = bool(stage.world.logged("accepted"))
    assert stage.call()["state"] == ("awaiting_external" if has_it else "awaiting_reconciliation")
    before = stage.picture()
    recover(forge, stage)
    assert stage.picture() == before
    if has_it:
        done_later(forge, stage)
    assert len(stage.world.logged("accepted")) == has_it


@pytest.mark.parametrize("point", QUESTIONS)
def test_after_a_kill_around_a_question_the_next_server_asks(forge: Forge, stage: Stage, point: str) -> None:
    server = forge.start(stage)
    server.call("accepting")
    server.stop()
    shows(stage, "awaiting_external")
    stage.world.act("accepting", "n", stage.call()["action_id"])
    killed(forge, stage, QUESTIONS[point], ahead_s=60)
    assert_sound(stage)
    server = forge.start(stage, ahead_s=2 * 3_600)
    shows(stage, "settled")
    server.rest().stop()
    assert (stage.call()["outcome"], len(stage.world.effects())) == ("success", 1)
    assert len(stage.world.logged("accepted")) == 1
    assert_sound(stage)


def test_the_end_of_a_wait_that_no_server_saw_is_unknown_and_no_failure(forge: Forge, stage: Stage) -> None:
    server = forge.start(stage)
    server.call("accepting")
    server.kill()
    server = forge.start(stage, ahead_s=DAY_S + 60)
    shows(stage, "awaiting_reconciliation")
    server.rest().stop()
    assert stage.call()["outcome"] == "ambiguous"
    assert_sound(stage)
