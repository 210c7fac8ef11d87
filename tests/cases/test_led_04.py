"""LED-04: a reader that never lets go makes the write-ahead log grow; that is seen, and it shrinks once it lets go."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing, suppress
from typing import Any

import pytest

from counterfoil.ledger.checkpoint import LogLimits
from counterfoil.server.app import App
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
AT_ONCE = 32
MOST_CALLS = 20_000
SMALL = "x" * 8_000


async def health(shop: Workshop, app: App) -> dict[str, Any]:
    found: dict[str, Any] = (await shop.overview(app))["server"]
    return found


async def calls_until_degraded(shop: Workshop, app: App) -> int:
    """Small calls, many at once, until health says that the log is too large; how many."""
    made = 0
    while (await health(shop, app))["ledger"] == "ok":
        assert made < MOST_CALLS
        views = await asyncio.gather(*(app.call("kit_echo", {"value": SMALL}) for _ in range(AT_ONCE * 4)))
        assert {view.outcome for view in views} == {"success"}
        made += len(views)
    return made


@pytest.mark.promise("LED-04")
async def test_a_log_that_a_reader_holds_open_is_seen_to_grow_and_falls_below_its_bound_after_it(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop.open() as app:
        waiting = await app.call("kit_delete", {"ref": "d"}, wait_s=0)
        assert waiting.call_id is not None
        follower = asyncio.create_task(app.runtime.status(app.local, call_id=waiting.call_id, wait_s=45))
        with closing(sqlite3.connect(shop.ledger, isolation_level=None)) as reader, caplog.at_level(logging.WARNING):
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM events").fetchone()
            made = await calls_until_degraded(shop, app)
            now = await health(shop, app)
            assert (now["ledger"], now["reason"]) == ("degraded", "wal_too_large")
            assert now["wal_bytes"] > LogLimits().bound_bytes
            await shop.world.until(lambda: "write-ahead log is" in caplog.text, "no warning appeared")
            reader.execute("ROLLBACK")
        assert made >= 1_000
        wal = shop.ledger.with_name(f"{shop.ledger.name}-wal")
        await shop.world.until(lambda: wal.stat().st_size < LogLimits().bound_bytes, "the log stays large")
        after = await health(shop, app)
        assert (after["ledger"], after["reason"]) == ("ok", None)
        assert after["wal_bytes"] < LogLimits().bound_bytes
        assert not follower.done()
        follower.cancel()
        with suppress(asyncio.CancelledError):
            await follower
