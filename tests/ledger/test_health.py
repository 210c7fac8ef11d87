"""Reads that hold nothing, the log's size, and what health says of it."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from typing import NamedTuple

import anyio
import pytest
from sqlalchemy import bindparam, select

from counterfoil.ledger import owners, sealing
from counterfoil.ledger.chain import Head, append
from counterfoil.ledger.checkpoint import LogLimits
from counterfoil.ledger.events import EventType
from counterfoil.ledger.sql import Fact, Sql, change
from counterfoil.ledger.store import Health, Ledger
from counterfoil.ledger.tables import owners as owners_table

pytestmark = pytest.mark.anyio
OpenLedger = Callable[..., Awaitable[Ledger]]


class Id(NamedTuple):
    owner_id: str


IDS = Sql(select(owners_table.c.owner_id).where(owners_table.c.pid == bindparam("process")), Id)


def heavy(ledger: Ledger, name: str) -> Fact[None]:
    """A megabyte for the log."""
    content = os.urandom(sealing.CHUNK_BYTES)
    return sealing.store(ledger.seal(payload_id=name, call_id="c", tenant="t", kind="output", content=content))


def folded(ledger: Ledger) -> bool:
    """Whether no reader keeps the log from being folded back."""
    with closing(sqlite3.connect(ledger.path)) as hand:
        busy, pages, done = hand.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return (busy, done) == (0, pages)


async def test_reads_see_what_was_recorded_and_refuse_a_parameter_that_is_none(ledger: Ledger) -> None:
    async with asyncio.timeout(30):
        await ledger.record(lambda: owners.register("own_b", "host", 77, 1))
        assert await ledger.reads.fetch(IDS, process=77) == [Id("own_b")]
        with pytest.raises(TypeError, match="no parameter pid in"):
            await ledger.reads.fetch(IDS, pid=77)


async def test_reads_cannot_write(ledger: Ledger) -> None:
    async with asyncio.timeout(30):
        with pytest.raises(Exception, match="readonly"):
            await ledger.reads.look(change_something)


def change_something() -> Fact[None]:
    yield from change(owners.BEAT, of="x", now=1)


async def test_the_hint_changes_with_the_file_and_only_then(ledger: Ledger) -> None:
    async with asyncio.timeout(30):
        first = await ledger.reads.data_version()
        assert await ledger.reads.data_version() == first
        await ledger.record(lambda: owners.register("own_b", "host", 77, 1))
        assert await ledger.reads.data_version() != first


async def test_a_reader_that_comes_back_and_back_does_not_stop_the_log_from_being_folded(ledger: Ledger) -> None:
    async with asyncio.timeout(50):
        for n in range(8):
            await ledger.record(partial(heavy, ledger, f"pay_{n}"))
            await ledger.reads.data_version()
            await ledger.reads.look(owners.living)
    assert folded(ledger)


async def test_a_reader_that_fails_or_is_cancelled_in_the_middle_keeps_no_transaction(ledger: Ledger) -> None:
    def failing() -> Fact[None]:
        yield from owners.living()
        raise LookupError

    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def interrupted(scope: anyio.CancelScope, gone: threading.Event) -> Fact[None]:
        yield from owners.living()
        loop.call_soon_threadsafe(scope.cancel)
        assert gone.wait(20)
        yield from owners.living()
        loop.call_soon_threadsafe(ended.set)

    async with asyncio.timeout(50):
        gone = threading.Event()
        with anyio.CancelScope() as scope:
            await ledger.reads.look(partial(interrupted, scope, gone))
        assert scope.cancelled_caught
        gone.set()
        await ended.wait()
        with pytest.raises(LookupError):
            await ledger.reads.look(failing)
        await ledger.record(lambda: heavy(ledger, "pay_1"))
        while not folded(ledger):  # the transaction of a question ends right after it
            await ledger.record(lambda: owners.beat(ledger.owner_id, 1))
        assert len(await ledger.reads.look(owners.living)) == 1


async def test_a_log_above_the_bound_degrades_health_with_a_warning_until_the_reader_lets_go(
    open_ledger: OpenLedger, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = await open_ledger(log=LogLimits(look_s=0.0, cut_bytes=1 << 20, bound_bytes=2 << 20))
    caplog.set_level(logging.WARNING)
    async with asyncio.timeout(50):
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as foreign:
            foreign.execute("BEGIN")
            foreign.execute("SELECT count(*) FROM events").fetchone()
            for n in range(5):
                await ledger.record(partial(heavy, ledger, f"pay_{n}"))
            health = ledger.health()
            assert (health.state, health.reason) == ("degraded", "wal_too_large")
            assert health.wal_bytes > 5 << 20
            while not caplog.records:  # the writer looks after it has answered
                await ledger.record(lambda: owners.beat(ledger.owner_id, 1))
            assert "a reader holds an old transaction" in caplog.text
        while ledger.health().state != "ok":
            await ledger.record(lambda: owners.beat(ledger.owner_id, 1))
    assert ledger.health().wal_bytes < 2 << 20


async def test_an_idle_ledger_folds_its_log_back_by_itself(open_ledger: OpenLedger) -> None:
    ledger = await open_ledger(log=LogLimits(idle_s=0.0, cut_bytes=0))
    async with asyncio.timeout(50):
        await ledger.record(lambda: heavy(ledger, "pay_1"))
        while ledger.health().wal_bytes:
            await ledger.reads.data_version()


async def test_health_is_ok_after_a_start_and_says_why_it_is_not(ledger: Ledger) -> None:
    assert ledger.health() == Health("ok", None, ledger.health().wal_bytes)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as hand:
        hand.execute("ALTER TABLE events RENAME TO hidden")
        async with asyncio.timeout(30):
            with pytest.raises(Exception, match="cannot record"):
                await ledger.record(
                    lambda: append(Head.new("r"), tenant="t", call_id=None, type=EventType.LOST, at=1, data={})
                )
            await ledger.record(lambda: owners.beat(ledger.owner_id, 1))  # another table's fact does not heal it
            assert (ledger.health().state, ledger.health().reason) == ("degraded", "schema")
            hand.execute("ALTER TABLE hidden RENAME TO events")
            await ledger.record(lambda: owners.beat(ledger.owner_id, 2))
            assert ledger.health().state == "ok"
