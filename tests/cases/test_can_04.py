"""CAN-04: one budget of attempts and time, the contract's; what W was asked is exactly what the ledger has."""

from __future__ import annotations

import pytest

from counterfoil.runtime.retry import time_budget
from tests.kit.bench import Bench, bench
from tests.kit.clock import SetClock
from tests.kit.seat import View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
MICROSECOND = 1_000_000


def asked(at: Bench, ref: str) -> list[str]:
    """Each request that reached W."""
    return [mark for mark in at.world.marks(ref) if mark.startswith("asked")]


async def same_count(at: Bench, view: View, ref: str) -> int:
    """How many requests there were, which the ledger and the view say too."""
    assert await at.attempts(view["call_id"]) == len(asked(at, ref)) == view["attempts"]
    return len(asked(at, ref))


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize(
    ("tool", "attempts"),
    [("retry_read", 3), ("retry_look", 3), ("retry_write", 1), ("retry_write_idem", 3)],
)
async def test_a_far_side_that_always_fails_is_asked_as_often_as_the_contract_says(
    shop: Workshop, tool: str, attempts: int
) -> None:
    shop.world.arm("r", status=503)
    async with bench(shop) as at:
        view = await at.seat.call(tool, {"ref": "r"}, wait_s=20)
        assert (view["state"], view["outcome"]) == ("settled", "retryable_failure")
        assert view["error"]["retryable"] is True
        assert await same_count(at, view, "r") == attempts


@pytest.mark.promise("CAN-04")
async def test_each_attempt_of_a_keyed_write_carries_the_same_key(shop: Workshop) -> None:
    shop.world.arm("r", status=503)
    async with bench(shop) as at:
        view = await at.seat.call("retry_write_idem", {"ref": "r"}, wait_s=20)
        assert await same_count(at, view, "r") == 3
        assert len(set(asked(at, "r"))) == 1
        assert asked(at, "r")[0].startswith("asked:act_")


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize("tool", ["retry_read", "retry_look", "retry_write", "retry_write_idem"])
@pytest.mark.parametrize("status", [400, 401, 422])
async def test_a_refusal_of_the_far_side_is_never_tried_again(shop: Workshop, tool: str, status: int) -> None:
    shop.world.arm("r", status=status)
    async with bench(shop) as at:
        view = await at.seat.call(tool, {"ref": "r"}, wait_s=20)
        assert (view["outcome"], view["error"]["retryable"]) == ("permanent_failure", False)
        assert await same_count(at, view, "r") == 1


@pytest.mark.promise("CAN-04")
async def test_a_far_side_that_wants_to_be_left_alone_is_left_alone_that_long(shop: Workshop) -> None:
    shop.world.arm("r", status=429, after_s=60)
    async with bench(shop, server='visibility = "deferred"\ngrace_s = 0') as at:
        view = await at.seat.call("retry_look", {"ref": "r"}, wait_s=0.5)
        assert (view["state"], view["outcome"], view["sent"], view["attempts"]) == ("queued", None, "no", 1)
        retried = next(event for event in await at.events(view["call_id"]) if event["type"] == "retried")
        assert retried["not_before"] >= retried["at"] + 60 * MICROSECOND
        stopped = await at.seat.ask("cancel", call_id=view["call_id"])
        assert (stopped["state"], stopped["error"]["code"]) == ("settled", "cancelled")
        assert len(asked(at, "r")) == 1


@pytest.mark.promise("CAN-04")
async def test_a_wish_beyond_the_budget_of_time_ends_the_call_and_is_passed_on(shop: Workshop) -> None:
    shop.world.arm("r", status=429, after_s=10_000)
    async with bench(shop) as at:
        view = await at.seat.call("retry_look", {"ref": "r"}, wait_s=20)
        assert (view["state"], view["outcome"]) == ("settled", "retryable_failure")
        assert view["error"]["details"]["retry_after_s"] == 10_000
        assert await same_count(at, view, "r") == 1


@pytest.mark.promise("CAN-04")
async def test_no_attempt_starts_with_less_than_the_least_time_left(shop: Workshop) -> None:
    shop.world.arm("r", status=503)
    async with bench(shop) as at:
        view = await at.seat.call("retry_short", {"ref": "r"}, wait_s=20)
        assert await same_count(at, view, "r") == 1


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize(("jump", "attempts"), [(0.0, 3), (0.9, 3), (1.0, 1), (2.0, 1)])
async def test_nothing_more_is_tried_when_the_one_budget_of_time_is_spent(
    shop: Workshop, jump: float, attempts: int
) -> None:
    """The clock jumps by a part of the budget while the second attempt is waited for."""
    shop.world.arm("r", status=503)
    clock = SetClock()
    async with bench(shop, clock=clock) as at:
        entry = at.app.catalogue.get("retry_look")
        assert entry is not None
        budget = time_budget(entry.contract.retry, entry.contract.limits.timeout_s)
        at.parts.chance = Jumping(clock, budget * jump)
        view = await at.seat.call("retry_look", {"ref": "r"}, wait_s=20)
        assert await same_count(at, view, "r") == attempts


class Jumping:
    """The chance of the jitter, which is asked for after each failed attempt; time jumps when it is first asked."""

    def __init__(self, clock: SetClock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    def __call__(self) -> float:
        self._clock.ahead_s += self._seconds
        self._seconds = 0.0
        return 0.0


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize(("chance", "waits"), [(0.0, (0.01, 0.02)), (0.5, (0.02, 0.04)), (1.0, (0.03, 0.06))])
async def test_waits_grow_and_are_spread_by_chance(shop: Workshop, chance: float, waits: tuple[float, float]) -> None:
    shop.world.arm("r", status=503)
    async with bench(shop, clock=SetClock()) as at:
        at.parts.chance = lambda: chance
        view = await at.seat.call("retry_look", {"ref": "r"}, wait_s=20)
        retried = [event for event in await at.events(view["call_id"]) if event["type"] == "retried"]
        assert [(event["not_before"] - event["at"]) / MICROSECOND for event in retried] == pytest.approx(waits)
