"""LED-01: many callers, several processes and the command line on one ledger; nobody is told of a lock."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from counterfoil.ledger.verify import verify_database
from tests.kit.served import Served
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CLIENTS = 12
COMMANDS = (("ledger", "export"), ("ledger", "stats"), ("ledger", "verify"))
ROUNDS = 2
"""Each is an export, statistics, a verification and a backup."""


async def keep_calling(served: Served, name: str, over: asyncio.Event) -> list[dict[str, Any]]:
    """At least ten calls, and more while the command line is at work."""
    views: list[dict[str, Any]] = []
    while len(views) < 10 or not over.is_set():
        n = len(views)
        tool, arguments = ("kit_echo", {"value": n}) if n % 4 else ("kit_write_on", {"ref": f"{name}-{n}"})
        views.append(await served.call(tool, arguments))
    return views


async def keep_asking(shop: Workshop, over: asyncio.Event) -> list[Path]:
    """Rounds of the command line, each with a backup; where the backups are."""
    backups: list[Path] = []
    try:
        for n in range(ROUNDS):
            for command in COMMANDS:
                said = await shop.command(*command)
                assert said.code == 0, said.stderr + said.stdout.decode()[-1000:]
            target = shop.folder / f"backup-{n}.db"
            said = await shop.command("ledger", "backup", str(target))
            assert said.code == 0, said.stderr
            backups.append(target)
    finally:
        over.set()
    return backups


@pytest.mark.promise("LED-01")
async def test_two_busy_servers_and_the_command_line_on_one_ledger_never_meet_a_lock(shop: Workshop) -> None:
    over = asyncio.Event()
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(shop.serve()) for _ in range(2)]
        for served in servers:
            await served.call("kit_echo", {"value": 0})
            await served.call("kit_write_on", {"ref": f"warm-{served.process.pid}"})
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(keep_asking(shop, over))
            calling = [
                group.create_task(keep_calling(served, f"{s}-{n}", over))
                for s, served in enumerate(servers)
                for n in range(CLIENTS)
            ]
    views = [view for task in calling for view in task.result()]
    assert len(views) >= 2 * CLIENTS * 10
    assert {(view["state"], view["outcome"]) for view in views} == {("settled", "success")}
    assert "lock" not in shop.log.read_text().lower()

    writes = [view["call_id"] for view in views if view["tool"] == "kit_write_on"]
    chains: dict[str, list[str]] = {}
    for row in shop.book.rows("SELECT run_id, type FROM events ORDER BY run_id, seq"):
        chains.setdefault(row["run_id"], []).append(row["type"])
    assert all(chains[call_id][:2] == ["dispatched", "settled"] for call_id in writes)
    assert all(chains[view["call_id"]] == ["observed"] for view in views if view["tool"] == "kit_echo")
    assert {shop.world.count(f"{s}-{n}-0") for s in range(2) for n in range(CLIENTS)} == {1}
    for backup in asking.result():
        report = verify_database(backup)
        assert report.ok, report
        assert report.events > 0
    assert (await shop.command("ledger", "check")).code == 0
