"""The writer alone, on a table of its own: batches, isolation, answers, locks and ends."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import Column, MetaData, String, Table, bindparam, func, select

from counterfoil.ledger.errors import CannotRecordError, Reason
from counterfoil.ledger.sql import Fact, Sql, change, one
from counterfoil.ledger.writer import Writer, WriterOptions

pytestmark = pytest.mark.anyio

things = Table("things", MetaData(), Column("k", String, primary_key=True), Column("v", String, nullable=False))


class Count(NamedTuple):
    n: int


INSERT = Sql(things.insert())
COUNT = Sql(select(func.count()).select_from(things).where(things.c.k == bindparam("of", type_=String())), Count)


class RefusedError(Exception):
    """A guard's."""


def put(key: str, value: object = "v") -> Fact[str]:
    yield from change(INSERT, k=key, v=value)
    return key


def half_done(key: str) -> Fact[None]:
    yield from change(INSERT, k=f"{key}-first", v="v")
    yield from change(INSERT, k=f"{key}-second", v=None)


def guarded(key: str) -> Fact[None]:
    found = yield from one(COUNT, of=key)
    if found == Count(0):
        raise RefusedError(key)


def dying() -> Fact[None]:
    yield from one(COUNT, of="x")
    raise SystemExit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "things.db"


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS things (k TEXT PRIMARY KEY, v TEXT NOT NULL)")
    return connection


def stored(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {key for (key,) in connection.execute("SELECT k FROM things")}


@pytest.fixture
def lock(path: Path) -> Iterator[Callable[[], sqlite3.Connection]]:
    """Take the write lock of the file, as another process would."""
    held: list[sqlite3.Connection] = []

    def take() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")
        held.append(connection)
        return connection

    yield take
    for connection in held:
        connection.close()


async def test_bad_facts_in_a_batch_of_64_fail_alone_and_each_with_its_own_error(path: Path) -> None:
    writer = await Writer.open(path, lambda: connect(path))
    async with asyncio.timeout(30):
        facts: dict[int, Callable[[], Fact[object]]] = {n: (partial(put, f"good-{n}")) for n in range(64)}
        facts[5] = lambda: half_done("a")
        facts[9] = lambda: guarded("absent")
        facts[20] = lambda: half_done("b")
        facts[21] = lambda: put("surrogate", "\ud800")
        facts[22] = lambda: put("huge", 2**70)
        answers = await asyncio.gather(*(writer.record(fact) for fact in facts.values()), return_exceptions=True)
        await writer.close()
    failed = {n: type(answer) for n, answer in enumerate(answers) if isinstance(answer, BaseException)}
    assert failed == {
        5: sqlite3.IntegrityError,
        9: RefusedError,
        20: sqlite3.IntegrityError,
        21: UnicodeEncodeError,
        22: OverflowError,
    }
    assert stored(path) == {f"good-{n}" for n in range(64) if n not in failed}


async def test_a_batch_where_every_fact_fails_half_way_stores_nothing_and_answers_all(path: Path) -> None:
    writer = await Writer.open(path, lambda: connect(path))
    async with asyncio.timeout(30):
        answers = await asyncio.gather(
            *(writer.record(partial(half_done, str(n))) for n in range(200)), return_exceptions=True
        )
        await writer.record(lambda: put("after"))
        await writer.close()
    assert {type(answer) for answer in answers} == {sqlite3.IntegrityError}
    assert stored(path) == {"after"}


async def test_the_fact_of_a_cancelled_caller_is_stored(path: Path, lock: Callable[[], sqlite3.Connection]) -> None:
    writer = await Writer.open(path, lambda: connect(path))
    held = lock()
    async with asyncio.timeout(30):
        task = asyncio.create_task(writer.record(lambda: put("cancelled")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held.execute("ROLLBACK")
        await writer.close()
    assert stored(path) == {"cancelled"}


async def test_the_error_of_a_cancelled_caller_is_counted(path: Path, lock: Callable[[], sqlite3.Connection]) -> None:
    lost: list[Exception] = []
    writer = await Writer.open(path, lambda: connect(path), WriterOptions(on_lost=lost.append))
    held = lock()
    async with asyncio.timeout(30):
        task = asyncio.create_task(writer.record(lambda: guarded("absent")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held.execute("ROLLBACK")
        await writer.close()
    assert [type(error) for error in lost] == [RefusedError]
    assert writer.lost == 1


async def test_a_lock_held_too_long_is_an_answer_and_the_writer_works_again(
    path: Path, lock: Callable[[], sqlite3.Connection]
) -> None:
    writer = await Writer.open(path, lambda: connect(path), WriterOptions(busy_s=0.05))
    held = lock()
    async with asyncio.timeout(30):
        with pytest.raises(CannotRecordError) as raised:
            await writer.record(lambda: put("refused"))
        assert raised.value.reason is Reason.LOCKED
        assert writer.failing is Reason.LOCKED
        held.execute("ROLLBACK")
        await writer.record(lambda: put("stored"))
        assert writer.failing is None
        await writer.close()
    assert stored(path) == {"stored"}


async def test_a_lock_that_is_let_go_in_time_costs_only_patience(
    path: Path, lock: Callable[[], sqlite3.Connection]
) -> None:
    writer = await Writer.open(path, lambda: connect(path), WriterOptions(busy_s=20))
    held = lock()
    async with asyncio.timeout(30):
        task = asyncio.create_task(writer.record(lambda: put("waited")))
        await asyncio.sleep(0)
        held.execute("COMMIT")
        assert await task == "waited"
        await writer.close()


async def test_facts_come_from_several_loops_and_threads(path: Path) -> None:
    writer = await Writer.open(path, lambda: connect(path))

    async def some(name: str) -> list[str]:
        return await asyncio.gather(*(writer.record(partial(put, f"{name}-{n}")) for n in range(50)))

    def in_its_own_loop(name: str) -> list[str]:
        return asyncio.run(some(name))

    async with asyncio.timeout(30):
        theirs = [asyncio.to_thread(in_its_own_loop, name) for name in ("a", "b", "c")]
        answers = await asyncio.gather(some("own"), *theirs)
        await writer.close()
    assert stored(path) == {key for keys in answers for key in keys}
    assert len(stored(path)) == 200


async def test_close_stores_what_waits_and_refuses_what_comes_later(
    path: Path, lock: Callable[[], sqlite3.Connection]
) -> None:
    writer = await Writer.open(path, lambda: connect(path), WriterOptions(busy_s=20))
    held = lock()
    async with asyncio.timeout(30):
        tasks = [asyncio.create_task(writer.record(partial(put, str(n)))) for n in range(50)]
        await asyncio.sleep(0)
        closing_task = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        with pytest.raises(CannotRecordError) as raised:
            await writer.record(lambda: put("late"))
        assert raised.value.reason is Reason.CLOSED
        held.execute("ROLLBACK")
        await asyncio.gather(*tasks)
        await closing_task
        await writer.close()
    assert stored(path) == {str(n) for n in range(50)}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the death is the test
async def test_a_writer_that_dies_fails_what_waits_and_what_comes(
    path: Path, lock: Callable[[], sqlite3.Connection]
) -> None:
    others = set(threading.enumerate())
    writer = await Writer.open(path, lambda: connect(path), WriterOptions(busy_s=20))
    its_own = [thread for thread in set(threading.enumerate()) - others if thread.name == "counterfoil-ledger-writer"]
    held = lock()
    async with asyncio.timeout(30):
        tasks = [asyncio.create_task(writer.record(lambda: put("before")))]
        tasks.append(asyncio.create_task(writer.record(dying)))  # type: ignore[arg-type]
        tasks += [asyncio.create_task(writer.record(partial(put, str(n)))) for n in range(20)]
        await asyncio.sleep(0)
        held.execute("ROLLBACK")
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(CannotRecordError) as raised:
            await writer.record(lambda: put("late"))
        await writer.close()
        for thread in its_own:  # it tells of its death after it is done, which must not fall into the next test
            await asyncio.to_thread(thread.join, 20)
    assert len(its_own) == 1
    assert {answer.reason for answer in answers if isinstance(answer, CannotRecordError)} == {Reason.WRITER_DEAD}
    assert all(isinstance(answer, CannotRecordError) for answer in answers)
    assert raised.value.reason is Reason.WRITER_DEAD
    assert writer.failing is Reason.WRITER_DEAD
    assert stored(path) == set()


async def test_an_error_of_connecting_reaches_open(path: Path) -> None:
    def refuse() -> sqlite3.Connection:
        raise LookupError("no such ledger")

    async with asyncio.timeout(30):
        with pytest.raises(LookupError, match="no such ledger"):
            await Writer.open(path, refuse)


async def test_an_opening_that_is_cancelled_leaves_no_thread(path: Path) -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow() -> sqlite3.Connection:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(20)
        return connect(path)

    async with asyncio.timeout(30):
        task = asyncio.create_task(Writer.open(path, slow))
        await begun.wait()
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "counterfoil-ledger-writer"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.to_thread(thread.join, 20)
    assert not thread.is_alive()


async def test_a_batch_that_changes_nothing_writes_nothing(path: Path) -> None:
    writer = await Writer.open(path, lambda: connect(path))
    async with asyncio.timeout(30):
        await writer.record(lambda: put("a"))
        log = path.with_name(f"{path.name}-wal")
        before = log.stat()
        for _ in range(20):
            await writer.record(lambda: guarded("a"))
        after = log.stat()
        await writer.close()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


async def test_a_fact_that_nobody_waits_for_is_stored_or_reported(path: Path) -> None:
    lost: list[Exception] = []
    writer = await Writer.open(path, lambda: connect(path), WriterOptions(on_lost=lost.append))
    async with asyncio.timeout(30):
        writer.record_nowait(lambda: put("quiet"))
        writer.record_nowait(lambda: guarded("absent"))
        await writer.close()
        writer.record_nowait(lambda: put("late"))
    assert stored(path) == {"quiet"}
    assert [type(error) for error in lost] == [RefusedError, CannotRecordError]
    assert writer.lost == 2


async def test_a_callback_that_fails_does_not_end_the_writer(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Exception) -> None:
        raise LookupError

    writer = await Writer.open(path, lambda: connect(path), WriterOptions(on_lost=fail))
    async with asyncio.timeout(30):
        writer.record_nowait(lambda: guarded("absent"))
        await writer.record(lambda: put("after"))
        await writer.close()
    assert "the callback for lost facts failed" in caplog.text
    assert stored(path) == {"after"}


async def test_a_renamed_table_fails_its_own_facts_until_it_is_back(path: Path) -> None:
    def is_whole(connection: sqlite3.Connection) -> bool:
        return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'things'").fetchall())

    other = Sql(Table("others", MetaData(), Column("k", String, primary_key=True)).insert())

    def put_other(key: str) -> Fact[None]:
        yield from change(other, k=key)

    writer = await Writer.open(path, lambda: connect(path), WriterOptions(is_whole=is_whole))
    with closing(sqlite3.connect(path, isolation_level=None)) as hand:
        hand.execute("CREATE TABLE others (k TEXT PRIMARY KEY)")
        hand.execute("ALTER TABLE things RENAME TO hidden")
        async with asyncio.timeout(30):
            answers = await asyncio.gather(
                writer.record(lambda: put("a")), writer.record(lambda: put_other("b")), return_exceptions=True
            )
            assert isinstance(answers[0], CannotRecordError)
            assert answers[0].reason is Reason.SCHEMA
            assert answers[1] is None
            await writer.record(lambda: put_other("c"))
            assert writer.failing is Reason.SCHEMA
            hand.execute("ALTER TABLE hidden RENAME TO things")
            await writer.record(lambda: put("a"))
            assert writer.failing is None
            await writer.close()
    assert stored(path) == {"a"}


async def test_a_file_that_was_swapped_is_noticed_before_anything_is_lost(path: Path) -> None:
    writer = await Writer.open(path, lambda: connect(path))
    aside = path.with_name("aside.db")
    async with asyncio.timeout(30):
        await writer.record(lambda: put("a"))
        path.rename(aside)
        with pytest.raises(CannotRecordError) as raised:
            await writer.record(lambda: put("b"))
        assert raised.value.reason is Reason.MOVED
        aside.rename(path)
        await writer.record(lambda: put("c"))
        await writer.close()
    assert stored(path) == {"a", "c"}
