"""APR-05, APR-STOP: however close a redemption and whatever ends it come, one of them was first, and the ledger says
which: one dispatch for each decision, and none after its proposal was revoked or expired, its call cancelled or held.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest

from counterfoil.ledger.approving import expire
from counterfoil.server.app import App
from tests.kit.bench import OPERATOR, furnish
from tests.kit.clock import START, SetClock
from tests.kit.seat import View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
TIMES: Final = 20
FEW: Final = 8
COMMITS: Final = (
    ("Approvals.decide", "before"),
    ("Approvals.carry_out", "before"),
    ("Sender._t1", "before"),
    ("Sender._t1", "after"),
    ("Carrier._settle", "before"),
)
"""What a redemption records, by who records it, and where a stop may come."""
TOO_LATE: Final = frozenset(COMMITS[3:])
STOPS: Final = ("revoke", "cancel", "hold")
ENDED: Final = frozenset({"settled", "refused", "awaiting_approval"})
VALID_S: Final = 600
WITHIN_S: Final = 60
LIMIT_S: Final = 20.0
LEASE_S: Final = 20
"""Long, so that a machine with much to do loses no owner: that is another test's."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One call that waits for a person."""

    ref: str
    call_id: str
    approval_id: str


@asynccontextmanager
async def opened(shop: Workshop, *clocks: SetClock | None, role: str = "serve") -> AsyncGenerator[list[App]]:
    """Several runtimes on one ledger, each with a writer and an owner of its own."""
    server = 'visibility = "deferred"\ngrace_s = 0.2'
    furnish(
        shop,
        server=server,
        approvals=f"automation = true\npending_max = 100\nvalid_s = {VALID_S}\nexecute_within_s = {WITHIN_S}",
    )
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(shop.open(clock=clock, role=role)) for clock in clocks]


async def asked(app: App, *refs: str) -> list[Asked]:
    found: list[Asked] = []
    for ref in refs:
        view: View = (await app.call("kit_delete", {"ref": ref}, wait_s=0)).wire()
        found.append(Asked(ref, view["call_id"], view["approval"]["approval_id"]))
    return found


async def approve(app: App, one: Asked) -> View:
    view: View = (await app.runtime.decide(one.approval_id, "approve", decider=OPERATOR)).wire()
    return view


async def at_rest(shop: Workshop, calls: list[Asked]) -> dict[str, str]:
    """The state of each call once none of them moves any more."""

    def states() -> dict[str, str]:
        return {one.ref: shop.book.call(one.call_id)["state"] for one in calls}

    await shop.world.until(lambda: set(states().values()) <= ENDED, "some calls still move")
    return states()


def moments(shop: Workshop, one: Asked, *types: str) -> list[int]:
    """Where events of these types stand in the order in which the ledger was written."""
    rows = shop.book.rows("SELECT id, type FROM events WHERE call_id = ? ORDER BY id", one.call_id)
    return [row["id"] for row in rows if row["type"] in types]


def is_stalled(shop: Workshop, one: Asked) -> bool:
    return bool(moments(shop, one, "stalled"))


def require_order(shop: Workshop, calls: list[Asked]) -> list[Asked]:
    """What was sent: once, within its times, and never after whatever ends a proposal or holds its tool."""
    sent: list[Asked] = []
    for one in calls:
        dispatched = moments(shop, one, "dispatched")
        assert len(dispatched) == shop.world.count(one.ref) <= 1, one
        ended = moments(shop, one, "revoked", "expired", "cancelled")
        if not dispatched:
            continue
        assert ended == [], (one, dispatched, ended)
        assert held_at(shop, dispatched[0]) is False, one
        (row,) = shop.book.rows("SELECT * FROM approvals WHERE approval_id = ?", one.approval_id)
        at = shop.book.call(one.call_id)["dispatched_at"]
        assert row["decided_at"] <= row["expires_at"]
        assert row["decided_at"] <= at <= row["execute_until"]
        sent.append(one)
    return sent


def held_at(shop: Workshop, moment: int) -> bool:
    rows = shop.book.rows("SELECT type FROM events WHERE type IN ('held', 'released') AND id < ? ORDER BY id", moment)
    return bool(rows) and rows[-1]["type"] == "held"


async def stop(app: App, how: str, one: Asked) -> View:
    """End what was approved, by one of the ways, from a runtime that does not carry it on itself."""
    if how == "revoke":
        view: View = (await app.runtime.revoke(one.approval_id, decider=OPERATOR)).wire()
    elif how == "cancel":
        view = (await app.runtime.cancel(app.local, call_id=one.call_id)).wire()
    else:
        view = (await app.runtime.holding.hold("tool", "kit_delete", by=OPERATOR.by)).wire()
    return view


async def together(rng: random.Random, *works: Callable[[], Awaitable[Any]]) -> list[Any]:
    """All at once, each after a few turns of the loop."""

    async def late(work: Callable[[], Awaitable[Any]], turns: int) -> Any:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await work()

    return list(await asyncio.gather(*(late(work, rng.randrange(30)) for work in works)))


@pytest.mark.promise("APR-05")
async def test_twenty_redemptions_of_one_decision_by_four_runtimes_are_one_dispatch(shop: Workshop) -> None:
    async with opened(shop, None, role="cli") as (desk,):
        calls = await asked(desk, *(f"r{number}" for number in range(FEW)))
        for one in calls:
            assert (await approve(desk, one))["state"] == "approved"
    async with opened(shop, *[None] * 4) as servers:
        for seed, one in enumerate(calls):
            rng = random.Random(seed)
            redeem = [partial(app.runtime.follow, app.local, one.call_id, LIMIT_S) for app in servers * 5]
            views = [view.wire() for view in await together(rng, *redeem)]
            assert {view["outcome"] for view in views} == {"success"}
    assert [one.ref for one in require_order(shop, calls)] == [one.ref for one in calls]


@pytest.mark.promise("APR-05")
async def test_two_servers_that_start_at_once_send_what_was_decided_before_once(shop: Workshop) -> None:
    async with opened(shop, None, role="cli") as (desk,):
        calls = await asked(desk, *(f"r{number}" for number in range(FEW)))
        await asyncio.gather(*(approve(desk, one) for one in calls))
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(shop.serve()) for _ in range(2)))
        await at_rest(shop, calls)
    assert len(require_order(shop, calls)) == FEW


@pytest.mark.promise("APR-05")
async def test_of_a_yes_and_a_no_at_two_runtimes_one_counts_and_the_other_is_on_record(shop: Workshop) -> None:
    async with opened(shop, None, None) as (first, second):
        calls = await asked(first, *(f"r{number}" for number in range(TIMES)))
        for seed, one in enumerate(calls):
            words = [(first, "approve"), (second, "reject")]
            say = [partial(app.runtime.decide, one.approval_id, word, decider=OPERATOR) for app, word in words]
            told = [view.wire() for view in await together(random.Random(seed), *say)]
            (lost,) = [app for view, (app, _) in zip(told, words, strict=True) if view.get("error")]
            agreed = lost is second
            states = await at_rest(shop, [one])
            assert states[one.ref] == ("settled" if agreed else "refused")
            assert (len(moments(shop, one, "decided")), shop.world.count(one.ref)) == (1, int(agreed))
            assert await refused(shop, lost, one) == ["approval_invalid"]


async def refused(shop: Workshop, app: App, one: Asked) -> list[str]:
    """The codes of what this runtime refused about a proposal, once all that it noted by now is written."""
    await app.ledger.record(lambda: expire("", 0))
    (row,) = shop.book.rows("SELECT digest FROM approvals WHERE approval_id = ?", one.approval_id)
    found = "SELECT json_extract(body, '$.data.code') AS code FROM events WHERE type = 'refused' AND run_id LIKE ?"
    about = f"{found} AND json_extract(body, '$.data.args_digest') = ?"
    return [one["code"] for one in shop.book.rows(about, f"refusals:{app.ledger.owner_id}:%", row["digest"])]


@pytest.mark.promise("APR-05")
async def test_two_commands_at_once_are_one_decision_and_the_loser_is_told_and_on_record(shop: Workshop) -> None:
    async with opened(shop, None, role="cli") as (desk,):
        (one,) = await asked(desk, "r")
    (row,) = shop.book.rows("SELECT digest FROM approvals")
    words = ("approve", "reject", "revoke")
    ran = await asyncio.gather(
        *(shop.command("approvals", word, one.approval_id, "--digest", row["digest"]) for word in words)
    )
    won = [word for word, said in zip(words, ran, strict=True) if said.code == 0]
    assert won[0:1] in (["approve"], ["reject"], ["revoke"])
    lost = [said.answer["error"]["code"] for said in ran if said.code != 0]
    assert set(lost) == {"approval_invalid"}
    kept = shop.book.rows("SELECT body FROM events WHERE type = 'refused' AND body LIKE ?", f"%{row['digest']}%")
    assert len(kept) == len(lost)


@dataclass
class Between:
    """Records what a runtime records, and once does something just before or after one kind of it."""

    app: App
    moment: tuple[str, str]
    work: Callable[[], Awaitable[object]]
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, fact: Callable[[], Any]) -> Any:
        where, when = self.moment
        meets = not self.done.is_set() and fact.__qualname__.startswith(f"{where}.")
        if meets and when == "before":
            await self.work()
        found = await type(self.app.ledger).record(self.app.ledger, fact)
        if meets and when == "after":
            await self.work()
        if meets:
            self.done.set()
        return found


@pytest.mark.promise("APR-STOP")
@pytest.mark.parametrize("how", STOPS)
async def test_a_stop_at_any_commit_of_a_redemption_is_before_its_dispatch_or_too_late(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async with opened(shop, None) as (server,), opened(shop, None, role="cli") as (other,):
        calls = await asked(server, *(f"r{number}" for number in range(len(COMMITS))))
        for one, moment in zip(calls, COMMITS, strict=True):
            between = Between(server, moment, partial(stop, other, how, one))
            monkeypatch.setattr(server.ledger, "record", between)
            await approve(server, one)
            async with asyncio.timeout(LIMIT_S):
                await between.done.wait()
            if how == "hold" and moment not in TOO_LATE:
                await shop.world.until(partial(is_stalled, shop, one), "the hold is not met")
                assert require_order(shop, [one]) == []
            if how == "hold":
                await other.runtime.holding.release("tool", "kit_delete", by=OPERATOR.by)
            await at_rest(shop, [one])
        sent = {moment for one, moment in zip(calls, COMMITS, strict=True) if require_order(shop, [one])}
    assert sent == (set(COMMITS) if how == "hold" else TOO_LATE)


@pytest.mark.promise("APR-STOP")
@pytest.mark.parametrize("how", ["revoke", "cancel"])
async def test_a_server_and_another_process_that_stops_what_it_takes_up_agree_about_each_call(
    shop: Workshop, how: str
) -> None:
    async with opened(shop, None, role="cli") as (desk,):
        calls = await asked(desk, *(f"r{number}" for number in range(TIMES)))
        for one in calls:
            await approve(desk, one)
        async with shop.started("serve", "--config", str(shop.config)) as server:
            await shop.world.until(lambda: bool(moments(shop, calls[0], "claimed")), "nothing is taken up")
            for one in reversed(calls):  # the server began with the first
                await stop(desk, how, one)
            await at_rest(shop, calls)
            server.close()
            await server.ended()
    require_order(shop, calls)


@pytest.mark.promise("APR-STOP")
async def test_a_decision_and_the_expiry_of_its_proposal_at_once_are_one_of_them(shop: Workshop) -> None:
    late = SetClock(START + timedelta(seconds=VALID_S + 1))
    async with opened(shop, SetClock(), None, role="cli") as (server, _):
        calls = await asked(server, *(f"r{number}" for number in range(TIMES)))
        for seed, one in enumerate(calls):
            gone = partial(server.ledger.record, partial(expire, one.approval_id, late.now()))
            decided, _ = await together(random.Random(seed), partial(approve, server, one), gone)
            ends = moments(shop, one, "decided", "expired")
            assert len(ends) == 1
            assert (decided.get("error") is None) is bool(moments(shop, one, "decided"))


@pytest.mark.promise("APR-STOP")
@pytest.mark.parametrize(("late", "sends"), [(0, True), (1, False)])
async def test_a_window_ends_with_its_last_microsecond(shop: Workshop, late: int, sends: bool) -> None:
    clock = SetClock()
    async with opened(shop, clock, role="cli") as (desk,):
        (one,) = await asked(desk, "r")
        await approve(desk, one)
    clock.at = START + timedelta(seconds=WITHIN_S, microseconds=late)
    async with opened(shop, clock):
        states = await at_rest(shop, [one])
    assert (states["r"], len(require_order(shop, [one]))) == (("settled", 1) if sends else ("awaiting_approval", 0))


@pytest.mark.promise("APR-STOP")
async def test_a_window_that_ends_while_many_are_taken_up_lets_none_be_sent_after_it(shop: Workshop) -> None:
    clock = SetClock()
    async with opened(shop, clock, role="cli") as (desk,):
        calls = await asked(desk, *(f"r{number}" for number in range(TIMES)))
        for one in calls:
            await approve(desk, one)
    async with opened(shop, clock):
        await shop.world.until(lambda: any(shop.world.count(one.ref) for one in calls), "nothing is taken up")
        clock.at = START + timedelta(seconds=WITHIN_S, microseconds=1)
        await at_rest(shop, calls)
    assert require_order(shop, calls)
