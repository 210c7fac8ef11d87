"""SIGKILL around one call of an HTTP tool of each protection class, and a far side that fails in each way there is.

The far side is a process of its own. What counts is its own book: whatever we knew, no effect is there twice, nothing
that happened is called failed, and what is sent again carries the same key.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.http_far_side import Answer

from .far import CLASSES, KEYED, NATURAL, PROBED, READ, TIMEOUT_S, USUAL, Far, assert_honest, describe, far_side
from .kit import Forge, GoneError, Server, Stage, eventually, recover

POINTS = ("before_t1", "before_first_byte", "after_commit", "before_t2", "after_t2")
HAPPENED_AT = frozenset({"after_commit", "before_t2", "after_t2"})
FACTS = {
    "before_t1": {"before": "dispatch_new"},
    "before_first_byte": {"after": "dispatch_new"},
    "before_t2": {"before": "settle"},
    "after_t2": {"after": "settle"},
}
LONG_AFTER_S = TIMEOUT_S + 5
PARKED = ("awaiting_reconciliation", "ambiguous", "unknown")
DONE = ("settled", "success", "yes")


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    with far_side(tmp_path_factory.mktemp("far")) as far:
        yield far


@pytest.fixture
def order() -> str:
    """One of the test's own."""
    return f"ord_{secrets.token_hex(6)}"


@pytest.fixture
def stage(stage: Stage, far: Far) -> Stage:
    return describe(stage, far)


def call(server: Server, tool: str, order: str, note: str = "n") -> dict[str, Any]:
    return server.do("call", tool=tool, arguments={"order": order, "note": note})


def path_of(tool: str, order: str) -> str:
    return f"/orders/{order}" if tool == READ else f"/orders/{order}/refunds"


def killed_at(forge: Forge, stage: Stage, far: Far, tool: str, order: str, point: str) -> None:
    """One call of a server that is killed at a point."""
    if point == "after_commit":
        far.script(path_of(tool, order), Answer(commit=tool != READ, then="hold"), USUAL)
    server = forge.start(stage, **FACTS.get(point, {}))
    number = server.ask("call", tool=tool, arguments={"order": order, "note": "n"})
    if point == "after_commit":
        eventually(lambda: len(far.keys(order)) == 1)
        eventually(lambda: tool == READ or far.effects(order))
        server.kill()
    with pytest.raises(GoneError):
        server.answer(number)
    server.gone()
    far.release()


def told(stage: Stage) -> tuple[str, str, str]:
    row = stage.call()
    return (row["state"], row["outcome"], row["sent"])


def reconciled(forge: Forge, stage: Stage, **more: Any) -> None:
    """What can be asked is asked, by a server that has just started."""
    server = forge.start(stage, **more).rest()
    for row in stage.calls():
        server.do("reconcile", call_id=row["call_id"])
    server.stop()


@pytest.mark.promise("DUR-01")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("tool", CLASSES)
def test_after_a_kill_nothing_is_sent_twice_without_a_key_and_nothing_untrue_is_said(
    forge: Forge, stage: Stage, far: Far, order: str, tool: str, point: str
) -> None:
    killed_at(forge, stage, far, tool, order, point)
    happened = point in HAPPENED_AT and tool != READ
    assert len(far.effects(order)) == happened

    recover(forge, stage)
    assert_honest(stage, far, order)
    after_restart = (stage.picture(), far.keys(order))
    assert len(far.effects(order)) == (happened or (tool in KEYED and point != "before_t1"))
    reconciled(forge, stage)
    assert_honest(stage, far, order)

    if point == "before_t1":
        assert (stage.calls(), far.keys(order)) == ([], [])
        return
    assert told(stage) == what_is_known(tool, point)
    sent = (point in HAPPENED_AT) + sent_again(tool, point)
    assert len(far.keys(order)) == sent
    assert set(far.keys(order)) <= {stage.call()["action_id"] if tool in KEYED else None}
    assert len(far.effects(order)) == expected_effects(tool, sent)
    if tool != NATURAL:
        assert (stage.picture(), far.keys(order)) == after_restart


def sent_again(tool: str, point: str) -> bool:
    """Whether recovery or whoever asks sends it once more."""
    if point == "after_t2" or tool == READ:
        return False
    if tool == "http_keyed_probed":
        return point not in HAPPENED_AT
    return tool in {"http_keyed", NATURAL}


def expected_effects(tool: str, sent: int) -> int:
    if tool == READ:
        return 0
    return sent if tool == NATURAL else min(sent, 1)


def what_is_known(tool: str, point: str) -> tuple[str, str, str]:
    """What can be known in the end of a call that was recorded."""
    if point == "after_t2" or tool in KEYED or tool == NATURAL:
        return DONE
    if tool == READ:
        return ("settled", "retryable_failure", "unknown")
    return DONE if tool in PROBED and point in HAPPENED_AT else PARKED


def test_what_is_absent_long_after_its_time_is_sent_again_where_its_author_promised_that(
    forge: Forge, stage: Stage, far: Far, order: str
) -> None:
    killed_at(forge, stage, far, "http_settled", order, "before_first_byte")
    recover(forge, stage)
    assert (told(stage), far.keys(order)) == (PARKED, [])

    reconciled(forge, stage, ahead_s=LONG_AFTER_S)

    assert (told(stage), len(far.effects(order))) == (DONE, 1)
    assert_honest(stage, far, order)


FAULTS = {
    "commits and drops the reply": Answer(commit=True, then="drop"),
    "drops the request": Answer(then="drop"),
    "commits and breaks off": Answer(201, '{"refund_id": "ref"}', commit=True, then="reset"),
    "dies before the commit": Answer(then="die"),
    "dies after the commit": Answer(commit=True, then="die"),
}


@pytest.mark.promise("DUP-01")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tool", CLASSES)
def test_a_far_side_that_fails_is_never_told_twice_without_a_key(
    forge: Forge, stage: Stage, far: Far, order: str, tool: str, fault: str
) -> None:
    answer = FAULTS[fault]
    commits = answer.commit and tool != READ
    if tool == READ:
        answer = Answer(body=answer.body, then=answer.then)
    far.script(path_of(tool, order), answer, USUAL)
    server = forge.start(stage)
    number = server.ask("call", tool=tool, arguments={"order": order, "note": "n"})
    if answer.then == "die":
        far.dies()
        view = server.answer(number)
        far.start()
    else:
        view = server.answer(number)

    if tool == READ:
        assert view["outcome"] == ("retryable_failure" if answer.then == "die" else "success")
        server.stop()
        return
    assert (view["state"], view["outcome"], view["sent"]) == PARKED
    assert len(far.effects(order)) == commits
    assert_honest(stage, far, order)

    again = server.do("reconcile", call_id=view["call_id"])

    known = tool in KEYED or tool == NATURAL or (tool in PROBED and commits)
    assert (again["state"], again["outcome"], again["sent"]) == (DONE if known else PARKED)
    assert len(far.effects(order)) == (1 + commits if tool == NATURAL else commits or tool in KEYED)
    assert set(far.keys(order)) <= {stage.call()["action_id"] if tool in KEYED else None}
    server.stop()
    assert_honest(stage, far, order)


@pytest.mark.parametrize("tool", ["http_plain", "http_probed"])
def test_an_unknown_call_is_not_sent_a_second_time_by_whoever_asks_again(
    forge: Forge, stage: Stage, far: Far, order: str, tool: str
) -> None:
    killed_at(forge, stage, far, tool, order, "before_first_byte")
    server = forge.start(stage).rest()

    again, reworded = call(server, tool, order), call(server, tool, order, "in other words")

    assert (again["call_id"], again["replayed"]) == (stage.call()["call_id"], True)
    assert (reworded["state"], reworded["error"]["code"], reworded["sent"]) == ("refused", "ambiguous", "no")
    assert (far.keys(order), far.effects(order)) == ([], [])
    server.stop()
    assert_honest(stage, far, order)


@pytest.mark.promise("CAN-04")
def test_attempts_of_a_keyed_call_whose_replies_are_lost_carry_one_key_and_have_one_effect(
    forge: Forge, stage: Stage, far: Far, order: str
) -> None:
    lost = Answer(commit=True, then="drop")
    far.script(path_of("http_keyed_retry", order), lost, lost, USUAL)
    server = forge.start(stage)

    view = call(server, "http_keyed_retry", order)

    assert (view["outcome"], view["attempts"]) == ("success", 3)
    assert far.keys(order) == [stage.call()["action_id"]] * 3
    assert len(far.effects(order)) == 1
    server.stop()
    assert_honest(stage, far, order)


STATUSES = {
    "success": Answer(201, '{"refund_id": "ref"}', commit=True),
    "no content": Answer(204, "", commit=True),
    "refusal": Answer(422, '{"message": "no"}'),
    "too many": Answer(429, headers={"Retry-After": "1"}),
    "not now": Answer(503, headers={"Retry-After": "1"}),
    "unknown": Answer(500, commit=True),
    "unknown without effect": Answer(503),
    "redirect": Answer(302, headers={"Location": "/elsewhere"}, commit=True),
    "unreadable": Answer(200, "{", commit=True),
    "cut short": Answer(200, "{}", commit=True, length=50),
    "lost": Answer(commit=True, then="drop"),
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("tool", ["http_plain", "http_keyed"])
def test_an_answer_of_any_class_that_a_kill_kept_from_the_ledger_is_never_taken_for_a_failure(
    forge: Forge, stage: Stage, far: Far, order: str, tool: str, status: str
) -> None:
    answer = STATUSES[status]
    far.script(path_of(tool, order), answer, USUAL)
    server = forge.start(stage, before="settle")
    with pytest.raises(GoneError):
        call(server, tool, order)
    server.gone()
    assert len(far.effects(order)) == answer.commit

    server = forge.start(stage).rest()

    assert told(stage) == (DONE if tool == "http_keyed" else PARKED)
    assert len(far.effects(order)) == (answer.commit or tool == "http_keyed")
    server.stop()
    assert_honest(stage, far, order)


def test_an_effect_that_comes_after_everybody_gave_up_is_found_and_is_the_only_one(
    forge: Forge, stage: Stage, far: Far, order: str, tmp_path: Path
) -> None:
    stage = describe(Stage.make(tmp_path / "hasty"), far, timeout_s=2)
    far.script(path_of("http_probed", order), Answer(commit_late=True, then="hold"), USUAL)
    server = forge.start(stage)
    view = call(server, "http_probed", order)
    assert (view["state"], view["outcome"], view["sent"]) == PARKED
    assert (server.do("reconcile", call_id=view["call_id"])["state"], far.effects(order)) == (PARKED[0], [])

    far.release()
    eventually(lambda: far.effects(order))

    assert server.do("reconcile", call_id=view["call_id"])["outcome"] == "success"
    assert (len(far.effects(order)), len(far.keys(order))) == (1, 1)
    server.stop()
    assert_honest(stage, far, order)
