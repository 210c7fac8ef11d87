"""DUR-03: another process holds the ledger while a server starts; what a killed one left is not left for ever."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.process import Started
from tests.kit.served import serving
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
REFS = [f"r{n}" for n in range(5)]


async def interrupted(shop: Workshop) -> None:
    """Five dispatched calls whose server was killed."""
    for ref in REFS:
        shop.world.arm(ref, hold="before")
    async with shop.serve() as served:
        calls = [asyncio.create_task(served.call("kit_write_on", {"ref": ref})) for ref in REFS]
        for ref in REFS:
            await shop.world.reached(ref, "asked")
        await served.kill()
        for call in calls:
            call.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await call


async def kept_out_once(shop: Workshop, process: Started, limit_s: float = 20) -> None:
    """Wait until a starting server has opened the ledger's file, was kept out, let go of it, and opens it anew."""
    ends = asyncio.get_running_loop().time() + limit_s
    for opens in (True, False, True):
        while has_open(process.pid, shop.ledger) is not opens:
            assert asyncio.get_running_loop().time() < ends, f"the server does not try again: {opens}"
            await asyncio.sleep(0.01)


def has_open(pid: int, path: Path) -> bool:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if descriptor.readlink() == path:
                return True
    return False


@pytest.mark.promise("DUR-03")
async def test_a_server_that_is_kept_out_of_the_ledger_keeps_trying_and_then_settles_what_was_left(
    shop: Workshop,
) -> None:
    await interrupted(shop)
    async with shop.started("serve", "--config", str(shop.config)) as process:
        with shop.book.held("BEGIN EXCLUSIVE"):
            await kept_out_once(shop, process)
            assert process.returncode is None
        async with serving(process, shop.log) as served:
            unresolved = (await served.base("status"))["unresolved"]
            assert sorted(row["state"] for row in unresolved) == ["awaiting_reconciliation"] * 5
            assert shop.book.under_way() == []
        assert await process.ended() == 0
    assert [shop.world.count(ref) for ref in REFS] == [0] * 5
