"""Calls through an open application: what a caller and the far side see, and that neither is ever wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil import Outcome, Probe
from counterfoil.registry.request import CallRequest
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose, unsent
from tests.runtime.talk import LIMIT_S, approve, say, until

pytestmark = pytest.mark.anyio


async def test_a_key_whose_call_never_left_makes_the_next_attempt_of_it(app: App, stage: Stage) -> None:
    stage.then("book", unsent)
    first = await app.call("book", {"ref": "1"}, idempotency_key="k")
    assert (first.outcome, first.sent) == ("retryable_failure", "no")
    again = await app.call("book", {"ref": "1"}, idempotency_key="k")
    assert (again.call_id, again.outcome, again.attempts, again.replayed) == (first.call_id, "success", 2, False)
    assert [called[2:] for called in stage.calls] == [(stage.calls[0][2], 1), (stage.calls[0][2], 2)]
    third = await app.call("book", {"ref": "1"}, idempotency_key="k")
    assert (third.call_id, third.replayed, stage.count("book")) == (first.call_id, True, 2)


async def test_a_lost_answer_is_unknown_and_refuses_what_would_repeat_it(app: App, stage: Stage) -> None:
    stage.then("note", lose)
    lost = await app.call("note", {"ref": "1"})
    assert lost.error is not None
    assert (lost.state, lost.outcome, lost.sent, lost.error.code) == (
        "awaiting_reconciliation", "ambiguous", "unknown", "ambiguous",
    )  # fmt: skip
    other = await app.call("note", {"ref": "1", "text": "in other words"})
    assert other.error is not None
    assert (other.state, other.outcome, other.sent, other.error.code) == ("refused", "denied", "no", "ambiguous")
    assert other.error.details["call_id"] == lost.call_id
    assert stage.count("note") == 1


async def test_a_keyed_call_is_sent_again_under_its_own_action(app: App, stage: Stage) -> None:
    stage.then("keyed", lose)
    lost = await app.call("keyed", {"ref": "1"})
    done = await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert isinstance(done, CallView)
    assert (done.state, done.outcome, done.attempts) == ("settled", "success", 2)
    assert stage.calls[0][2] == stage.calls[1][2]


async def test_a_keyed_call_past_its_retention_parks(app: App, stage: Stage, clock: HandClock) -> None:
    stage.then("keyed", lose)
    lost = await app.call("keyed", {"ref": "1"})
    clock.pass_(3_601)
    done = await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert isinstance(done, CallView)
    assert (done.state, stage.count("keyed")) == ("awaiting_reconciliation", 1)


async def test_a_further_attempt_that_sends_nothing_leaves_the_first_unknown(app: App, stage: Stage) -> None:
    stage.then("keyed", lose, unsent)
    lost = await app.call("keyed", {"ref": "1"})
    done = await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert isinstance(done, CallView)
    assert (done.state, done.outcome, done.sent) == ("awaiting_reconciliation", "ambiguous", "unknown")


async def test_a_natural_call_is_repeated_by_a_reconcile(app: App, stage: Stage) -> None:
    stage.then("put", lose)
    lost = await app.call("put", {"ref": "1"})
    done = await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert isinstance(done, CallView)
    assert (done.state, done.outcome, stage.count("put")) == ("settled", "success", 2)


async def test_a_natural_call_is_not_repeated_over_a_later_one(app: App, stage: Stage) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def hang(_: Any) -> None:
        begun.set()
        await go.wait()
        raise ConnectionError

    stage.then("put_loose", hang)
    first = asyncio.ensure_future(app.call("put_loose", {"ref": "1", "value": 10}))
    await begun.wait()
    assert (await app.call("put_loose", {"ref": "1", "value": 20})).outcome == "success"
    go.set()
    lost = await first
    done = await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert isinstance(done, CallView)
    assert (done.state, stage.count("put_loose")) == ("awaiting_reconciliation", 2)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Probe.happened({"ref": "found"}), "settled"),
        (Probe.absent(), "awaiting_reconciliation"),
        (Probe.pending(), "awaiting_external"),
        (Probe.unknown(), "awaiting_reconciliation"),
    ],
    ids=["happened", "absent", "pending", "unknown"],
)
async def test_a_probe_settles_only_what_it_found(app: App, stage: Stage, answer: Probe, state: str) -> None:
    stage.then("probed", lose)
    stage.then("probe", lambda _: answer)
    lost = await app.call("probed", {"ref": "1"})
    done = await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert isinstance(done, CallView)
    assert done.state == state
    assert done.output == ({"ref": "found"} if state == "settled" else None)
    assert stage.count("probed") == 1


async def test_two_reconciles_at_once_are_both_answered(app: App, stage: Stage) -> None:
    stage.then("probed", lose)
    stage.then("probe", lambda _: Probe.happened({"ref": "found"}), lambda _: Probe.happened({"ref": "found"}))
    lost = await app.call("probed", {"ref": "1"})
    both = await asyncio.gather(*(app.runtime.reconcile(app.local, call_id=lost.call_id) for _ in range(2)))
    assert [view.state for view in both if isinstance(view, CallView)] == ["settled", "settled"]


async def test_a_person_says_that_it_happened(app: App, stage: Stage) -> None:
    stage.then("book", lose)
    lost = await app.call("book", {"ref": "1"})
    done = await say(app, lost.call_id, "happened")
    assert isinstance(done, CallView)
    assert (done.state, done.outcome, done.sent) == ("settled", "success", "yes")


async def test_nobody_says_that_it_did_not_happen_while_its_server_lives(app: App, stage: Stage) -> None:
    stage.then("book", lose)
    lost = await app.call("book", {"ref": "1"})
    early = await say(app, lost.call_id, "not_happened")
    assert early.error is not None
    assert early.error.code == "in_progress"
    unknown = await say(app, lost.call_id, "still_unknown")
    assert isinstance(unknown, CallView)
    assert unknown.state == "awaiting_reconciliation"


async def lost_before(open_: OpenApp, stage: Stage, tool: str) -> tuple[App, CallView]:
    """A call whose answer was lost by a server that has ended; and the next server."""
    stage.then(tool, lose)
    first = await open_()
    asked = await first.call(tool, {"ref": "1"})
    if asked.state == "awaiting_approval":
        await approve(first, asked)
        asked = await until(first, asked.call_id, "awaiting_reconciliation")
    await first.runtime.stop(1.0)
    await first.ledger.close()
    return await open_(), asked


async def test_a_person_says_that_it_did_not_happen(open_: OpenApp, stage: Stage) -> None:
    app, lost = await lost_before(open_, stage, "book")
    done = await say(app, lost.call_id, "not_happened", "fail")
    assert isinstance(done, CallView)
    assert done.error is not None
    assert (done.state, done.error.code, done.error.details["effect"]) == ("settled", "tool_failed", "none")
    assert (await app.call("book", {"ref": "1"})).replayed


async def test_sending_it_again_on_a_persons_word_needs_a_fresh_proposal(open_: OpenApp, stage: Stage) -> None:
    app, lost = await lost_before(open_, stage, "refund")
    waiting = await say(app, lost.call_id, "not_happened", "retry")
    assert isinstance(waiting, CallView)
    assert waiting.state == "awaiting_approval"
    assert stage.count("refund") == 1
    await approve(app, waiting)
    done = await until(app, lost.call_id, "settled", "awaiting_reconciliation")
    assert (done.state, done.outcome, done.attempts) == ("settled", "success", 2)


async def test_a_restart_follows_a_parked_call_up_once(open_: OpenApp, stage: Stage) -> None:
    stage.then("probe", lambda _: Probe.happened({"ref": "found"}))
    app, lost = await lost_before(open_, stage, "probed")
    done = await until(app, lost.call_id, "settled")
    assert (done.outcome, stage.count("probe"), stage.count("probed")) == ("success", 1, 1)


async def test_a_restart_does_not_repeat_a_natural_call(open_: OpenApp, stage: Stage) -> None:
    app, lost = await lost_before(open_, stage, "put")
    async with asyncio.timeout(LIMIT_S):
        while "taken_over" not in str(await app.runtime.status(app.local, call_id=lost.call_id)):
            await asyncio.sleep(0.02)
    assert (await until(app, lost.call_id, "awaiting_reconciliation")).attempts == 1
    assert stage.count("put") == 1


async def test_with_retry_a_keyed_call_is_followed_up_by_itself(app: App, stage: Stage) -> None:
    stage.then("patient", lose, lose)
    done = await app.call("patient", {"ref": "1"})
    assert (done.state, done.outcome, done.attempts) == ("settled", "success", 3)
    assert len({called[2] for called in stage.calls}) == 1


async def test_without_a_key_a_failure_whose_effect_is_not_known_is_not_tried_again(app: App, stage: Stage) -> None:
    stage.then("stubborn", lambda _: Outcome.retryable("who knows", sent="unknown"))
    done = await app.call("stubborn", {"ref": "1"})
    assert done.error is not None
    assert (done.outcome, done.error.code, done.error.details["effect"]) == (
        "retryable_failure",
        "tool_failed",
        "unknown",
    )
    assert stage.count("stubborn") == 1


async def test_a_failure_without_effect_is_tried_again(app: App, stage: Stage) -> None:
    stage.then("stubborn", unsent, unsent)
    done = await app.call("stubborn", {"ref": "1"})
    assert (done.outcome, done.attempts) == ("success", 3)


async def test_whoever_does_not_wait_is_told_of_a_row(app: App, stage: Stage) -> None:
    begun, go = stage.hold("book")
    told = await app.call("book", {"ref": "1"}, wait_s=0)
    assert told.state in {"queued", "dispatched"}
    assert (told.outcome, told.error) == (None, None)
    assert told.call_id is not None
    await begun.wait()
    second = await app.call("book", {"ref": "1"}, idempotency_key="k", wait_s=0)
    assert (second.state, second.sent) == ("queued", "no")
    go.set()
    assert (await until(app, told.call_id, "settled")).outcome == "success"
    assert (await until(app, second.call_id, "settled")).outcome == "success"


async def test_a_request_that_goes_away_leaves_its_write_to_be_joined(app: App, stage: Stage) -> None:
    begun, go = stage.hold("book")
    leaving = asyncio.ensure_future(app.runtime.call(CallRequest(app.local, "book", {"ref": "1"})))
    await begun.wait()
    leaving.cancel()
    await asyncio.wait({leaving})
    running = await app.call("book", {"ref": "1"}, wait_s=0.3)
    assert (running.state, running.replayed) == ("dispatched", True)
    go.set()
    done = await app.call("book", {"ref": "1"}, wait_s=LIMIT_S)
    assert (done.call_id, done.outcome, done.replayed, stage.count("book")) == (running.call_id, "success", True, 1)


async def test_a_reader_of_a_resource_waits_for_its_writer(app: App, stage: Stage) -> None:
    begun, go = stage.hold("book")
    writing = asyncio.ensure_future(app.call("book", {"ref": "1"}))
    await begun.wait()
    reading = await app.call("peek_order", {"ref": "1"}, wait_s=0.2)
    assert reading.state == "queued"
    assert stage.count("peek_order") == 0
    go.set()
    await writing
    assert (await until(app, reading.call_id, "settled")).outcome == "success"


async def test_an_application_that_read_at_home_ends_in_order(open_: OpenApp) -> None:
    app = await open_()
    assert (await app.call("peek", {"ref": "1"})).outcome == "success"
    assert await app.runtime.stop(1.0)


async def test_an_outcome_waits_for_its_record_and_is_settled_later(app: App, stage: Stage) -> None:
    begun, go = stage.hold("book")
    asked = asyncio.ensure_future(app.call("book", {"ref": "1"}, wait_s=1.0))
    await begun.wait()
    away = app.ledger.path.with_name("away.db")
    app.ledger.path.rename(away)  # nothing can be recorded now
    go.set()
    told = await asked
    away.rename(app.ledger.path)
    assert told.error is not None
    assert (told.state, told.outcome, told.sent, told.error.code) == ("dispatched", None, "unknown", "in_progress")
    assert (await until(app, told.call_id, "settled")).outcome == "success"
    assert stage.effects == [("book", "1")]


async def test_what_cannot_be_recorded_is_not_sent(app: App, stage: Stage) -> None:
    assert (await app.call("book", {"ref": "0"})).outcome == "success"
    away = app.ledger.path.with_name("away.db")
    app.ledger.path.rename(away)
    told = await app.call("book", {"ref": "1"})
    away.rename(app.ledger.path)
    assert told.error is not None
    assert (told.state, told.sent, told.error.code) == ("refused", "no", "cannot_record")
    assert stage.effects == [("book", "0")]


async def test_content_that_no_record_can_hold_is_recorded_all_the_same(app: App, stage: Stage) -> None:
    for answer in (
        lambda _: Outcome.retryable("\ud800 told", sent="no", after_s=float("nan")),
        lambda _: Outcome.permanent("no", "no"),
        lambda _: Outcome.success({"ref": "\ud800"}),
        lambda _: Outcome.success({"ref": "x", "number": 10**5000}),
        lambda _: Outcome.success({"ref": float("inf")}, {"request_id": "\ud800"}),
    ):
        stage.then("stubborn", answer)
        done = await app.call("stubborn", {"ref": str(len(stage.calls))})
        assert done.state == "settled"


async def test_a_resource_function_that_asks_the_process_to_end_refuses_its_call_alone(app: App, stage: Stage) -> None:
    refused = await app.call("by_function", {"ref": "quit"})
    assert refused.error is not None
    assert (refused.state, refused.sent, refused.error.code) == ("refused", "no", "invalid_arguments")
    assert "KeyboardInterrupt" in refused.error.message
    assert stage.count("by_function") == 0
    assert (await app.call("by_function", {"ref": "1"})).outcome == "success"


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def mute(_: Any) -> Any:
    raise MuteError


@pytest.mark.parametrize("name", ["peek", "look", "note"])
@pytest.mark.parametrize("act", [mute, lambda _: Outcome("won")], ids=["error", "kind"])  # type: ignore[arg-type]  # foreign
async def test_no_report_keeps_an_attempt_from_its_settlement(app: App, stage: Stage, name: str, act: Any) -> None:
    stage.then(name, act)
    view = await app.call(name, {"ref": "1"})
    assert view.error is not None
    assert view.call_id is not None
    expected = ("ambiguous", "unknown", "ambiguous") if name == "note" else ("permanent_failure", "yes", "tool_failed")
    assert (view.outcome, view.sent, view.error.code) == expected


async def test_a_fault_of_ours_after_a_read_was_made_never_says_that_it_was_not(
    app: App, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("counterfoil.runtime.carrying.settlement_of", fail)
    view = await app.call("peek", {"ref": "1"})
    assert view.error is not None
    assert (view.error.code, view.sent, stage.count("peek")) == ("internal", "unknown", 1)
