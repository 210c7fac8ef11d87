"""Decisions and cancellations through an open application: what is carried out, and what is not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from counterfoil.runtime.deciding import Decider
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage
from tests.runtime.talk import CAROL, approve, proposal, until

pytestmark = pytest.mark.anyio


async def test_an_approved_call_is_carried_on_whoever_listens(app: App, stage: Stage) -> None:
    asked = await app.call("refund", {"ref": "1"})
    assert (asked.state, asked.outcome, asked.error, asked.sent) == ("awaiting_approval", None, None, "no")
    assert stage.calls == []
    await approve(app, asked)
    done = await until(app, asked.call_id, "settled")
    assert (done.outcome, done.sent, done.output) == ("success", "yes", {"ref": "1"})
    assert (await proposal(app, asked)).row.state == "consumed"
    assert stage.effects == [("refund", "1")]


async def test_asking_again_while_a_person_decides_joins_the_one_proposal(app: App) -> None:
    asked = await app.call("refund", {"ref": "1"})
    again = await app.call("refund", {"ref": "1"}, idempotency_key="k")
    assert again.call_id == asked.call_id
    assert again.replayed
    other = await app.call("refund", {"ref": "1"}, idempotency_key="another")
    assert other.call_id != asked.call_id


async def test_a_rejected_call_is_refused_and_sends_nothing(app: App, stage: Stage) -> None:
    asked = await app.call("refund", {"ref": "1"})
    await approve(app, asked, "reject")
    done = await until(app, asked.call_id, "refused")
    assert done.error is not None
    assert (done.outcome, done.sent, done.error.code) == ("denied", "no", "approval_rejected")
    assert stage.calls == []


async def test_an_undecided_call_expires(app: App, clock: HandClock) -> None:
    asked = await app.call("refund", {"ref": "1"})
    clock.pass_(86_401)
    done = await until(app, asked.call_id, "refused")
    assert done.error is not None
    assert done.error.code == "approval_expired"


async def test_a_decision_that_was_not_carried_out_in_time_needs_a_fresh_one_that_says_why(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    cli = await open_(role="cli")  # it decides, and carries nothing on
    asked = await cli.call("refund", {"ref": "1"})
    first = await proposal(cli, asked)
    await approve(cli, asked)
    clock.pass_(901)
    app = await open_()
    waiting = await until(app, asked.call_id, "awaiting_approval")
    fresh = await proposal(app, waiting)
    assert fresh.approval_id != first.approval_id
    view = await app.runtime.status(app.local, call_id=asked.call_id)
    assert isinstance(view, CallView)
    assert "the decision was not carried out in its window" in str(view.extra["events"])
    assert stage.calls == []
    await approve(app, waiting)
    assert (await until(app, asked.call_id, "settled")).outcome == "success"


async def test_only_those_whom_the_rule_names_decide(open_: OpenApp) -> None:
    rule = """
[[policy]]
id = "named"
tool = "refund"
verdict = "approve"
approvers = ["os:dora"]
"""
    app = await open_(more=rule)
    asked = await app.call("refund", {"ref": "1"})
    refused = await approve(app, asked)
    assert refused.error.code == "denied"
    await approve(app, asked, decider=Decider("os:dora", "same_user", "cli"))
    assert (await until(app, asked.call_id, "settled")).outcome == "success"


@pytest.mark.parametrize("decider", [CAROL, Decider("me", "token", "http"), Decider("dora", "client_attested", "mcp")])
async def test_a_second_person_is_another_one_whose_identity_is_proven(open_: OpenApp, decider: Decider) -> None:
    rule = '[[policy]]\nid = "two"\ntool = "refund"\nverdict = "approve"\nassurance = "second_person"'
    app = await open_(more=rule)
    alone = await app.call("refund", {"ref": "0"})  # whose requester is nobody in particular
    assert (await approve(app, alone, decider=Decider("dora", "token", "http"))).error.code == "denied"
    asked = await app.call("refund", {"ref": "1"}, principal=replace(app.local, proof="token"))
    assert (await approve(app, asked, decider=decider)).error.code == "denied"
    assert (await approve(app, asked, decider=Decider("dora", "token", "http"))).error is None


async def test_a_call_cancelled_before_it_is_sent_settles_as_cancelled(app: App, stage: Stage) -> None:
    asked = await app.call("refund", {"ref": "1"})
    done = await app.runtime.cancel(app.local, call_id=asked.call_id, reason="no longer")
    assert isinstance(done, CallView)
    assert done.error is not None
    assert (done.state, done.sent, done.error.code) == ("settled", "no", "cancelled")
    assert (await proposal(app, asked)).row.state == "revoked"
    assert (await approve(app, asked)).error.code == "approval_invalid"
    assert stage.calls == []


async def test_a_running_write_is_followed_to_its_end_though_cancelled(app: App, stage: Stage) -> None:
    begun, go = stage.hold("book")
    view = asyncio.ensure_future(app.call("book", {"ref": "1"}))
    await begun.wait()
    call_id = next(iter(app.runtime._parts.cases))  # pyright: ignore[reportPrivateUsage] (not told yet)
    flagged = await app.runtime.cancel(app.local, call_id=call_id)
    assert isinstance(flagged, CallView)
    assert flagged.cancel_requested_at is not None
    go.set()
    assert (await view).outcome == "success"


async def test_the_guard_stops_a_cancelled_call_before_its_effect(app: App, stage: Stage) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def guarded(call: Any) -> None:
        begun.set()
        await go.wait()
        await call.guard()

    stage.then("book", guarded)
    view = asyncio.ensure_future(app.call("book", {"ref": "1"}))
    await begun.wait()
    call_id = next(iter(app.runtime._parts.cases))  # pyright: ignore[reportPrivateUsage] (not told yet)
    await app.runtime.cancel(app.local, call_id=call_id)
    go.set()
    done = await view
    assert done.error is not None
    assert (done.state, done.outcome, done.sent, done.error.code) == ("settled", "permanent_failure", "no", "cancelled")
    assert stage.effects == []


async def test_a_cancelled_read_is_not_tried_again(app: App, stage: Stage) -> None:
    begun, _ = stage.hold("look")
    view = asyncio.ensure_future(app.call("look", {"ref": "1"}))
    await begun.wait()
    call_id = next(iter(app.runtime._parts.cases))  # pyright: ignore[reportPrivateUsage] (not told yet)
    await app.runtime.cancel(app.local, call_id=call_id)
    done = await view
    assert done.error is not None
    assert (done.state, done.error.code) == ("settled", "tool_failed")
    assert stage.count("look") == 1
