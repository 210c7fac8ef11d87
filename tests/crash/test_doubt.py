"""Corners where the ledger could say that nothing happened because it did not know, or send once too often."""

from __future__ import annotations

from pathlib import Path

import pytest

from .kit import Forge, GoneError, Stage, assert_sound, eventually

UNKNOWN = ("awaiting_reconciliation", "ambiguous", "unknown")


def told(stage: Stage) -> tuple[str, str, str]:
    """What the ledger says of the only call."""
    row = stage.call()
    return (row["state"], row["outcome"], row["sent"])


def dies(forge: Forge, stage: Stage, tool: str, mark: str, **more: object) -> None:
    """A call of a server that is killed at a mark."""
    stage.world.set(mark)
    server = forge.start(stage, **more)
    with pytest.raises(GoneError):
        server.call(tool)
    server.gone()


def test_a_second_attempt_that_never_left_does_not_settle_the_first(forge: Forge, stage: Stage) -> None:
    dies(forge, stage, "unreachable_later", "die-answer")

    server = forge.start(stage).rest()

    assert told(stage) == UNKNOWN
    assert stage.call()["attempts"] == 2
    assert len(stage.world.effects()) == 1
    reworded = server.call("unreachable_later", "in other words")
    assert reworded["error"]["code"] == "ambiguous"
    server.stop()
    assert_sound(stage)


def test_a_key_past_its_retention_is_not_sent_again_although_that_was_decided_in_time(
    forge: Forge, stage: Stage
) -> None:
    dies(forge, stage, "forgetful", "die-answer")
    forge.fork(stage, before="dispatch_queued").gone()
    assert stage.call()["state"] == "queued"

    server = forge.start(stage, ahead_s=61).rest()

    assert told(stage) == UNKNOWN
    assert len(stage.world.effects()) == 1
    server.stop()
    assert_sound(stage)


def test_a_failure_that_may_have_had_its_effect_is_not_tried_again_without_a_key(forge: Forge, stage: Stage) -> None:
    server = forge.start(stage)

    view = server.call("unsure")

    assert (view["outcome"], view["attempts"], view["sent"]) == ("retryable_failure", 1, "unknown")
    assert view["error"]["details"]["effect"] == "unknown"
    assert len(stage.world.effects()) == 1
    server.stop()
    assert_sound(stage)


def test_a_ledger_that_fails_after_the_effect_is_no_reason_to_say_that_nothing_was_sent(
    forge: Forge, stage: Stage
) -> None:
    server = forge.start(stage, refuse="take_late")

    view = server.call("lost_reply")

    assert len(stage.world.effects()) == 1
    assert (view["call_id"], view["sent"], view["error"]["code"]) == (stage.call()["call_id"], "unknown", "in_progress")
    server.stop()
    assert_sound(stage)


def test_a_late_word_settles_a_call_that_was_about_to_be_sent_again(forge: Forge, tmp_path: Path) -> None:
    stage = Stage.make(tmp_path / "short", lease_s=1)
    stage.world.set("hold-effect")
    first = forge.start(stage)
    number = first.ask("call", tool="keyed", arguments={"note": "n"})
    eventually(lambda: stage.world.is_set("at-effect"))
    first.pause(stage)
    stage.world.take("hold-effect")
    forge.fork(stage, before="dispatch_queued").gone()
    assert stage.call()["state"] == "queued"

    first.go_on()
    first.answer(number)
    eventually(lambda: stage.call()["state"] == "settled")

    row = stage.call()
    assert (row["outcome"], row["settled_by"], row["attempts"]) == ("success", "late", 1)
    assert len(stage.world.effects()) == 1
    first.rest().stop()
    assert_sound(stage)


def test_a_read_that_two_crashes_left_open_is_settled_when_it_is_asked_about(forge: Forge, stage: Stage) -> None:
    dies(forge, stage, "open_read", "die-effect")
    forge.fork(stage, before="resolve").gone()
    assert told(stage)[0] == "awaiting_reconciliation"

    server = forge.start(stage)
    view = server.do("reconcile", call_id=stage.call()["call_id"])

    assert (view["outcome"], view["error"]["details"]["reason"]) == ("retryable_failure", "interrupted")
    server.stop()
    assert_sound(stage)


def test_a_call_that_was_to_be_cancelled_is_not_sent_again_by_recovery(forge: Forge, stage: Stage) -> None:
    stage.world.set("hold-effect")
    server = forge.start(stage)
    server.ask("call", tool="keyed", arguments={"note": "n"})
    eventually(lambda: stage.world.is_set("at-effect"))
    server.do("cancel", call_id=stage.call()["call_id"])
    server.kill()
    stage.world.take("hold-effect")

    server = forge.start(stage).rest()

    assert told(stage) == UNKNOWN
    assert stage.world.effects() == []
    server.stop()
    assert_sound(stage)


def test_a_caller_that_leaves_while_its_call_is_recorded_joins_it_when_it_asks_again(
    forge: Forge, stage: Stage
) -> None:
    for mark in ("hold-fact", "hold-effect"):
        stage.world.set(mark)
    server = forge.start(stage, keep_back="dispatch_new")
    number = server.ask("call", tool="plain", arguments={"note": "n"})
    eventually(lambda: stage.world.is_set("at-fact"))
    server.do("abandon", number=number)
    stage.world.take("hold-fact")
    eventually(lambda: stage.world.is_set("at-effect"))

    again = server.ask("call", tool="plain", arguments={"note": "n"})
    eventually(lambda: stage.call()["request_owner"] is not None)
    stage.world.take("hold-effect")

    assert server.answer(again)["replayed"] is True
    assert len(stage.world.effects()) == 1
    server.stop()
    assert_sound(stage)


def test_an_orderly_stop_in_the_middle_of_a_write_is_known_at_once_to_the_next_start(
    forge: Forge, stage: Stage
) -> None:
    stage.world.set("hold-effect")
    first = forge.start(stage)
    first.ask("call", tool="plain", arguments={"note": "n"})
    eventually(lambda: stage.world.is_set("at-effect"))
    first.stop()

    second = forge.start(stage)

    assert told(stage) == UNKNOWN
    second.stop()
    assert_sound(stage)


def test_a_closed_read_leaves_nothing_open_at_an_orderly_stop(forge: Forge, stage: Stage) -> None:
    server = forge.start(stage)
    server.call("closed_read")
    server.stop()

    assert [row["ended_at"] is not None for row in stage.rows("SELECT ended_at FROM owners")] == [True]
