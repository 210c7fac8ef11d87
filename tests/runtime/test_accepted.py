"""Calls that a far side has accepted and still works on: they wait without a worker, and only a probe settles them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil import Call, Outcome, Probe
from counterfoil.ledger.external import claim_poll, list_polls_due
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App
from tests.runtime.bench import SECOND, HandClock
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import LIMIT_S, say, until

pytestmark = pytest.mark.anyio
DAY_S = 86_400.0


def accepts(_: Call) -> Outcome[Any]:
    return Outcome.accepted("in the queue", external_reference="job_1")


def pending(_: Call) -> Probe:
    return Probe.pending()


def found(_: Call) -> Probe:
    return Probe.happened({"ref": "found"})


async def accepted(app: App, stage: Stage, *, tool: str = "probed") -> CallView:
    stage.then(tool, accepts)
    return await app.call(tool, {"ref": "1"})


async def later(app: App, clock: HandClock, seconds: float) -> None:
    """So much later, after a whole pass of whoever sweeps; what it has asked may still be on its way."""
    clock.pass_(seconds)
    await app.runtime._sweeper.sweep()  # pyright: ignore[reportPrivateUsage] (a whole pass, now)


async def answered(app: App, call_id: str | None, times: int) -> list[Any]:
    """Wait until so many answers are recorded; all events of the call."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            view = await app.runtime.status(app.local, call_id=call_id)
            events: Any = view.wire()["events"]
            if [event["type"] for event in events].count("probed") >= times:
                return list(events)
            await asyncio.sleep(0.01)


async def test_an_accepted_call_is_answered_at_once_and_settled_by_its_probe(
    app: App, stage: Stage, clock: HandClock
) -> None:
    view = await accepted(app, stage)
    assert (view.state, view.outcome, view.sent, view.error, view.is_error) == (
        "awaiting_external", None, "yes", None, False,
    )  # fmt: skip
    assert view.evidence is not None
    assert view.evidence["external_reference"] == "job_1"
    assert view.next is not None
    assert view.next.tool == "status"
    assert "reconcile" in view.next.text
    stage.then("probe", found)
    await later(app, clock, 6)
    done = await until(app, view.call_id, "settled")
    assert (done.outcome, done.output, done.attempts, stage.count("probed")) == ("success", {"ref": "found"}, 1, 1)
    assert done.evidence is not None
    assert done.evidence["external_reference"] == "job_1"
    events = await answered(app, view.call_id, 1)
    assert [event["type"] for event in events] == ["dispatched", "accepted", "probed", "resolved"]


async def test_nobody_asks_before_its_time_and_each_pause_is_longer(app: App, stage: Stage, clock: HandClock) -> None:
    view = await accepted(app, stage)
    stage.then("probe", pending, pending, found)
    assert view.next is not None
    await later(app, clock, 4)
    assert stage.count("probe") == 0
    await later(app, clock, 2)
    await answered(app, view.call_id, 1)
    await later(app, clock, 5)
    assert stage.count("probe") == 1
    await later(app, clock, 7)
    await answered(app, view.call_id, 2)
    await later(app, clock, 13)
    assert stage.count("probe") == 2
    await later(app, clock, 20)
    assert (await until(app, view.call_id, "settled")).outcome == "success"


async def test_a_wish_to_be_left_alone_is_heeded(app: App, stage: Stage, clock: HandClock) -> None:
    stage.then("probed", lambda _: Outcome.accepted(after_s=60))
    stage.then("probe", lambda _: Probe.pending(after_s=120), found)
    view = await app.call("probed", {"ref": "1"})
    await later(app, clock, 50)
    assert stage.count("probe") == 0
    await later(app, clock, 11)
    await answered(app, view.call_id, 1)
    await later(app, clock, 110)
    assert stage.count("probe") == 1
    await later(app, clock, 11)
    await until(app, view.call_id, "settled")


@pytest.mark.parametrize("answer", [Probe.pending(), Probe.unknown()], ids=["pending", "unknown"])
async def test_past_its_wait_nobody_knows_and_it_is_no_failure(
    app: App, stage: Stage, clock: HandClock, answer: Probe
) -> None:
    view = await accepted(app, stage)
    stage.then("probe", lambda _: answer, lambda _: answer)
    await later(app, clock, DAY_S / 2)
    await answered(app, view.call_id, 1)
    assert (await until(app, view.call_id, "awaiting_external")).outcome is None
    await later(app, clock, DAY_S / 2)
    lost = await until(app, view.call_id, "awaiting_reconciliation")
    assert lost.error is not None
    assert (lost.outcome, lost.sent, lost.error.code) == ("ambiguous", "unknown", "ambiguous")
    assert stage.count("probe") == 2
    stage.then("probe", found)
    done = await app.runtime.reconcile(app.local, call_id=view.call_id)
    assert isinstance(done, CallView)
    assert (done.state, done.outcome) == ("settled", "success")


async def test_what_the_far_side_no_longer_finds_is_unknown_and_not_sent_again(
    app: App, stage: Stage, clock: HandClock
) -> None:
    view = await accepted(app, stage)
    stage.then("probe", lambda _: Probe.absent())
    await later(app, clock, 6)
    lost = await until(app, view.call_id, "awaiting_reconciliation")
    assert (lost.outcome, stage.count("probed")) == ("ambiguous", 1)


async def test_a_reconcile_asks_at_once(app: App, stage: Stage) -> None:
    view = await accepted(app, stage)
    stage.then("probe", pending, found)
    still = await app.runtime.reconcile(app.local, call_id=view.call_id)
    assert isinstance(still, CallView)
    assert (still.state, stage.count("probe")) == ("awaiting_external", 1)
    done = await app.runtime.reconcile(app.local, call_id=view.call_id)
    assert isinstance(done, CallView)
    assert (done.state, done.outcome) == ("settled", "success")


async def test_a_probe_that_finds_it_under_way_has_an_unknown_call_waited_for(
    app: App, stage: Stage, clock: HandClock
) -> None:
    stage.then("probed", lose)
    stage.then("probe", pending, found)
    lost = await app.call("probed", {"ref": "1"})
    view = await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert isinstance(view, CallView)
    assert (view.state, view.outcome, view.sent, view.error) == ("awaiting_external", None, "yes", None)
    await later(app, clock, 6)
    assert (await until(app, lost.call_id, "settled")).output == {"ref": "found"}


@pytest.mark.parametrize(("tool", "state"), [("book", "awaiting_reconciliation"), ("look", "settled")])
async def test_what_nobody_can_ask_about_is_not_waited_for(app: App, stage: Stage, tool: str, state: str) -> None:
    stage.then(tool, accepts, accepts)
    view = await app.call(tool, {"ref": "1"})
    assert view.state == state
    assert view.error is not None
    if tool == "book":
        assert "probe" in view.error.message


async def test_while_it_waits_it_stands_in_the_way_of_its_like(app: App, stage: Stage) -> None:
    view = await accepted(app, stage)
    other = await app.call("probed", {"ref": "2"})
    assert other.error is not None
    assert (other.state, other.error.code, other.error.details["call_id"]) == ("refused", "ambiguous", view.call_id)


async def test_a_cancel_says_that_it_may_still_happen(app: App, stage: Stage, clock: HandClock) -> None:
    view = await accepted(app, stage)
    asked_to_stop = await app.runtime.cancel(app.local, call_id=view.call_id)
    assert isinstance(asked_to_stop, CallView)
    assert (asked_to_stop.state, asked_to_stop.cancel_requested_at is not None) == ("awaiting_external", True)
    assert asked_to_stop.next is not None
    assert "may still happen" in asked_to_stop.next.text
    stage.then("probe", found)
    await later(app, clock, 6)
    assert (await until(app, view.call_id, "settled")).outcome == "success"


async def test_a_hold_stops_no_question(app: App, stage: Stage, clock: HandClock) -> None:
    view = await accepted(app, stage)
    await app.runtime.holding.hold("all", "", by="os:me")
    stage.then("probe", found)
    await later(app, clock, 6)
    assert (await until(app, view.call_id, "settled")).outcome == "success"


async def test_a_person_may_say_how_it_ended(app: App, stage: Stage) -> None:
    view = await accepted(app, stage)
    done = await say(app, view.call_id, "happened")
    assert isinstance(done, CallView)
    assert (done.state, done.outcome) == ("settled", "success")


async def test_one_process_asks_at_a_time(open_: OpenApp, stage: Stage, clock: HandClock) -> None:
    first, second = await open_(), await open_()
    view = await accepted(first, stage)
    begun, go = stage.hold("probe")
    await later(first, clock, 6)
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    for app in (first, second):
        await app.runtime._sweeper.sweep()  # pyright: ignore[reportPrivateUsage] (a whole pass, now)
    assert stage.count("probe") == 1
    at, call_id = clock.now(), view.call_id or ""
    assert [due.call_id for due in await second.ledger.record(lambda: list_polls_due(at))] == []
    late = at + 3_600 * SECOND
    owner_id = second.ledger.owner_id
    assert await second.ledger.record(lambda: claim_poll(call_id, owner_id, late, late + 1)) is None
    go.set()
    assert len(await answered(first, call_id, 1)) == 3
    stage.then("probe", found)
    await later(second, clock, 30)
    assert (await until(second, call_id, "settled")).outcome == "success"


async def test_a_wait_goes_on_in_another_process(open_: OpenApp, stage: Stage, clock: HandClock) -> None:
    first = await open_()
    view = await accepted(first, stage)
    await first.runtime.stop(0)
    second = await open_()
    still = await until(second, view.call_id, "awaiting_external")
    assert still.outcome is None
    stage.then("probe", found)
    await later(second, clock, 6)
    assert (await until(second, view.call_id, "settled")).outcome == "success"
    assert stage.count("probed") == 1


async def test_a_signal_has_the_far_side_asked_and_settles_nothing_itself(
    app: App, stage: Stage, clock: HandClock
) -> None:
    view = await accepted(app, stage)
    stage.then("probe", pending, found)
    told = await app.runtime.signals.signal(view.call_id or "")
    assert told.wire() == {"signalled": [{"call_id": view.call_id, "step": None, "tool": "probed"}]}
    assert (await until(app, view.call_id, "awaiting_external")).outcome is None
    await later(app, clock, 0)
    await answered(app, view.call_id, 1)
    assert (await until(app, view.call_id, "awaiting_external")).outcome is None
    await app.runtime.signals.signal(view.call_id or "")
    await later(app, clock, 0)
    assert (await until(app, view.call_id, "settled")).outcome == "success"


async def test_a_signal_while_the_far_side_is_asked_has_it_asked_once_more(
    app: App, stage: Stage, clock: HandClock
) -> None:
    view = await accepted(app, stage)
    go = asyncio.Event()
    stage.held.append(go)
    begun = asyncio.Event()

    async def slowly(_: Call) -> Probe:
        begun.set()
        await go.wait()
        return Probe.pending()

    stage.then("probe", slowly, found)
    await later(app, clock, 6)
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    clock.pass_(1)
    assert not (await app.runtime.signals.signal(view.call_id or "")).is_error
    go.set()
    assert (await until(app, view.call_id, "settled")).outcome == "success"
    assert stage.count("probe") == 2


async def test_a_signal_to_what_does_not_wait_is_refused(app: App, stage: Stage) -> None:
    done = await app.call("book", {"ref": "1"})
    told = await app.runtime.signals.signal(done.call_id or "")
    unknown = await app.runtime.signals.signal("call_nobody")
    assert told.error is not None
    assert unknown.error is not None
    assert (told.error.code, unknown.error.code) == ("version_conflict", "not_found")
    assert "settled" in told.error.message
