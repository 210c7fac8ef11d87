"""DUR-05: a stop in order leaves nothing behind that looks as if somebody still worked on it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kit.served import Served
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
GRACE_S = 0.5
LATE_S = 1.5
"""What the stop may take beyond the grace, as the documentation says."""


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop.new(tmp_path, head={"server": f"grace_s = {GRACE_S}"})


@asynccontextmanager
async def busy(shop: Workshop) -> AsyncGenerator[tuple[Served, asyncio.Task[Any]]]:
    """A server with a long read and a write in flight; the write has had its effect and waits for its answer."""
    shop.world.arm("w", hold="after")
    async with shop.serve() as served:
        assert (await served.call("kit_echo", {"value": 1}))["error"] is None
        read = asyncio.create_task(served.call("kit_sleep", {"seconds": 50}))
        write = asyncio.create_task(served.call("kit_write_on", {"ref": "w"}))
        await shop.world.reached("sleep", "asked")
        await shop.world.reached("w", "done")
        yield served, write
        for task in (read, write):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


def state_of(shop: Workshop, tool: str) -> tuple[Any, ...]:
    (row,) = shop.book.calls(f"tool = '{tool}'")
    return row["state"], row["outcome"], row["sent"]


async def restarted_and_listed(shop: Workshop) -> None:
    """After a restart nothing is under way, the read was interrupted, the write done or unknown, nothing ran again."""
    async with shop.open() as app:
        overview = await shop.overview(app)
    assert shop.book.under_way() == []
    assert {row["state"] for row in overview["calls"]} <= {"settled", "awaiting_reconciliation"}
    assert state_of(shop, "kit_sleep") == ("settled", "retryable_failure", "unknown")
    assert state_of(shop, "kit_write_on") in {
        ("settled", "success", "yes"),
        ("awaiting_reconciliation", "ambiguous", "unknown"),
    }
    assert shop.world.count("w") == 1
    assert shop.world.marks("w").count("asked") == 1
    assert shop.world.marks("sleep") == ["asked"]


async def refused(served: Served) -> None:
    """New calls are refused from some moment on, and from then on all of them."""
    async with asyncio.timeout(GRACE_S + LATE_S):
        while True:
            view = await served.call("kit_echo", {"value": 1})
            if view["error"] is not None:
                break
    assert (view["error"]["code"], view["sent"]) == ("unavailable", "no")
    assert (await served.call("kit_echo", {"value": 1}))["error"]["code"] == "unavailable"


@pytest.mark.promise("DUR-05")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_one_signal_refuses_new_calls_lets_those_in_flight_end_and_leaves_the_rest_as_unknown(
    shop: Workshop, number: signal.Signals
) -> None:
    async with busy(shop) as (served, _):
        served.terminate(number)
        await refused(served)
        assert await served.ended(GRACE_S + LATE_S + 1) == 0
    await restarted_and_listed(shop)
    assert state_of(shop, "kit_write_on")[0] == "awaiting_reconciliation"


@pytest.mark.promise("DUR-05")
async def test_what_ends_within_the_grace_is_answered_and_settled(tmp_path: Path) -> None:
    shop = Workshop.new(tmp_path, head={"server": "grace_s = 4"})
    async with busy(shop) as (served, write):
        served.close_input()
        shop.world.release("w")
        assert (await write)["outcome"] == "success"
        assert await served.ended() == 0
    await restarted_and_listed(shop)
    assert state_of(shop, "kit_write_on") == ("settled", "success", "yes")


@pytest.mark.promise("DUR-05")
async def test_a_second_signal_ends_the_process_at_once_with_130(tmp_path: Path) -> None:
    shop = Workshop.new(tmp_path, head={"server": "grace_s = 60"})
    async with busy(shop) as (served, _):
        served.terminate()
        await refused(served)
        served.terminate()
        assert await served.ended() == 130
    await restarted_and_listed(shop)


@pytest.mark.promise("DUR-05")
async def test_the_end_of_stdin_stops_as_a_signal_does(shop: Workshop) -> None:
    async with busy(shop) as (served, _):
        served.close_input()
        assert await served.ended(GRACE_S + LATE_S + 1) == 0
    await restarted_and_listed(shop)
