"""The one writer of a process: a thread that owns one connection and commits many callers' facts in one transaction.

Callers hand over facts from any event loop or thread and await their own answer. While one transaction is being
made durable the next facts gather, so the price of the disk is shared. Facts do not feel their neighbours: one that
raises before its first change is passed over; one that raises after a change undoes the transaction, and the others
run again without it. What the file cannot take is answered as `CannotRecordError`, and the writer goes on.
It knows nothing of what the facts say, and nobody else writes.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

from .checkpoint import Checkpointer, LogLimits
from .errors import CannotRecordError, Reason, is_locked, reason_of
from .sql import Fact, run

T = TypeVar("T")
Lost = Callable[[Exception], None]
Connect = Callable[[], sqlite3.Connection]

BATCH: Final = 512  # facts in one transaction
QUEUE: Final = 100_000  # facts that may wait
_JITTER_S: Final = (0.001, 0.005)  # SQLite's own busy wait grows its sleeps, and a busy neighbour starves it


_log = logging.getLogger(__name__)


def _ignore(_: Exception) -> None: ...


def _is_whole(_: sqlite3.Connection) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How the writer behaves.

    `busy_s`: how long a fact waits for another process's lock. `on_lost`: told the errors of facts that nobody waits
    for, from any thread. `is_whole`: whether the tables are all there, asked after one was missing.
    """

    busy_s: float = 5.0
    on_lost: Lost = _ignore
    is_whole: Callable[[sqlite3.Connection], bool] = _is_whole
    log: LogLimits = field(default_factory=LogLimits)


class _Pending(Generic[T]):
    """A fact that waits for its turn, then its answer. `future` is None if nobody waits for it."""

    __slots__ = ("error", "future", "give_up_at", "make", "result")

    def __init__(self, make: Callable[[], Fact[T]], future: asyncio.Future[T] | None, give_up_at: float) -> None:
        self.make = make
        self.future = future
        self.give_up_at = give_up_at
        self.result: T
        self.error: Exception | None = None

    def answer(self, lost: Lost) -> None:
        """Tell the caller; an error that nobody waits for goes to `lost`. Runs in the caller's own loop."""
        future, error = self.future, self.error
        if future is None or future.done():  # done: the caller was cancelled; its fact is stored all the same
            if error is not None:
                lost(error)
        elif error is None:
            future.set_result(self.result)
        else:
            future.set_exception(error)


class Writer:
    """See the module. `await Writer.open(...)` makes one, `close` ends it.

    `failing` is why the last fact could not be stored; None again once a change is stored, and for a missing table
    once `is_whole` says so. `lost` counts the errors of facts that nobody waited for; each went to `on_lost`, which
    is called from any thread.
    """

    def __init__(self, path: Path, connect: Connect, options: WriterOptions) -> None:
        self.failing: Reason | None = None
        self.lost = 0
        self.checkpointer = Checkpointer(path, options.log)
        self._path = path
        self._connect = connect
        self._options = options
        self._queue: SimpleQueue[_Pending[Any] | None] = SimpleQueue()  # None: `close` was called
        self._batch: list[_Pending[Any]] = []
        self._closing = False
        self._ended: Reason | None = None
        self._done = threading.Event()
        self._counting = threading.Lock()
        self._identity = (0, 0)
        self._connection: sqlite3.Connection
        self._opened: asyncio.Future[None]

    @classmethod
    async def open(cls, path: Path, connect: Connect, options: WriterOptions | None = None) -> Writer:
        """Start the thread, let it connect, wait until it is ready; whatever `connect` raises is raised here."""
        writer = cls(path, connect, options or WriterOptions())
        writer._opened = asyncio.get_running_loop().create_future()
        threading.Thread(target=writer._main, name="counterfoil-ledger-writer", daemon=True).start()
        try:
            await writer._opened
        except asyncio.CancelledError:
            writer._closing = True
            writer._queue.put(None)
            raise
        return writer

    async def record(self, make: Callable[[], Fact[T]]) -> T:
        """Store one fact; gives what it returns once that is durable. A cancelled caller's fact is still stored.

        `make` may be called more than once and must give the same fact each time.

        Raises:
            CannotRecordError: it was not stored, for a reason outside the fact.
            Exception: whatever the fact raised; nothing of it was stored.
        """
        return await self.submit(make)

    def submit(self, make: Callable[[], Fact[T]]) -> asyncio.Future[T]:
        """`record` for a caller that waits later; the fact has its place in the order from now on."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            self._put(_Pending(make, future, time.monotonic() + self._options.busy_s))
        except CannotRecordError as error:
            future.set_exception(error)
        return future

    def record_nowait(self, make: Callable[[], Fact[Any]]) -> None:
        """Store one fact that nobody waits for, from any thread; a failure is counted and given to `on_lost`."""
        try:
            self._put(_Pending(make, None, time.monotonic() + self._options.busy_s))
        except CannotRecordError as error:
            self._lose(error)

    async def close(self) -> None:
        """Store what waits, then end the thread. Later facts are refused. May be called more than once."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.to_thread(self._done.wait)

    def _put(self, pending: _Pending[Any]) -> None:
        if self._ended is Reason.WRITER_DEAD:
            raise CannotRecordError(Reason.WRITER_DEAD, "the writer ended by a fault; restart the server")
        if self._closing:
            raise CannotRecordError(Reason.CLOSED, "the ledger was closed")
        if self._queue.qsize() >= QUEUE:
            raise CannotRecordError(Reason.OVERLOADED, f"{QUEUE} facts wait already")
        self._queue.put(pending)
        if self._ended is not None:  # the thread ended between the check and the put, and will not look again
            self._refuse_waiting(self._ended)

    def _lose(self, error: Exception) -> None:
        with self._counting:
            self.lost += 1
        try:
            self._options.on_lost(error)
        except Exception:  # noqa: BLE001 (a stranger's code must not end the writer)
            _log.exception("the callback for lost facts failed")

    # From here on: the thread.

    def _main(self) -> None:
        try:
            self._connection = self._connect()
            self._identity = _identity(self._path)
        except BaseException as error:  # noqa: BLE001 (it is raised in `open`)
            self._end(Reason.CLOSED)
            self._hand_shake(error)
            return
        self._hand_shake(None)
        reason = Reason.WRITER_DEAD
        try:
            self._serve()
            reason = Reason.CLOSED
        finally:
            try:
                self._connection.close()
            finally:
                self._end(reason)

    def _hand_shake(self, error: BaseException | None) -> None:
        def tell() -> None:
            if self._opened.done():
                return
            if error is None:
                self._opened.set_result(None)
            else:
                self._opened.set_exception(error)

        _post(self._opened.get_loop(), tell)

    def _end(self, reason: Reason) -> None:
        self._ended = reason
        self.failing = self.failing or reason
        self._fail(reason, "the writer has ended; restart the server")
        self._refuse_waiting(reason)
        self._done.set()

    def _refuse_waiting(self, reason: Reason) -> None:
        left: list[_Pending[Any]] = []
        try:
            while True:
                if (pending := self._queue.get_nowait()) is not None:
                    pending.error = CannotRecordError(reason, "the writer has ended; restart the server")
                    left.append(pending)
        except Empty:
            self._answer(left)

    def _serve(self) -> None:
        """Batch after batch until `close`."""
        closing = False
        while not closing:
            try:
                first = self._queue.get(timeout=self.checkpointer.wait_s())
            except Empty:
                self.checkpointer.look(self._connection)
                continue
            if first is None:
                return
            self._batch = [first]
            careful = False
            while self._batch and self._begin():
                closing = self._gather() or closing
                spoiler = self._attempt(careful=careful)
                if spoiler is None:
                    break
                self._batch.remove(spoiler)
                self._answer([spoiler])
                careful = True
            self.checkpointer.after_write(self._connection)

    def _begin(self) -> bool:
        """Take the write lock, waiting as long as each fact allows; False if nothing is left to store."""
        while self._batch:
            try:
                if _identity(self._path) != self._identity:
                    raise FileNotFoundError
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._connection.execute("BEGIN IMMEDIATE")
            except OSError:
                self._fail(Reason.MOVED, f"{self._path} is gone or another file lies there; put it back and restart")
            except sqlite3.Error as error:
                if is_locked(error):
                    self._give_up_overdue()
                    time.sleep(random.uniform(*_JITTER_S))  # noqa: S311 (no secret)
                else:
                    self._fail(reason_of(error) or Reason.IO, str(error))
            else:
                return True
        return False

    def _give_up_overdue(self) -> None:
        now = time.monotonic()
        overdue = [pending for pending in self._batch if pending.give_up_at <= now]
        if overdue:
            self._batch = [pending for pending in self._batch if pending.give_up_at > now]
            self.failing = Reason.LOCKED
            for pending in overdue:
                pending.error = CannotRecordError(
                    Reason.LOCKED, f"another process held it for {self._options.busy_s} s"
                )
            self._answer(overdue)

    def _gather(self) -> bool:
        """Add what waits to the batch; whether `close` was called."""
        batch, get = self._batch, self._queue.get_nowait
        try:
            while len(batch) < BATCH:
                if (pending := get()) is None:
                    return True
                batch.append(pending)
        except Empty:
            pass
        return False

    def _attempt(self, *, careful: bool) -> _Pending[Any] | None:
        """Run and commit the batch and answer it; or undo it and return the fact that spoilt it."""
        connection = self._connection
        before = connection.total_changes
        try:
            spoiler = self._run_all(careful=careful)
            changed = connection.total_changes != before
            connection.execute("COMMIT" if changed and spoiler is None else "ROLLBACK")
        except sqlite3.Error as error:
            self._undo()
            self._fail(reason_of(error) or Reason.IO, str(error))
            return None
        if spoiler is None:
            if changed and self.failing is not None and self._is_restored():
                self.failing = None
            batch, self._batch = self._batch, []
            self._answer(batch)
        return spoiler

    def _run_all(self, *, careful: bool) -> _Pending[Any] | None:
        """Run every fact; stops at one that raised after a change and returns it.

        `careful` puts each fact behind a savepoint, so that a batch is run again once at most, however many are bad.
        """
        connection = self._connection
        for pending in self._batch:
            changes = connection.total_changes
            if careful:
                connection.execute("SAVEPOINT fact")
            try:
                pending.result = run(connection, pending.make())
                pending.error = None
            except sqlite3.Error as error:
                pending.error = self._verdict(error)
            except Exception as error:  # noqa: BLE001 (a fact's own; its caller gets it)
                pending.error = error
            if careful:
                if pending.error is not None:
                    connection.execute("ROLLBACK TO fact")
                connection.execute("RELEASE fact")
            elif pending.error is not None and connection.total_changes != changes:
                return pending
        return None

    def _verdict(self, error: sqlite3.Error) -> Exception:
        """A driver's error as the fact's own; raises it again if the file is at fault and the whole batch with it."""
        reason = reason_of(error)
        if reason is None:
            return error
        if reason is not Reason.SCHEMA:  # a missing table hurts only the facts that need it
            raise error
        self.failing = reason
        return CannotRecordError(reason, str(error))

    def _is_restored(self) -> bool:
        return self.failing is not Reason.SCHEMA or self._options.is_whole(self._connection)

    def _undo(self) -> None:
        if self._connection.in_transaction:  # SQLite ends the transaction by itself after some errors
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                return  # `_begin` tries again before the next batch, and fails that if it must

    def _fail(self, reason: Reason, message: str) -> None:
        batch, self._batch = self._batch, []
        if batch:
            self.failing = reason
        for pending in batch:
            pending.error = CannotRecordError(reason, message)
        self._answer(batch)

    def _answer(self, batch: list[_Pending[Any]]) -> None:
        """One wake-up for each loop, however many of its facts are in the batch."""
        by_loop: defaultdict[asyncio.AbstractEventLoop | None, list[_Pending[Any]]] = defaultdict(list)
        for pending in batch:
            by_loop[None if pending.future is None else pending.future.get_loop()].append(pending)
        for loop, some in by_loop.items():

            def tell(some: list[_Pending[Any]] = some) -> None:
                for pending in some:
                    pending.answer(self._lose)

            if loop is None:
                tell()
            else:
                _post(loop, tell)


def _post(loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        if not loop.is_closed():
            raise
        # The loop is gone and its callers with it; what was stored stays stored.


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino
