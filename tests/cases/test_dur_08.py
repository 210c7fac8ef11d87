"""DUR-08: wall clocks jump and zones differ; expiry is an instant in UTC, leases and time-outs go by another clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterfoil.runtime.deciding import Decider
from counterfoil.server.app import App
from tests.kit.clock import START, SetClock
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
ME = Decider("os:tester", "same_user", "cli")
VALID_S = 600


@pytest.fixture(autouse=True)
def _far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop.new(tmp_path, head={"approvals": f"valid_s = {VALID_S}"})


async def proposed(app: App, ref: str) -> str:
    """A call that waits for a decision; the approval's name."""
    view = await app.call("kit_delete", {"ref": ref}, wait_s=0)
    assert view.approval is not None
    return str(view.approval["approval_id"])


async def shown(app: App, approval_id: str) -> dict[str, Any]:
    return (await app.runtime.confirm(app.local, approval_id=approval_id)).wire()


async def decided(app: App, approval_id: str) -> dict[str, Any]:
    return (await app.runtime.decide(approval_id, "approve", decider=ME)).wire()


async def swept(shop: Workshop, times: int = 3) -> None:
    """Wait until a server has beaten, and so swept, this many times more."""
    beats = "SELECT sum(beat) AS beats FROM owners"
    until = shop.book.rows(beats)[0]["beats"] + times
    await shop.world.until(lambda: shop.book.rows(beats)[0]["beats"] >= until, "nobody beats")


@pytest.mark.promise("DUR-08")
async def test_an_approval_that_is_valid_ten_minutes_is_valid_at_nine_and_not_at_eleven(shop: Workshop) -> None:
    clock = SetClock()
    async with shop.open(clock=clock, role="cli") as app:
        early, late = await proposed(app, "early"), await proposed(app, "late")
        wire = await shown(app, early)
        assert wire["requested_at"] == "2026-03-01T12:00:00.000000Z"
        assert wire["expires_at"] == "2026-03-01T12:10:00.000000Z"
        clock.at = START + timedelta(minutes=9)
        assert (await shown(app, late))["state"] == "pending"
        assert (await decided(app, early))["state"] == "approved"
        clock.at = START + timedelta(minutes=11)
        refused = await decided(app, late)
        assert refused["error"]["code"] == "approval_invalid"
        assert refused["state"] == "expired"
        assert refused["decided"] is None
    assert shop.book.call(refused["call_id"])["state"] == "refused"
    assert shop.world.count("late") == 0


@pytest.mark.promise("DUR-08")
async def test_a_clock_that_is_set_back_two_hours_revives_no_expired_approval(shop: Workshop) -> None:
    clock = SetClock()
    async with shop.open(clock=clock) as app:
        gone = await proposed(app, "gone")
        clock.at = START + timedelta(minutes=11)
        await swept(shop)
        assert (await shown(app, gone))["state"] == "expired"
        clock.at = START - timedelta(hours=2)
        await swept(shop)
        assert (await shown(app, gone))["state"] == "expired"
        assert (await decided(app, gone))["error"]["code"] == "approval_invalid"
    async with shop.open(clock=SetClock(START - timedelta(hours=2))) as app:
        await swept(shop)
        assert (await shown(app, gone))["state"] == "expired"
    assert shop.world.count("gone") == 0


@pytest.mark.promise("DUR-08")
async def test_a_decision_that_was_not_carried_out_in_its_window_is_not_revived_by_a_clock_set_back(
    tmp_path: Path,
) -> None:
    shop = Workshop.new(tmp_path, head={"approvals": f"valid_s = {VALID_S}\nexecute_within_s = 60"})
    clock = SetClock()
    async with shop.open(clock=clock, role="cli") as app:
        approval_id = await proposed(app, "r")
        assert (await decided(app, approval_id))["state"] == "approved"
    clock.at = START + timedelta(minutes=5)
    async with shop.open(clock=clock) as app:
        await swept(shop)
        row = shop.book.calls("tool = 'kit_delete'")[0]
        assert row["state"] == "awaiting_approval"
        clock.at = START
        await swept(shop)
    assert shop.book.call(row["call_id"])["state"] == "awaiting_approval"
    assert shop.world.count("r") == 0


@pytest.mark.promise("DUR-08")
@pytest.mark.parametrize("jump", [timedelta(hours=2), timedelta(hours=-2)], ids=["forward", "back"])
async def test_a_jump_of_the_wall_clock_neither_lapses_a_lease_nor_times_a_tool_out(
    shop: Workshop, jump: timedelta
) -> None:
    shop.world.arm("r", hold="after")
    ours, theirs = SetClock(), SetClock()
    async with shop.open(clock=ours) as app, shop.open(clock=theirs):
        waiting = asyncio.create_task(app.call("kit_write_on", {"ref": "r"}))
        await shop.world.reached("r", "done")
        ours.at += jump
        await swept(shop, 4)
        theirs.at += jump
        await swept(shop, 4)
        assert not waiting.done()
        (row,) = shop.book.calls()
        assert row["state"] == "dispatched"
        assert shop.book.rows("SELECT * FROM owners WHERE lapsed_at IS NOT NULL") == []
        shop.world.release("r")
        view = await waiting
    assert (view.outcome, view.attempts) == ("success", 1)
    assert shop.book.history(row["call_id"])[:2] == ["dispatched", "settled"]
    assert shop.world.count("r") == 1


@pytest.mark.promise("DUR-08")
async def test_no_duration_in_the_ledger_is_negative_when_the_clock_was_set_back_meanwhile(shop: Workshop) -> None:
    clock = SetClock()
    shop.world.arm("r", hold="before")
    async with shop.open(clock=clock) as app:
        approval_id = await proposed(app, "d")
        waiting = asyncio.create_task(app.call("kit_write_on", {"ref": "r"}))
        await shop.world.reached("r", "asked")
        clock.at = START - timedelta(hours=2)
        shop.world.release("r")
        view = await waiting
        await decided(app, approval_id)
        await app.runtime.status(app.local, call_id=shop.book.calls("tool = 'kit_delete'")[0]["call_id"], wait_s=20)
    assert view.evidence is not None
    assert instant(str(view.evidence["settled_at"])) >= instant(str(view.evidence["sent_at"]))
    spans = [
        ("calls", "settled_at", "dispatched_at"),
        ("calls", "dispatched_at", "created_at"),
        ("calls", "delivered_at", "settled_at"),
        ("attempts", "settled_at", "dispatched_at"),
        ("attempts", "handler_ended_at", "dispatched_at"),
        ("approvals", "decided_at", "requested_at"),
        ("approvals", "execute_until", "decided_at"),
    ]
    for table, later, earlier in spans:
        assert shop.book.rows(f"SELECT * FROM {table} WHERE {later} < {earlier}") == [], (table, later, earlier)  # noqa: S608 (names above)
    assert (await shop.command("ledger", "check")).code == 0


@pytest.mark.promise("DUR-08")
async def test_every_process_tells_the_same_instant_whatever_its_zone(shop: Workshop) -> None:
    async with shop.serve(env={"TZ": "Asia/Kolkata"}) as served:
        view = await served.call("kit_delete", {"ref": "r"}, wait_s=0)
        said = await served.base("confirm", approval_id=view["approval"]["approval_id"])
    assert instant(said["expires_at"]) - instant(said["requested_at"]) == timedelta(seconds=VALID_S)
    assert said["expires_at"].endswith("Z")
    for zone in ("UTC", "America/St_Johns"):
        (listed,) = (await shop.command("approvals", "list", env={"TZ": zone})).answer["approvals"]
        assert listed["expires_at"] == said["expires_at"]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
