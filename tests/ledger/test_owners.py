"""Who works on the ledger: beats, lapses by compare-and-set, and a watch that no clock can fool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from counterfoil.ledger import owners
from counterfoil.ledger.owners import Watch
from counterfoil.ledger.store import Ledger

pytestmark = pytest.mark.anyio
OpenLedger = Callable[..., Awaitable[Ledger]]


async def test_an_owner_that_beat_since_is_not_declared_gone(ledger: Ledger) -> None:
    async with asyncio.timeout(30):
        await ledger.record(lambda: owners.register("own_b", "host", 1, 10))
        assert await ledger.record(lambda: owners.beat("own_b", 11))
        assert not await ledger.record(lambda: owners.declare_lapsed("own_b", 0, 12))
        assert await ledger.record(lambda: owners.declare_lapsed("own_b", 1, 12))
        assert not await ledger.record(lambda: owners.declare_lapsed("own_b", 1, 13))
        assert not await ledger.record(lambda: owners.beat("own_b", 14))
        assert not await ledger.record(lambda: owners.end("own_b", 15))
        row = await ledger.reads.look(lambda: owners.get("own_b"))
    assert row == owners.Owner("own_b", "host", 1, 10, 1, 12, None)


async def test_an_orderly_end_leaves_no_owner_and_no_lock(open_ledger: OpenLedger) -> None:
    async with asyncio.timeout(30):
        first = await open_ledger()
        second = await open_ledger()
        assert {owner.owner_id for owner in await second.reads.look(owners.living)} == {first.owner_id, second.owner_id}
        assert not second.presence.is_dead(first.owner_id)
        await first.close()
        assert [owner.owner_id for owner in await second.reads.look(owners.living)] == [second.owner_id]
        assert [entry.name for entry in second.path.with_name("ledger.db.owners").iterdir()] == [
            f"{second.owner_id}.lock"
        ]


async def test_nothing_known_is_no_proof_of_death(ledger: Ledger) -> None:
    assert not ledger.presence.is_dead("own_never_seen")
    assert not ledger.presence.is_dead(ledger.owner_id)


async def test_a_wall_clock_that_jumps_lapses_nobody(open_ledger: OpenLedger, clock: Callable[[], int]) -> None:
    async with asyncio.timeout(30):
        first = await open_ledger()
        second = await open_ledger()
        for hours in (-2, 2, 48):
            clock.now += hours * 3_600_000_000  # type: ignore[attr-defined]
            assert await first.lapse_absent(1.0) == []
            assert await second.record(lambda: owners.beat(second.owner_id, second.now()))


def test_an_owner_that_stands_still_for_a_lease_is_named_with_its_count() -> None:
    watch = Watch(lease_s=8)
    assert watch.look([("a", 1), ("b", 1)], 0) == []
    for now, beat in ((2, 2), (4, 3), (6, 4)):
        assert watch.look([("a", 1), ("b", beat)], now) == []
    assert watch.look([("a", 1), ("b", 5)], 8) == [("a", 1)]


def test_a_watcher_that_was_stopped_itself_must_look_again() -> None:
    watch = Watch(lease_s=8)
    watch.look([("a", 1)], 0)
    assert watch.look([("a", 1)], 1_000_000) == []  # the machine slept; so did the other
    assert watch.look([("a", 2)], 1_000_001) == []
    assert watch.look([("a", 2)], 999_000) == []  # even a monotonic clock that runs backwards credits nothing
    for now in (999_002, 999_004, 999_006):
        assert watch.look([("a", 2)], now) == []
    assert watch.look([("a", 2)], 999_008) == [("a", 2)]


def test_an_owner_that_comes_back_starts_anew() -> None:
    watch = Watch(lease_s=4)
    watch.look([("a", 1)], 0)
    watch.look([], 2)
    for now in (3, 4, 5, 6):
        assert watch.look([("a", 1)], now) == []
    assert watch.look([("a", 1)], 7) == [("a", 1)]
