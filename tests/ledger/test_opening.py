"""Opening: addresses, places, rights, versions, damage, locks; each refusal by its own error."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.ledger import migrations
from counterfoil.ledger.errors import (
    CannotRecordError,
    DamagedLedgerError,
    LedgerLockedError,
    NewerLedgerError,
    UnsupportedLedgerError,
)
from counterfoil.ledger.place import locate, refuse_unsafe
from counterfoil.ledger.store import Ledger
from counterfoil.ledger.verify import verify_database

pytestmark = pytest.mark.anyio
OpenLedger = Callable[..., Awaitable[Ledger]]

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:40 / /mnt/share rw,relatime shared:1 - nfs4 server:/export rw
31 27 0:41 / /mnt/smb\\040share rw,relatime - cifs //server/share rw
32 27 0:42 / /mnt/bucket rw,relatime - fuse.s3fs s3fs rw
33 30 0:43 / /mnt/share/local rw,relatime - ext4 /dev/vdb rw
34 27 0:44 / /mnt/overlay rw,relatime - fuse.fuse-overlayfs fuse-overlayfs rw
"""


def test_an_address_names_a_file_relative_to_the_configuration_or_absolute(tmp_path: Path) -> None:
    assert locate("sqlite+aiosqlite:///rel.db", tmp_path) == tmp_path / "rel.db"
    assert locate("sqlite+aiosqlite:///sub/../rel.db", tmp_path) == tmp_path / "rel.db"
    if os.name == "posix":
        assert locate("sqlite+aiosqlite:////abs/x.db", tmp_path) == Path("/abs/x.db")


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("postgresql+asyncpg://host/db", "not available yet in this version"),
        ("mysql://host/db", "expected sqlite"),
        ("sqlite+aiosqlite://", "expected sqlite"),
        ("sqlite+aiosqlite:///", "must name a file"),
        ("sqlite+aiosqlite:///:memory:", "must name a file"),
        ("sqlite+aiosqlite:///x.db?mode=ro", "no options"),
    ],
)
async def test_other_addresses_are_refused_by_name(open_ledger: OpenLedger, url: str, what: str) -> None:
    with pytest.raises(UnsupportedLedgerError, match=what):
        await open_ledger(url=url)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_network_and_fuse_file_systems_are_refused() -> None:
    for folder, kind in (("share", "nfs4"), ("smb share/deep", "cifs"), ("bucket", "fuse.s3fs")):
        with pytest.raises(UnsupportedLedgerError, match=f"{kind} file system; the ledger needs a local disk"):
            refuse_unsafe(Path("/mnt") / folder / "ledger.db", MOUNTS)
    for folder in ("share/local", "overlay", "sharelike", ""):
        refuse_unsafe(Path("/mnt") / folder / "ledger.db", MOUNTS)


@pytest.mark.parametrize(
    "folder",
    ["Dropbox", "Dropbox (Work)", "OneDrive", "OneDrive - Firm", "Google Drive", "GoogleDrive", "com~apple~CloudDocs"],
)  # fmt: skip
def test_synchronised_folders_are_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(UnsupportedLedgerError, match="synchronised folder"):
        refuse_unsafe(tmp_path / folder / "deep" / "ledger.db")


@pytest.mark.skipif(os.name != "posix", reason="rights are POSIX's")
async def test_what_is_made_can_be_read_by_its_owner_alone(open_ledger: OpenLedger, tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        ledger = await open_ledger(url="sqlite+aiosqlite:///data/ledger.db")
    finally:
        os.umask(previous)
    made = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert {path.name for path in made} >= {"data", "ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.key"}
    assert {path for path in made if path.stat().st_mode & 0o077} == set()
    await ledger.close()
    (tmp_path / "data" / "ledger.db").chmod(0o644)
    await open_ledger(url="sqlite+aiosqlite:///data/ledger.db")
    assert (tmp_path / "data" / "ledger.db").stat().st_mode & 0o777 == 0o600


async def test_a_newer_ledger_is_left_as_it_is(open_ledger: OpenLedger, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    migrations.connect(path, now=1).close()
    with closing(sqlite3.connect(path)) as hand:
        hand.execute(f"PRAGMA user_version = {migrations.LATEST + 1}")
    before = path.read_bytes()
    with pytest.raises(NewerLedgerError, match="install the version that wrote it"):
        await open_ledger()
    assert path.read_bytes() == before
    assert not (tmp_path / "ledger.db.key").exists()


async def test_what_is_no_ledger_is_left_as_it_is(open_ledger: OpenLedger, tmp_path: Path) -> None:
    rubbish, other = tmp_path / "rubbish.db", tmp_path / "other.db"
    rubbish.write_bytes(b"no database at all " * 300)
    with closing(sqlite3.connect(other)) as hand:
        hand.execute("CREATE TABLE theirs (k TEXT)")
    for path in (rubbish, other):
        before = path.read_bytes()
        with pytest.raises(DamagedLedgerError):
            await open_ledger(url=None, path=path)
        assert path.read_bytes() == before


async def test_a_ledger_that_stays_locked_is_refused_and_no_thread_is_left(
    open_ledger: OpenLedger, tmp_path: Path
) -> None:
    (tmp_path / "ledger.db").touch()
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as hand:
        hand.execute("BEGIN EXCLUSIVE")
        async with asyncio.timeout(30):
            with pytest.raises(LedgerLockedError, match="locked by another process"):
                await open_ledger(busy_s=0.05)
    migrations.connect(tmp_path / "ledger.db", now=1).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as hand:
        hand.execute("BEGIN IMMEDIATE")
        async with asyncio.timeout(30):
            with pytest.raises(LedgerLockedError, match="locked by another process"):
                await open_ledger(busy_s=0.05)
    for thread in threading.enumerate():
        if thread.name == "counterfoil-ledger-writer":
            await asyncio.to_thread(thread.join, 20)
            assert not thread.is_alive()
    await open_ledger()


async def test_a_ledger_opens_again_and_again_as_the_same_one(open_ledger: OpenLedger, tmp_path: Path) -> None:
    ids: set[str] = set()
    for durability in ("full", "normal"):
        ledger = await open_ledger(durability=durability)
        await ledger.close()
        await ledger.close()
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as hand:
            ids.add(migrations.read_meta(hand)["ledger_id"])
            assert hand.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert len(ids) == 1


def test_an_older_ledger_is_copied_beside_before_it_is_brought_forward(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    migrations.connect(path, now=1, steps=()).close()
    one, two = ("ALTER TABLE calls ADD COLUMN one TEXT",), ("ALTER TABLE calls ADD COLUMN two TEXT",)
    assert migrations.migrate(path, now=2, steps=(one,)) == (1, 2)
    assert migrations.migrate(path, now=3, steps=(one, two)) == (2, 3)
    assert migrations.migrate(path, now=4, steps=(one, two)) == (3, 3)
    copies = sorted(entry.name for entry in tmp_path.iterdir() if "before" in entry.name)
    assert copies == ["ledger.db.schema1-before2", "ledger.db.schema2-before3"]
    assert verify_database(tmp_path / copies[0]).ok


def test_a_step_that_fails_leaves_the_older_ledger_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    migrations.connect(path, now=1, steps=()).close()
    with pytest.raises(CannotRecordError):
        migrations.migrate(path, now=2, steps=(("CREATE TABLE more (k TEXT)", "no such statement"),))
    with closing(migrations.connect(path, now=3, steps=())) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'more'").fetchone() == (0,)
    with pytest.raises(CannotRecordError, match="no ledger at"):
        migrations.migrate(tmp_path / "absent.db", now=1)


BEFORE_COMPENSATIONS = (
    "DROP TABLE undos",
    "ALTER TABLE runs DROP COLUMN verdict", "DROP INDEX steps_reused", "ALTER TABLE steps DROP COLUMN reused",
    "ALTER TABLE approvals DROP COLUMN preview", "ALTER TABLE calls DROP COLUMN external_until",
    "ALTER TABLE runs DROP COLUMN stood_still",
    "DROP INDEX budgets_ended", "ALTER TABLE budgets DROP COLUMN ends_at",
)  # fmt: skip
BEFORE_DECISIONS = (
    *BEFORE_COMPENSATIONS,
    "DROP TABLE places", "DROP TABLE declines", "DROP TABLE holds",
    "ALTER TABLE calls DROP COLUMN proof", "ALTER TABLE runs DROP COLUMN proof",
    "ALTER TABLE approvals DROP COLUMN proof", "ALTER TABLE approvals DROP COLUMN stalled_at",
)  # fmt: skip
BEFORE_RUNS = (
    *BEFORE_DECISIONS,
    "DROP TABLE plans", "DROP TABLE runs", "DROP TABLE steps", "DROP INDEX calls_step", "DROP TABLE outbox",
    "CREATE TABLE outbox (id INTEGER PRIMARY KEY, topic VARCHAR, call_id VARCHAR, at BIGINT)",
    "INSERT INTO outbox (topic, call_id, at) VALUES ('decided', 'call_1', 1)",
)  # fmt: skip
BEFORE_CHARGES = (*BEFORE_RUNS, "ALTER TABLE calls DROP COLUMN charges")


@pytest.mark.parametrize(
    ("version", "undo"), [(1, BEFORE_CHARGES), (2, BEFORE_RUNS), (3, BEFORE_DECISIONS), (4, BEFORE_COMPENSATIONS)]
)
def test_an_older_ledger_is_brought_forward_to_the_schema_of_a_fresh_one(
    tmp_path: Path, version: int, undo: tuple[str, ...]
) -> None:
    path = tmp_path / "ledger.db"
    migrations.connect(path, now=1, steps=migrations.STEPS[: version - 1]).close()
    with closing(sqlite3.connect(path)) as hand:
        for statement in undo:
            hand.execute(statement)
        hand.commit()
    with closing(migrations.connect(path, now=2)) as connection:
        assert migrations.is_whole(connection)
        assert connection.execute("PRAGMA user_version").fetchone() == (migrations.LATEST,)
        old = _schema(connection)
    with closing(migrations.connect(tmp_path / "fresh.db", now=2)) as connection:
        assert old == _schema(connection)


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Every column and every index, in whatever order they came to be."""
    columns = connection.execute(
        'SELECT m.name, c.name, c.type, c."notnull", c.pk FROM sqlite_master AS m, pragma_table_info(m.name) AS c'
        " WHERE m.type = 'table'"
    )
    indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    return {*columns, *((name, " ".join(sql.split())) for name, sql in indexes)}
