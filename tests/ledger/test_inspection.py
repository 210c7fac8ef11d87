"""A look at a ledger from outside: it says what is there and changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.ledger.chain import Head, append
from counterfoil.ledger.errors import CannotRecordError, DamagedLedgerError, NewerLedgerError
from counterfoil.ledger.events import EventType
from counterfoil.ledger.inspection import inspect
from counterfoil.ledger.migrations import LATEST
from counterfoil.ledger.sql import Fact
from counterfoil.ledger.store import Ledger

pytestmark = pytest.mark.anyio
OpenLedger = Callable[..., Awaitable[Ledger]]


async def test_an_open_ledger_has_its_process_alive_and_a_closed_one_nobody(ledger: Ledger) -> None:
    (process,) = inspect(ledger.path).processes
    assert process.lives is True
    await ledger.close()
    assert inspect(ledger.path).processes == ()


async def test_an_owner_whose_lock_is_free_is_gone(ledger: Ledger) -> None:
    await ledger.close(ended=False)
    ledger.presence.release()
    with (ledger.path.with_name("ledger.db.owners") / f"{ledger.owner_id}.lock").open("w"):
        (process,) = inspect(ledger.path).processes
    assert process.lives is False


async def test_a_fresh_ledger_is_current_and_empty(ledger: Ledger) -> None:
    found = inspect(ledger.path)
    assert (found.version, found.is_current, found.pending, found.unresolved, found.newest) == (
        LATEST,
        True,
        0,
        0,
        None,
    )


def one_event() -> Fact[Head]:
    return append(Head.new("run_1"), tenant="t", call_id=None, type=EventType.QUEUED, at=7, data={"n": 1})


async def test_the_newest_chain_is_checked_and_a_changed_event_is_named(ledger: Ledger) -> None:
    await ledger.record(one_event)
    assert inspect(ledger.path).broken is None
    await ledger.close()
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("UPDATE events SET body = replace(body, '\"n\":1', '\"n\":2')")
    found = inspect(ledger.path)
    assert found.broken is not None
    assert found.broken.startswith("run_1, event 1: ")
    assert found.newest == ("run_1", 7)


async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(CannotRecordError):
        inspect(tmp_path / "absent.db")
    assert list(tmp_path.iterdir()) == []


async def test_an_empty_file_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    assert inspect(path).version == 0
    assert path.stat().st_size == 0


async def test_a_newer_ledger_and_a_stranger_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.close()
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute(f"PRAGMA user_version = {LATEST + 1}")
    with pytest.raises(NewerLedgerError):
        inspect(ledger.path)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(DamagedLedgerError):
        inspect(tmp_path / "other.db")
