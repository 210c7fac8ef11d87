"""SIGSTOP past the lease, a second server that takes the call over, and SIGCONT.

The ledger is fenced by generations; the world is not. What keeps an effect single is the guard at the last instant, and
that `absent` alone lets nobody send again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from .kit import HAPPENED, Forge, Server, Stage, assert_sound, eventually

LEASE_S = 1.0
POINTS = ("guard", "effect", "answer")


class Paused(NamedTuple):
    """A stopped server with a call under way, the server that took that over, and the number of the call's answer."""

    stopped: Server
    second: Server
    number: int


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.make(tmp_path / "stage", lease_s=LEASE_S)


def paused(forge: Forge, stage: Stage, tool: str, point: str) -> Paused:
    """A server that stands still at a point of its call until its lease has lapsed and the call is taken over."""
    stage.world.set(f"hold-{point}")
    first = forge.start(stage)
    number = first.ask("call", tool=tool, arguments={"note": "n"})
    eventually(lambda: stage.world.is_set(f"at-{point}"))
    first.pause(stage)
    stage.world.take(f"hold-{point}")
    second = forge.start(stage)
    eventually(lambda: stage.call()["owner_id"] == second.owner)
    return Paused(first, second.rest(), number)


def end(*servers: Server) -> None:
    for server in servers:
        server.stop()


@pytest.mark.parametrize("tool", ["plain", "probed", "natural", "keyed", "keyed_probed"])
@pytest.mark.parametrize("point", POINTS)
def test_a_server_that_comes_back_makes_no_second_effect_and_its_word_is_heard(
    forge: Forge, stage: Stage, tool: str, point: str
) -> None:
    first, second, number = paused(forge, stage, tool, point)
    effects = stage.world.effects()
    assert len(effects) == (point == "answer" or tool in {"keyed", "keyed_probed"})

    first.go_on()
    first.answer(number)
    eventually(lambda: stage.call()["state"] == "settled")

    row = stage.call()
    if point == "guard" and tool in {"plain", "probed", "natural"}:
        assert (row["outcome"], row["sent"], row["settled_by"]) == ("retryable_failure", "no", "late")
        assert stage.world.effects() == []
    else:
        assert row["outcome"] in HAPPENED
        assert len(stage.world.effects()) == 1
    assert second.do("status", call_id=row["call_id"])["outcome"] == row["outcome"]
    end(first.rest(), second.rest())
    assert_sound(stage)


@pytest.mark.parametrize("point", POINTS)
def test_absent_alone_lets_nobody_send_again(forge: Forge, stage: Stage, point: str) -> None:
    first, second, number = paused(forge, stage, "probed", point)
    call_id = stage.call()["call_id"]

    asked = second.do("reconcile", call_id=call_id)

    assert (asked["state"], asked["attempts"]) == ("settled" if point == "answer" else "awaiting_reconciliation", 1)
    first.go_on()
    first.answer(number)
    end(first.rest(), second)
    assert len(stage.world.effects()) <= 1
    assert_sound(stage)


@pytest.mark.parametrize("tool", ["plain", "probed"])
def test_the_same_call_and_a_reworded_one_are_not_sent_while_a_paused_server_may_still_act(
    forge: Forge, stage: Stage, tool: str
) -> None:
    first, second, number = paused(forge, stage, tool, "effect")

    again, reworded = second.call(tool), second.call(tool, "in other words")

    assert (again["call_id"], again["replayed"], again["state"]) == (
        stage.call()["call_id"], True, "awaiting_reconciliation",
    )  # fmt: skip
    assert reworded["error"]["code"] == "ambiguous"
    assert stage.world.effects() == []
    first.go_on()
    first.answer(number)
    end(first.rest(), second)
    assert len(stage.world.effects()) == 1
    assert_sound(stage)


def test_a_server_that_stood_still_enters_anew_and_serves_on(forge: Forge, stage: Stage) -> None:
    first, second, number = paused(forge, stage, "probed", "answer")
    first.go_on()
    first.answer(number)

    views = [first.answer(first.ask("call", tool="plain", arguments={"note": str(n)})) for n in range(3)]

    assert [view["outcome"] for view in views] == ["success"] * 3
    assert first.do("owner")["owner"] not in {first.owner, second.owner}
    living = stage.rows("SELECT owner_id FROM owners WHERE lapsed_at IS NULL AND ended_at IS NULL")
    assert {row["owner_id"] for row in living} == {first.do("owner")["owner"], second.owner}
    end(first, second)
    assert_sound(stage)


def test_calls_that_find_the_lease_lost_at_once_make_one_new_owner(forge: Forge, stage: Stage) -> None:
    first = forge.start(stage, role="cli")  # it does not sweep, so that only its calls can find out
    first.pause(stage)
    second = forge.start(stage)
    eventually(lambda: stage.rows("SELECT 1 FROM owners WHERE lapsed_at IS NOT NULL"))
    numbers = [first.ask("call", tool="keyed", arguments={"note": str(n)}) for n in range(20)]
    first.go_on()

    for number in numbers:
        assert first.answer(number)["outcome"] == "success"

    assert len(stage.rows("SELECT 1 FROM owners")) == 3
    end(first.rest(), second)
    assert len(stage.world.effects("keyed")) == 20
    assert_sound(stage)


def test_a_stopped_attempt_never_speaks_for_a_later_one_that_nobody_knows_of(forge: Forge, stage: Stage) -> None:
    stage.world.set("hold-guard")
    first = forge.start(stage)
    number = first.ask("call", tool="keyed", arguments={"note": "n"})
    eventually(lambda: stage.world.is_set("at-guard"))
    first.pause(stage)
    stage.world.take("hold-guard")
    stage.world.set("die-answer")
    forge.start(stage).gone()
    assert (stage.call()["generation"], len(stage.world.effects())) == (2, 1)
    first.go_on()
    first.answer(number)
    first.rest().stop()
    assert_sound(stage)

    server = forge.start(stage).rest()
    server.do("reconcile", call_id=stage.call()["call_id"])

    assert (stage.call()["state"], stage.call()["outcome"]) == ("settled", "success")
    assert len(stage.world.effects()) == 1
    server.stop()
    assert_sound(stage)
