"""SIGSTOP of a server past its lease around an HTTP tool's send, a second server that takes the call over, and SIGCONT.

What was to be sent is stopped by the guard right before the first byte; what has been sent is heard when it answers.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.kit.http_far_side import Answer

from .far import KEYED, USUAL, Far, assert_honest, describe, far_side
from .kit import Forge, Server, Stage, eventually

LEASE_S: Final = 1.0
TOOLS: Final = ("http_plain", "http_probed", "http_keyed")
POINTS: Final = ("before_first_byte", "before_commit", "after_commit")


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    with far_side(tmp_path_factory.mktemp("far")) as far:
        yield far


@pytest.fixture
def stage(tmp_path: Path, far: Far) -> Stage:
    return describe(Stage.make(tmp_path / "stage", lease_s=LEASE_S), far)


def paused(forge: Forge, stage: Stage, far: Far, tool: str, order: str, point: str) -> tuple[Server, Server, int]:
    """A server that stands still until its call is taken over, the one that has it, and the number of the answer."""
    path, arguments = f"/orders/{order}/refunds", {"order": order, "note": "n"}
    if point == "before_first_byte":
        stage.world.set("hold-fact")
        first = forge.start(stage, keep_back="dispatch_new")
        number = first.ask("call", tool=tool, arguments=arguments)
        eventually(lambda: stage.world.is_set("at-fact"))
        first.pause(stage)
        stage.world.take("hold-fact")
    else:
        late = point == "before_commit"
        far.script(path, Answer(201, commit=not late, commit_late=late, then="hold"), USUAL)
        first = forge.start(stage)
        number = first.ask("call", tool=tool, arguments=arguments)
        eventually(lambda: len(far.keys(order)) == 1)
        eventually(lambda: late or far.effects(order))
        first.pause(stage)
    second = forge.start(stage)
    eventually(lambda: stage.call()["owner_id"] == second.owner)
    return first, second.rest(), number


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_server_that_comes_back_makes_no_second_effect_and_its_word_is_heard(
    forge: Forge, stage: Stage, far: Far, tool: str, point: str
) -> None:
    order = f"ord_{secrets.token_hex(6)}"
    first, second, number = paused(forge, stage, far, tool, order, point)
    assert len(far.effects(order)) == (point == "after_commit" or tool in KEYED)

    first.go_on()
    far.release()
    first.answer(number)
    eventually(lambda: stage.call()["state"] == "settled")

    row = stage.call()
    if point == "before_first_byte" and tool not in KEYED:
        assert (row["outcome"], row["sent"], row["settled_by"]) == ("retryable_failure", "no", "late")
        assert (far.keys(order), far.effects(order)) == ([], [])
    else:
        assert row["outcome"] == "success"
        eventually(lambda: len(far.effects(order)) == 1)
        assert set(far.keys(order)) == {row["action_id"] if tool in KEYED else None}
    assert second.do("status", call_id=row["call_id"])["outcome"] == row["outcome"]
    first.rest().stop()
    second.rest().stop()
    assert len(far.effects(order)) <= 1
    assert_honest(stage, far, order)
