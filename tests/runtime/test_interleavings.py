"""What happens between: requests that leave, two processes on one ledger, limits that many wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.ledger import owners
from counterfoil.ledger.errors import CannotRecordError, Reason
from counterfoil.ledger.queries import RECENT
from counterfoil.registry.request import CallRequest
from counterfoil.server.app import App
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import CAROL, LIMIT_S, until

pytestmark = pytest.mark.anyio


async def test_two_servers_carry_a_decided_call_on_once(open_: OpenApp, stage: Stage) -> None:
    servers = [await open_(), await open_()]
    cli = await open_(role="cli")
    asked = [await cli.call("refund", {"ref": str(number)}) for number in range(4)]
    for view in asked:
        assert view.approval is not None
        await cli.runtime.decide(str(view.approval["approval_id"]), "approve", decider=CAROL)
    for view in asked:
        assert (await until(servers[0], view.call_id, "settled")).outcome == "success"
    assert sorted(stage.effects) == [("refund", str(number)) for number in range(4)]


async def test_a_decision_and_a_cancellation_at_once_leave_one_of_them(app: App, stage: Stage) -> None:
    for number in range(10):
        asked = await app.call("refund", {"ref": str(number)})
        assert asked.approval is not None
        approval_id = str(asked.approval["approval_id"])
        await asyncio.gather(
            app.runtime.decide(approval_id, "approve", decider=CAROL),
            app.runtime.cancel(app.local, call_id=asked.call_id),
        )
        done = await until(app, asked.call_id, "settled")
        happened = ("refund", str(number)) in stage.effects
        assert (done.outcome == "success") is happened
        assert happened or (done.error is not None and done.error.code == "cancelled" and done.sent == "no")


async def test_a_lapsed_server_is_stopped_by_the_guard_and_its_call_stays_with_the_other(
    open_: OpenApp, stage: Stage
) -> None:
    first = await open_()
    begun, go = asyncio.Event(), asyncio.Event()

    async def guarded(call: Any) -> None:
        begun.set()
        await go.wait()
        await call.guard()

    stage.then("book", guarded)
    asked = asyncio.ensure_future(first.call("book", {"ref": "1"}))
    await begun.wait()
    other = await open_()
    (beat,) = [
        one.beat for one in await first.ledger.reads.look(owners.living) if one.owner_id == first.ledger.owner_id
    ]
    lapsed = first.ledger.owner_id
    assert await other.ledger.record(lambda: owners.declare_lapsed(lapsed, beat, other.ledger.now()))
    go.set()
    await asked
    (called,) = stage.calls
    assert called[0] == "book"
    assert stage.effects == []


async def test_a_first_record_whose_answer_was_lost_settles_as_not_sent(
    app: App, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = app.ledger.record

    async def answer_lost(make: Any) -> Any:
        done = await record(make)
        if "dispatch_new" in make.__code__.co_names:
            raise CannotRecordError(Reason.IO, "the answer to the commit was lost")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(app.ledger, "record", answer_lost)
        told = await app.call("book", {"ref": "1"})
    assert told.error is not None
    assert (told.sent, told.error.code) == ("no", "cannot_record")
    async with asyncio.timeout(LIMIT_S):
        while (calls := await app.ledger.reads.fetch(RECENT, tenant="local", subject=app.local.subject)) == [] or (
            calls[0].state == "dispatched"
        ):
            await asyncio.sleep(0.05)
    assert (calls[0].state, calls[0].sent, calls[0].code) == ("settled", "no", "unavailable")
    assert stage.calls == []


async def test_two_requests_do_not_join_the_same_lost_answer(app: App, stage: Stage) -> None:
    request = CallRequest(app.local, "note", {"ref": "1"})
    begun, go = stage.hold("note")
    leaving = asyncio.ensure_future(app.runtime.call(request))
    await begun.wait()
    leaving.cancel()
    await asyncio.wait({leaving})
    go.set()
    both = await asyncio.gather(app.runtime.call(request), app.runtime.call(request))
    assert sorted(view.replayed for view in both) == [False, True]
    assert stage.count("note") == 2


async def test_an_unresolved_call_is_joined_and_not_made_again(app: App, stage: Stage) -> None:
    stage.then("book", lose)
    lost = await app.call("book", {"ref": "1"})
    again = await app.call("book", {"ref": "1"})
    assert (again.call_id, again.state, again.replayed) == (lost.call_id, "awaiting_reconciliation", True)
    assert stage.count("book") == 1


async def test_a_rate_is_not_used_up_by_waiting_for_a_resource(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    begun, go = stage.hold("paced")
    first = asyncio.ensure_future(app.call("paced", {"ref": "1"}))
    await begun.wait()
    waiting = await app.call("paced", {"ref": "1", "n": 2}, wait_s=1.2)
    assert waiting.state == "queued"
    go.set()
    await first
    assert (await until(app, waiting.call_id, "settled", "refused")).outcome == "success"


async def test_unresolved_calls_of_two_servers_are_never_sent_twice_by_reconciling_at_once(
    open_: OpenApp, stage: Stage
) -> None:
    one, two = await open_(), await open_()
    stage.then("keyed", lose)
    lost = await one.call("keyed", {"ref": "1"})
    await asyncio.gather(*(app.runtime.reconcile(app.local, call_id=lost.call_id) for app in (one, two)))
    done = await until(one, lost.call_id, "settled")
    assert (done.outcome, done.attempts, stage.count("keyed")) == ("success", 2, 2)
