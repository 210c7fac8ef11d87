"""Backups, the invariants' check and the counts, beside a ledger that is in use."""

from __future__ import annotations

import asyncio
import io
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.ledger import sealing
from counterfoil.ledger.backup import backup
from counterfoil.ledger.chain import Head, append
from counterfoil.ledger.check import check
from counterfoil.ledger.errors import CannotRecordError, DamagedLedgerError
from counterfoil.ledger.events import EventType
from counterfoil.ledger.export import export
from counterfoil.ledger.measure import CALL, INSERT_CALL
from counterfoil.ledger.sql import Fact, Sql, change
from counterfoil.ledger.stats import OldestOpen, stats
from counterfoil.ledger.store import Ledger, LedgerSettings
from counterfoil.ledger.tables import attempts, keys, leases
from counterfoil.ledger.verify import verify_database

pytestmark = pytest.mark.anyio

INSERT_ATTEMPT, INSERT_LEASE, INSERT_KEY = Sql(attempts.insert()), Sql(leases.insert()), Sql(keys.insert())


def dispatch(ledger: Ledger, call_id: str, created_at: int) -> Fact[None]:
    """A call that was sent, with all that belongs to it."""
    head = yield from append(Head.new(call_id), tenant="t", call_id=call_id, type=EventType.DISPATCHED, at=1, data={})
    row = {**CALL, "args_payload": f"pay_{call_id}", "created_at": created_at}
    row["resources"] = f'["order:{call_id}"]'
    yield from change(INSERT_CALL, **row, call_id=call_id, run_id=call_id, head=head.hash, owner_id="own")
    yield from change(INSERT_ATTEMPT, call_id=call_id, generation=1, owner_id="own", dispatched_at=1)
    yield from change(INSERT_LEASE, tenant="local", resource=f"order:{call_id}", call_id=call_id, shared=0, taken_at=1)
    yield from change(
        INSERT_KEY,
        tenant="local",
        subject="me",
        tool="refund",
        key=call_id,
        call_id=call_id,
        args_digest=CALL["args_digest"],
        bound_at=1,
    )
    content = os.urandom(sealing.CHUNK_BYTES + 1)
    yield from sealing.store(
        ledger.seal(payload_id=f"pay_{call_id}", call_id=call_id, tenant="t", kind="arguments", content=content)
    )


@pytest.fixture
async def two_calls(ledger: Ledger) -> Ledger:
    async with asyncio.timeout(30):
        await ledger.record(lambda: dispatch(ledger, "call_1", 20))
        await ledger.record(lambda: dispatch(ledger, "call_2", 10))
    return ledger


async def test_a_sound_ledger_has_no_breach(two_calls: Ledger) -> None:
    assert check(two_calls.path).breaches == ()


_SETTLE = "UPDATE calls SET state = 'settled', outcome = 'success', settled_at = 5 WHERE call_id = 'call_1'"


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("DELETE FROM attempts WHERE call_id = 'call_1'", "dispatch_recorded"),
        ("UPDATE calls SET state = 'settled' WHERE call_id = 'call_1'; DELETE FROM leases", "settlement_recorded"),
        ("UPDATE calls SET outcome = 'success' WHERE call_id = 'call_1'", "open_has_no_outcome"),
        ("UPDATE attempts SET generation = 2 WHERE call_id = 'call_1'", "generations_gapless"),
        ("UPDATE attempts SET call_id = 'nobody' WHERE call_id = 'call_1'", "attempt_has_call"),
        ("UPDATE calls SET head = zeroblob(32) WHERE call_id = 'call_1'", "head_recorded"),
        ("DELETE FROM events WHERE run_id = 'call_1'", "head_recorded"),
        ("UPDATE calls SET seq = 0 WHERE call_id = 'call_1'", "head_is_last"),
        (_SETTLE, "lease_has_open_call"),
        ("UPDATE leases SET call_id = 'nobody' WHERE call_id = 'call_1'", "lease_has_open_call"),
        ("UPDATE keys SET call_id = 'nobody' WHERE call_id = 'call_1'", "key_has_call"),
        ("UPDATE calls SET args_payload = 'nothing' WHERE call_id = 'call_1'", "arguments_kept"),
        ("UPDATE calls SET output_payload = 'nothing' WHERE call_id = 'call_1'", "output_kept"),
        ("DELETE FROM payload_chunks WHERE payload_id = 'pay_call_1'", "payload_whole"),
        (f'{_SETTLE}; UPDATE attempts SET late = \'{{"outcome": "permanent_failure", "sent": "no"}}\'', "late_agrees"),  # noqa: S608 (constants)
        ("ALTER TABLE budgets RENAME TO hidden", "schema"),
    ],
)
async def test_each_broken_invariant_is_named_with_its_row(two_calls: Ledger, sql: str, rule: str) -> None:
    with closing(sqlite3.connect(two_calls.path)) as hand:
        hand.executescript(sql)
    report = check(two_calls.path)
    assert not report.ok
    assert rule in {breach.rule for breach in report.breaches}
    rows = {breach.row for breach in report.breaches if breach.rule == rule}
    assert rows <= {"call_1", "call_1/1", "nobody", "pay_call_1", ""}


async def test_late_evidence_that_agrees_or_does_not_know_is_no_breach(two_calls: Ledger) -> None:
    for late in ('{"outcome": "success", "sent": "yes"}', '{"outcome": "ambiguous", "sent": "unknown"}'):
        with closing(sqlite3.connect(two_calls.path, isolation_level=None)) as hand:
            hand.execute(_SETTLE)
            hand.execute("DELETE FROM leases WHERE call_id = 'call_1'")
            hand.execute("UPDATE attempts SET late = ? WHERE call_id = 'call_1'", (late,))
        assert check(two_calls.path).breaches == ()


async def test_counts_are_those_of_the_tables(two_calls: Ledger) -> None:
    found = stats(two_calls.path)
    assert found.calls == {"dispatched": 2}
    assert (found.events, found.runs, found.payloads, found.owners) == (2, 2, 2, 1)
    assert found.payload_bytes == 2 * (sealing.CHUNK_BYTES + 1)
    assert found.oldest_open == OldestOpen("call_2", "dispatched", 10)
    assert found.wal_bytes > 0
    assert found.database_bytes > 0


async def test_an_empty_ledger_has_counts_too(ledger: Ledger) -> None:
    found = stats(ledger.path)
    assert (found.calls, found.events, found.payload_bytes, found.oldest_open) == ({}, 0, 0, None)


@pytest.mark.parametrize("read", [stats, lambda path: export(path, io.BytesIO())], ids=["stats", "export"])
async def test_a_file_that_is_no_ledger_is_said_to_be_damaged(read: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    for content in (b"no database at all, but long enough to be looked at " * 20, b""):
        file.write_bytes(content)
        with pytest.raises(DamagedLedgerError, match=re.escape(str(file))):
            read(file)
    with pytest.raises(CannotRecordError, match="cannot be read"):
        read(tmp_path / "absent.db")


async def test_a_backup_is_whole_private_and_opens_as_a_ledger(two_calls: Ledger, tmp_path: Path) -> None:
    target = tmp_path / "kept" / "copy.db"
    target.parent.mkdir()
    assert backup(two_calls.path, target) == target.stat().st_size
    assert [entry.name for entry in target.parent.iterdir()] == ["copy.db"]
    assert target.stat().st_mode & 0o777 == 0o600 or os.name != "posix"
    assert verify_database(target).ok
    target.with_name("copy.db.key").write_bytes(two_calls.path.with_name("ledger.db.key").read_bytes())
    async with asyncio.timeout(30):
        copy = await Ledger.open(LedgerSettings(path=target, clock=lambda: 1))
        assert len(await copy.open_payload("pay_call_1")) == sealing.CHUNK_BYTES + 1
        await copy.close()


async def test_a_backup_never_replaces_a_file_and_leaves_no_half(two_calls: Ledger, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(FileExistsError):
        backup(two_calls.path, target)
    assert target.read_text() == "precious"
    with pytest.raises(CannotRecordError):
        backup(tmp_path / "absent.db", tmp_path / "other.db")
    assert not [entry for entry in tmp_path.iterdir() if "other" in entry.name]
