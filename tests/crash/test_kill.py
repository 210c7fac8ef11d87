"""SIGKILL around one call of each protection class: before T1, before the effect, after it, after T2.

After a restart, and after the reconciliation that follows it, no effect is there twice, and the ledger says neither
that something failed which happened nor the opposite.
"""

from __future__ import annotations

import pytest

from .kit import HAPPENED, READS, Forge, GoneError, Stage, assert_sound, recover

TOOLS = ("plain", "probed", "keyed", "keyed_probed", "natural", "open_read", "closed_read")
POINTS = ("before_t1", "before_effect", "after_effect", "after_t2")
RESENT = frozenset({"keyed", "keyed_probed"})


def killed_at(forge: Forge, stage: Stage, tool: str, point: str) -> None:
    """One call of a server that is killed at a point."""
    facts = {"before_t1": {"before": "dispatch_new"}, "after_t2": {"after": "settle"}}
    if tool == "closed_read":
        facts = {"before_t1": {"before": "observe"}, "after_t2": {"after": "observe"}}
    marks = {"before_effect": "die-effect", "after_effect": "die-answer"}
    if point in marks:
        stage.world.set(marks[point])
    server = forge.start(stage, **facts.get(point, {}))
    with pytest.raises(GoneError):
        server.call(tool)
    server.gone()


def reconciled(forge: Forge, stage: Stage) -> None:
    """What can be asked is asked."""
    server = forge.start(stage)
    for row in stage.calls():
        server.do("reconcile", call_id=row["call_id"])
    server.stop()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("tool", TOOLS)
def test_after_a_kill_nothing_happens_twice_and_nothing_untrue_is_said(
    forge: Forge, stage: Stage, tool: str, point: str
) -> None:
    killed_at(forge, stage, tool, point)
    sent = point in {"after_effect", "after_t2"}
    assert len(stage.world.effects()) == sent or (tool == "closed_read" and point == "before_t1")

    recover(forge, stage)
    assert_sound(stage)
    after_restart = stage.picture()
    recover(forge, stage)
    assert stage.picture() == after_restart
    assert tool in RESENT or len(stage.world.effects()) == sent or (tool == "closed_read" and point == "before_t1")
    reconciled(forge, stage)
    assert_sound(stage)

    effects, rows = stage.world.effects(), stage.calls()
    if tool == "closed_read":
        assert len(rows) == (point == "after_t2")
    elif point == "before_t1":
        assert (effects, rows) == ([], [])
    else:
        (row,) = rows
        again = tool == "natural" and point != "after_t2"  # repeated where somebody asks for it, never by a restart
        assert len(effects) == (sent + again if tool == "natural" else sent or tool in RESENT)
        assert (row["state"], row["outcome"], row["sent"]) == what_is_known(tool, point)


def what_is_known(tool: str, point: str) -> tuple[str, str, str]:
    """What can be known in the end of a call that was sent."""
    if point == "after_t2" or tool in RESENT or tool == "natural":
        return ("settled", "success", "yes")
    if tool in READS:
        return ("settled", "retryable_failure", "unknown")
    if tool == "probed" and point == "after_effect":
        return ("settled", "success", "yes")
    return ("awaiting_reconciliation", "ambiguous", "unknown")


@pytest.mark.parametrize("tool", ["plain", "probed", "natural"])
def test_an_unknown_call_is_not_sent_a_second_time_by_whoever_asks_again(forge: Forge, stage: Stage, tool: str) -> None:
    killed_at(forge, stage, tool, "before_effect")
    server = forge.start(stage)
    server.rest()

    again, reworded = server.call(tool), server.call(tool, "in other words")

    assert (again["call_id"], again["replayed"]) == (stage.call()["call_id"], True)
    assert (reworded["state"], reworded["error"]["code"], reworded["sent"]) == ("refused", "ambiguous", "no")
    assert stage.world.effects() == []
    server.stop()
    assert_sound(stage)


@pytest.mark.parametrize("tool", sorted(set(TOOLS) - READS))
def test_the_answer_that_was_lost_is_given_to_the_same_request_without_a_second_effect(
    forge: Forge, stage: Stage, tool: str
) -> None:
    killed_at(forge, stage, tool, "after_t2")
    server = forge.start(stage)

    again = server.call(tool)

    assert (again["outcome"] in HAPPENED, again["replayed"]) == (True, True)
    assert again["output"] == {"reference": f"{tool}-1"}
    assert len(stage.world.effects()) == 1
    fresh = server.call(tool)
    assert fresh["replayed"] is False
    server.stop()
    assert_sound(stage)


@pytest.mark.parametrize("resolution", ["happened", "not_happened"])
def test_a_person_settles_what_nobody_else_can_tell(forge: Forge, stage: Stage, resolution: str) -> None:
    happened = resolution == "happened"
    killed_at(forge, stage, "plain", "after_effect" if happened else "before_effect")
    server = forge.start(stage)
    server.rest()

    said = server.do(
        "reconcile", call_id=stage.call()["call_id"], resolution=resolution, evidence="the far side's own books"
    )

    assert said["state"] == "settled"
    assert (said["outcome"] in HAPPENED) is happened
    server.stop()
    assert_sound(stage)


def test_a_call_that_a_person_lets_be_sent_again_is_sent_once(forge: Forge, stage: Stage) -> None:
    killed_at(forge, stage, "plain", "before_effect")
    server = forge.start(stage)
    server.rest()

    said = server.do(
        "reconcile",
        call_id=stage.call()["call_id"],
        resolution="not_happened",
        then="retry",
        evidence="the far side's own books",
    )

    assert (said["state"], said["outcome"], said["attempts"]) == ("settled", "success", 2)
    assert len(stage.world.effects()) == 1
    server.stop()
    assert_sound(stage)
