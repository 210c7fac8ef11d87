"""The power fails: the log ends anywhere, with or without rubbish after it, and the ledger is opened again."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from counterfoil.ledger import migrations, owners
from counterfoil.ledger.chain import Head, append
from counterfoil.ledger.events import EventType
from counterfoil.ledger.sql import Fact
from counterfoil.ledger.verify import verify_database
from counterfoil.ledger.writer import Writer

pytestmark = pytest.mark.anyio
_FRAME = 24 + 4096


def both(n: int) -> Fact[None]:
    """State and event in one fact."""
    yield from append(Head.new(f"run-{n:04}"), tenant="t", call_id=None, type=EventType.QUEUED, at=n, data={})
    yield from owners.register(f"own-{n:04}", "host", 1, n)


async def test_nothing_acknowledged_is_lost_and_state_and_event_stay_together(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    log = tmp_path / "ledger.db-wal"

    def connect() -> sqlite3.Connection:
        connection = migrations.connect(path, now=1)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    writer = await Writer.open(path, connect)
    acknowledged: list[int] = []  # the log's size when fact n was answered
    for n in range(60):
        await writer.record(partial(both, n))
        acknowledged.append(log.stat().st_size)
    for name in ("ledger.db", "ledger.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / f"kept-{name}")
    await writer.close()

    chance = random.Random(7)
    size = acknowledged[-1]
    whole = [32 + frame * _FRAME for frame in range((size - 32) // _FRAME + 1)]
    torn = [chance.randrange(size) for _ in range(40)]
    written = (tmp_path / "kept-ledger.db-wal").read_bytes()
    for n, length in enumerate((*whole[::3], *torn)):
        rubbish = chance.randbytes(chance.randrange(2 * _FRAME)) if n % 2 else b""
        there = recovered(tmp_path, written[:length] + rubbish)
        least = sum(at <= length for at in acknowledged)
        assert there >= least, f"cut at {length}: {least} were acknowledged, {there} are there"


def recovered(folder: Path, log: bytes) -> int:
    """How many facts are there after a start on what the disk kept."""
    crashed = folder / "crashed"
    shutil.rmtree(crashed, ignore_errors=True)
    crashed.mkdir()
    path = crashed / "ledger.db"
    shutil.copy(folder / "kept-ledger.db", path)
    (crashed / "ledger.db-wal").write_bytes(log)
    with closing(migrations.connect(path, now=2)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        runs = [run for (run,) in connection.execute("SELECT run_id FROM events ORDER BY run_id")]
        rows = [own for (own,) in connection.execute("SELECT owner_id FROM owners ORDER BY owner_id")]
    assert runs == [f"run-{n:04}" for n in range(len(runs))]
    assert [row.removeprefix("own-") for row in rows] == [run.removeprefix("run-") for run in runs]
    assert verify_database(path).ok
    return len(runs)
