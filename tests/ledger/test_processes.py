"""Several processes on one ledger: first starts that race, neighbours that write, owners that die."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counterfoil.ledger import keyring, migrations, owners
from counterfoil.ledger.backup import backup
from counterfoil.ledger.chain import Head, append
from counterfoil.ledger.events import EventType
from counterfoil.ledger.sql import Fact
from counterfoil.ledger.store import Ledger
from counterfoil.ledger.verify import verify_database

pytestmark = pytest.mark.anyio
OpenLedger = Callable[..., Awaitable[Ledger]]

_CHILD = """
import asyncio, json, os, sys, time
from pathlib import Path
from counterfoil.ledger import chain
from counterfoil.ledger.events import EventType
from counterfoil.ledger.store import Ledger, LedgerSettings

path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def fact(n):
    return chain.append(chain.Head.new(f"{name}-{n}"), tenant="t", call_id=None, type=EventType.QUEUED, at=1, data={})

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    ledger = await Ledger.open(LedgerSettings(path=path, clock=lambda: time.time_ns() // 1000, busy_s=30))
    for n in range(count):
        await ledger.record(lambda: fact(n))
    print(json.dumps([ledger.owner_id, ledger.mac("test", b"x")]), flush=True)
    if count == 0:
        sys.stdin.readline()
    await ledger.close()

asyncio.run(main())
"""


def event(head: Head, kind: EventType) -> Fact[Head]:
    return append(head, tenant="t", call_id=None, type=kind, at=1, data={})


class Child:
    """A process that opens the ledger when told; with a count of 0 it stays until told again."""

    def __init__(self, path: Path, name: str, count: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(path), name, str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> int:
        self.process.communicate(timeout=60)
        return self.process.returncode


async def test_first_starts_that_race_share_one_schema_and_one_key(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    children = [Child(path, f"child{n}", 20) for n in range(3)]
    for child in children:
        child.go()
    said = [child.said() for child in children]
    assert [child.end() for child in children] == [0, 0, 0]
    assert len({mac for _, mac in said}) == 1
    assert len({owner for owner, _ in said}) == 3
    report = verify_database(path)
    assert (report.ok, report.events, report.runs) == (True, 60, 60)


async def test_neighbours_write_while_backups_are_taken_and_nobody_meets_a_lock(
    open_ledger: OpenLedger, tmp_path: Path
) -> None:
    ledger = await open_ledger(busy_s=30)
    child = Child(ledger.path, "child", 200)
    child.go()

    async def write(n: int) -> None:
        run_id = f"own-{n}"
        head = await ledger.record(lambda: event(Head.new(run_id), EventType.QUEUED))
        await ledger.record(lambda: event(head, EventType.SETTLED))

    async with asyncio.timeout(55), asyncio.TaskGroup() as group:
        for n in range(100):
            group.create_task(write(n))
        for n in range(3):
            await asyncio.to_thread(backup, ledger.path, tmp_path / f"copy{n}.db")
    await asyncio.to_thread(child.said)
    assert child.end() == 0
    report = verify_database(ledger.path)
    assert (report.ok, report.events, report.runs) == (True, 400, 300)
    assert all(verify_database(tmp_path / f"copy{n}.db").ok for n in range(3))


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
async def test_an_owner_killed_is_declared_at_once_and_a_stopped_one_only_after_its_lease(
    open_ledger: OpenLedger,
) -> None:
    ledger = await open_ledger(lease_s=8)
    killed, stopped = Child(ledger.path, "killed", 0), Child(ledger.path, "stopped", 0)
    killed.go()
    stopped.go()
    killed_id, stopped_id = killed.said()[0], stopped.said()[0]
    killed.process.kill()
    stopped.process.send_signal(signal.SIGSTOP)
    killed.process.wait(30)
    try:
        async with asyncio.timeout(30):
            assert await ledger.lapse_absent(100.0) == [killed_id]
            for now in (102.0, 104.0, 106.0):
                assert await ledger.lapse_absent(now) == []
            assert await ledger.lapse_absent(108.0) == [stopped_id]
            assert await ledger.lapse_absent(110.0) == []
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    stopped.go()
    assert stopped.end() == 0
    assert killed.end() == -signal.SIGKILL
    row = await ledger.reads.look(lambda: owners.get(stopped_id))
    assert row is not None
    assert row.lapsed_at is not None
    assert row.ended_at is None  # a lapse is never taken back
    assert not ledger.path.with_name("ledger.db.owners").joinpath(f"{killed_id}.lock").exists()


async def test_writers_race_to_bring_an_old_ledger_forward(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    migrations.connect(path, now=1, steps=()).close()
    steps = (("ALTER TABLE calls ADD COLUMN later TEXT", "CREATE TABLE later (k TEXT)"),)

    def forward() -> tuple[int, int]:
        return migrations.migrate(path, now=2, steps=steps)

    async with asyncio.timeout(30):
        answers = await asyncio.gather(*(asyncio.to_thread(forward) for _ in range(4)))
    assert {after for _, after in answers} == {2}
    with closing(sqlite3.connect(path)) as connection:
        assert migrations.read_meta(connection)["schema_version"] == "2"
    with closing(sqlite3.connect(tmp_path / "ledger.db.schema1-before2")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)
        assert copy.execute("SELECT count(*) FROM sqlite_master WHERE name = 'later'").fetchone() == (0,)


async def test_key_files_made_at_once_are_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.key"
    async with asyncio.timeout(30):
        rings = await asyncio.gather(*(asyncio.to_thread(keyring.load, path, in_use=False) for _ in range(16)))
    assert len({ring.sealing.secret for ring in rings}) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
