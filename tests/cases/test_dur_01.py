"""DUR-01: a killed server leaves three kinds of calls, and a restart tells them apart without sending anything.

Three single calls on one resource stand for the three steps of a plan.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.kit.served import Served
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


def step(name: str) -> dict[str, Any]:
    return {"ref": name, "on": "order"}


async def killed_in_the_second_step(shop: Workshop, mark: str) -> None:
    """The first call is done; the server is killed when the second one came as far as `mark`."""
    async with shop.serve() as served:
        assert (await served.call("kit_write_on", step("s1")))["outcome"] == "success"
        second = asyncio.create_task(served.call("kit_write_on", step("s2")))
        await shop.world.reached("s2", mark)
        await served.kill()
        second.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await second


async def unresolved(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await served.base("status"))["unresolved"]
    return found


@pytest.mark.promise("DUR-01")
async def test_a_call_killed_before_its_dispatch_was_recorded_was_never_sent_and_may_run(shop: Workshop) -> None:
    async with shop.open():  # makes the file, so that it can be held
        pass
    async with shop.serve() as served:
        assert (await served.call("kit_write_on", step("s1")))["outcome"] == "success"
        with shop.book.held():
            second = asyncio.create_task(served.call("kit_write_on", step("s2")))
            await shop.world.reached("s2", "admitted")
            await served.kill()
        second.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await second
    assert [row["state"] for row in shop.book.calls()] == ["settled"]
    assert shop.world.count("s2") == 0
    async with shop.serve() as served:
        assert await unresolved(served) == []
        again = await served.call("kit_write_on", step("s2"))
        third = await served.call("kit_write_on", step("s3"))
    assert (again["outcome"], again["replayed"], third["outcome"]) == ("success", False, "success")
    assert [shop.world.count(name) for name in ("s1", "s2", "s3")] == [1, 1, 1]


@pytest.mark.promise("DUR-01")
@pytest.mark.parametrize(
    ("hold", "mark", "effects", "word"),
    [
        pytest.param("before", "asked", 0, ("not_happened", "--then", "retry"), id="before the effect"),
        pytest.param("after", "done", 1, ("happened",), id="after the effect"),
    ],
)
async def test_a_call_killed_after_its_dispatch_is_unknown_and_parks_what_follows_until_a_person_decides(
    shop: Workshop, hold: str, mark: str, effects: int, word: tuple[str, ...]
) -> None:
    shop.world.arm("s2", hold=hold)
    await killed_in_the_second_step(shop, mark)
    shop.world.release("s2")

    async with shop.serve() as served:
        (lost,) = await unresolved(served)
        assert (lost["state"], lost["outcome"], lost["sent"]) == ("awaiting_reconciliation", "ambiguous", "unknown")
        third = await served.call("kit_write_on", step("s3"))
        assert third["error"]["code"] == "ambiguous"
        assert third["error"]["details"]["call_id"] == lost["call_id"]
        settled = await served.base("reconcile", call_id=lost["call_id"])
        assert settled["state"] == "awaiting_reconciliation"
    before = shop.book.history(lost["call_id"])
    async with shop.open() as app:
        assert len((await shop.overview(app))["unresolved"]) == 1
    assert shop.book.history(lost["call_id"]) == before
    assert [shop.world.count(name) for name in ("s1", "s2", "s3")] == [1, effects, 0]

    said = await shop.command("reconcile", lost["call_id"], "--resolution", *word, "--evidence", "looked into W")
    assert said.code == 0, said.stderr
    async with shop.open() as app:
        third_now = await app.call("kit_write_on", step("s3"))
    assert third_now.outcome == "success"
    assert [shop.world.count(name) for name in ("s1", "s2", "s3")] == [1, 1, 1]
