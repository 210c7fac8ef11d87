"""What was decided and is kept back by what passes: it stays decided, its window stands still, it goes on by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.ledger.approvals import window_ends
from counterfoil.ledger.queries import APPROVAL
from counterfoil.runtime import path
from counterfoil.runtime.passing import Passing
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App
from tests.runtime.bench import SECOND, HandClock
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import LIMIT_S, approve, say, until

pytestmark = pytest.mark.anyio
SHORT = "[runs]\nauthority_s = 800\n"
ASK = '[[policy]]\nid = "ask"\ntool = "{tool}"\nverdict = "approve"\nassurance = "operator"\n'


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing looks by itself within a test: what goes on does because it was told."""
    monkeypatch.setattr(path, "FIRST_PAUSE_S", 3_600.0)
    monkeypatch.setattr(path, "LONGEST_PAUSE_S", 3_600.0)


@pytest.fixture
def parked(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once a decided call waits for what keeps it back."""
    waits, wait = asyncio.Event(), Passing.wait

    async def noting(passing: Passing, mark: asyncio.Event, seconds: float) -> bool:
        waits.set()
        return await wait(passing, mark, seconds)

    monkeypatch.setattr(Passing, "wait", noting)
    return waits


async def happened(app: App, call_id: str | None) -> list[str]:
    view: dict[str, Any] = (await app.runtime.status(app.local, call_id=call_id)).wire()
    return [event["type"] for event in view["events"]]


async def stalled(app: App, call_id: str | None) -> CallView:
    """The call once it was found to be kept back."""
    async with asyncio.timeout(LIMIT_S):
        while "stalled" not in await happened(app, call_id):
            await asyncio.sleep(0.02)
    return await until(app, call_id, "queued")


def said(view: CallView) -> str:
    assert view.next is not None
    return view.next.text


def approval_of(view: CallView) -> str:
    assert view.approval is not None
    return str(view.approval["approval_id"])


@pytest.mark.usefixtures("told")
async def test_a_lapsed_grant_parks_what_was_decided_until_its_requester_renews_it(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_(more=SHORT)
    asked = await app.call("refund", {"ref": "1"})
    clock.pass_(801)
    await approve(app, asked)
    view = await stalled(app, asked.call_id)
    assert (view.error, view.outcome, view.attempts, stage.calls) == (None, None, 0, [])
    assert view.next is not None
    assert (view.next.tool, view.next.arguments) == ("confirm", {"approval_id": approval_of(asked)})
    assert "authority_expired" in view.next.text
    clock.pass_(5_000)  # its window is 900 s
    await app.runtime.confirm(app.local, approval_id=approval_of(asked))
    done = await until(app, asked.call_id, "settled")
    assert (done.outcome, stage.count("refund")) == ("success", 1)
    assert "grant_renewed" in await happened(app, asked.call_id)


async def test_the_window_stands_still_from_the_moment_in_which_the_grant_lapsed(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    desk = await open_(role="cli", more=SHORT)  # decides, and carries nothing on
    asked = await desk.call("refund", {"ref": "1"})
    lapses = clock.at + 800 * SECOND
    clock.pass_(100)
    await approve(desk, asked)
    clock.pass_(5_000)
    app = await open_(more=SHORT)
    await stalled(app, asked.call_id)
    (row,) = await app.ledger.reads.fetch(APPROVAL, approval_id=approval_of(asked))
    assert row.stalled_at == lapses
    assert row.execute_until is not None
    assert window_ends(row, clock.at) == row.execute_until + clock.at - lapses
    await app.runtime.confirm(app.local, approval_id=approval_of(asked))
    assert (await until(app, asked.call_id, "settled", "awaiting_approval")).outcome == "success"


async def test_a_window_that_ended_before_anybody_met_the_hold_stood_still_too(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    desk = await open_(role="cli")  # decides, and carries nothing on
    asked = await desk.call("refund", {"ref": "1"})
    clock.pass_(10)
    await approve(desk, asked)
    clock.pass_(100)
    await desk.runtime.holding.hold("tool", "refund", by="os:me")
    clock.pass_(2_000)  # its window was 900 s
    app = await open_()
    await stalled(app, asked.call_id)
    await app.runtime.holding.release("tool", "refund", by="os:me")
    assert (await until(app, asked.call_id, "settled", "awaiting_approval")).outcome == "success"
    assert stage.count("refund") == 1


async def test_a_hold_that_came_after_the_window_does_not_bring_it_back(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    desk = await open_(role="cli")
    asked = await desk.call("refund", {"ref": "1"})
    await approve(desk, asked)
    clock.pass_(1_000)
    await desk.runtime.holding.hold("tool", "refund", by="os:me")
    app = await open_()
    async with asyncio.timeout(LIMIT_S):
        while "claimed" not in await happened(app, asked.call_id):
            await asyncio.sleep(0.02)
    await app.runtime.holding.release("tool", "refund", by="os:me")
    assert (await until(app, asked.call_id, "awaiting_approval")).approval != asked.approval
    assert stage.calls == []


@pytest.mark.usefixtures("told")
async def test_what_was_decided_waits_for_an_unresolved_holder_of_its_key_and_goes_on_once_that_is_settled(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_()
    asked = await app.call("refund", {"ref": "1"})
    stage.then("book", lose)
    holder = await app.call("book", {"ref": "1"})
    await approve(app, asked)
    view = await stalled(app, asked.call_id)
    assert view.next is not None
    assert (view.next.tool, view.next.arguments) == ("reconcile", {"call_id": holder.call_id})
    assert stage.count("refund") == 0
    clock.pass_(2_000)
    await say(app, holder.call_id, "happened")
    assert (await until(app, asked.call_id, "settled", "refused", "awaiting_approval")).outcome == "success"
    assert stage.count("refund") == 1


async def test_what_was_decided_waits_for_a_window_of_its_budget(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\ndestructive = 1\n")
    first, second = [await app.call("refund", {"ref": ref}) for ref in "ab"]
    await approve(app, first)
    await until(app, first.call_id, "settled")
    await approve(app, second)
    assert "budget" in said(await stalled(app, second.call_id))
    clock.pass_(3_600)
    assert (await until(app, second.call_id, "settled", "refused", "awaiting_approval")).outcome == "success"
    assert stage.count("refund") == 2


@pytest.mark.usefixtures("told")
async def test_what_is_kept_back_says_who_holds_it_since_when_and_goes_on_at_the_release(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_()
    asked = await app.call("refund", {"ref": "1"})
    await app.runtime.holding.hold("tool", "refund", by="os:alex", reason="wrong prices")
    await approve(app, asked)
    text = said(await stalled(app, asked.call_id))
    assert "os:alex holds tool refund since 2026-" in text
    assert "wrong prices" in text
    await app.runtime.holding.release("tool", "refund", by="os:alex")
    assert (await until(app, asked.call_id, "settled")).outcome == "success"
    assert stage.count("refund") == 1


@pytest.mark.usefixtures("told")
async def test_a_release_by_another_process_is_noticed_by_the_next_sweep(open_: OpenApp, stage: Stage) -> None:
    app, desk = await open_(), await open_(role="cli")
    asked = await app.call("refund", {"ref": "1"})
    await app.runtime.holding.hold("all", "", by="os:me")
    await approve(app, asked)
    await stalled(app, asked.call_id)
    await desk.runtime.holding.release("all", "", by="os:me")
    assert (await until(app, asked.call_id, "settled")).outcome == "success"
    assert stage.count("refund") == 1


@pytest.mark.usefixtures("told")
async def test_what_is_kept_back_is_left_at_once_when_the_server_stops(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    asked = await app.call("refund", {"ref": "1"})
    await app.runtime.holding.hold("all", "", by="os:me")
    await approve(app, asked)
    await stalled(app, asked.call_id)
    async with asyncio.timeout(LIMIT_S):
        assert await app.runtime.stop(LIMIT_S * 10)
    assert (await until(app, asked.call_id, "queued")).attempts == 0
    assert stage.calls == []


@pytest.mark.usefixtures("told")
async def test_no_fresh_proposal_is_made_while_its_call_is_held(
    open_: OpenApp, stage: Stage, parked: asyncio.Event
) -> None:
    desk = await open_(role="cli")
    asked = await desk.call("refund", {"ref": "1"})
    await approve(desk, asked)
    await desk.runtime.holding.hold("tool", "refund", by="os:me")
    app = await open_(more=ASK.format(tool="refund").replace("operator", "second_person"))  # a stronger one is needed
    await asyncio.wait_for(parked.wait(), LIMIT_S)
    assert await app.runtime.approvals() == []
    await app.runtime.holding.release("tool", "refund", by="os:me")
    again = await until(app, asked.call_id, "awaiting_approval")
    assert approval_of(again) != approval_of(asked)
    assert stage.calls == []


async def test_no_fresh_proposal_is_made_while_there_is_no_budget_for_its_call(
    open_: OpenApp, stage: Stage, clock: HandClock, parked: asyncio.Event
) -> None:
    more = "[budgets.tenant]\nwindow_s = 3600\ncalls = 1\n"
    desk = await open_(role="cli", more=more)
    asked = await desk.call("refund", {"ref": "a"})
    await approve(desk, asked)
    clock.pass_(1_000)  # its window is over
    assert (await desk.call("book", {"ref": "b"})).outcome == "success"
    app = await open_(more=more)
    await asyncio.wait_for(parked.wait(), LIMIT_S)
    assert await app.runtime.approvals() == []
    clock.pass_(3_600)
    again = await until(app, asked.call_id, "awaiting_approval")
    assert approval_of(again) != approval_of(asked)
    assert stage.count("refund") == 0


async def test_a_hold_from_before_the_decision_stops_the_window_from_the_decision_on(
    open_: OpenApp, clock: HandClock
) -> None:
    app = await open_()
    asked = await app.call("refund", {"ref": "1"})
    await app.runtime.holding.hold("all", "", by="os:me")
    clock.pass_(500)
    await approve(app, asked)
    await stalled(app, asked.call_id)
    (row,) = await app.ledger.reads.fetch(APPROVAL, approval_id=approval_of(asked))
    assert row.stalled_at == row.decided_at == clock.at


async def lost_before(open_: OpenApp, stage: Stage, more: str) -> tuple[App, CallView]:
    """A decided call whose answer was lost by a server that has ended; and the next server."""
    stage.then("refund", lose)
    first = await open_(more=more)
    asked = await first.call("refund", {"ref": "1"})
    await approve(first, asked)
    await until(first, asked.call_id, "awaiting_reconciliation")
    await first.runtime.stop(1.0)
    await first.ledger.close()
    return await open_(more=more), asked


async def test_a_word_that_has_a_call_sent_again_makes_no_proposal_while_it_is_held(
    open_: OpenApp, stage: Stage
) -> None:
    app, asked = await lost_before(open_, stage, "")
    await app.runtime.holding.hold("tool", "refund", by="os:me")
    kept = (await say(app, asked.call_id, "not_happened", "retry")).wire()
    assert kept["error"]["code"] == "held"
    assert "resolved" not in await happened(app, asked.call_id)
    assert await app.runtime.approvals() == []
    await app.runtime.holding.release("tool", "refund", by="os:me")
    await say(app, asked.call_id, "not_happened", "retry")
    assert len(await app.runtime.approvals()) == 1


async def test_nobody_is_asked_again_about_what_has_no_authority_left(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app, asked = await lost_before(open_, stage, SHORT)
    clock.pass_(900)
    kept = (await say(app, asked.call_id, "not_happened", "retry")).wire()
    assert kept["error"]["code"] == "authority_expired"
    assert await app.runtime.approvals() == []
    await app.runtime.confirm(app.local, approval_id=approval_of(asked))
    await say(app, asked.call_id, "not_happened", "retry")
    assert len(await app.runtime.approvals()) == 1
