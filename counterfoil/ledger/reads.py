"""Reads: threads and connections of their own, made when needed, that change nothing and never wait for the writer.

A question is carried out as a whole in one thread, since each step into a thread costs more than most statements. A
transaction lives no longer than one question, so that no reader keeps the write-ahead log from being folded back.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from .errors import CannotReadError
from .sql import Fact, Sql, fetch, run

R = TypeVar("R", bound=tuple[Any, ...])
T = TypeVar("T")
_CONNECTIONS: Final = 4  # each has a thread; further readers wait
_BUSY_S: Final = 5.0


class Reads:
    """Questions to the ledger."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="counterfoil-ledger-reader")
        self._idle: deque[sqlite3.Connection] = deque()
        self._hint: sqlite3.Connection | None = None
        self._closed = False

    async def fetch(self, statement: Sql[R], **params: Any) -> list[R]:  # noqa: ANN401 (a column's value)
        """All rows of one statement.

        Raises:
            CannotReadError: the file cannot be read now.
        """
        return await self.look(lambda: fetch(statement, **params))

    async def look(self, make: Callable[[], Fact[T]]) -> T:
        """Carry out a fact that only reads, in a reader's thread; all it sees is of one moment.

        Raises:
            CannotReadError: the file cannot be read now.
            Exception: whatever the fact raised.
        """
        return await self._in_thread(lambda: self._look(make))

    async def data_version(self) -> int:
        """A number that changes whenever anybody, this process included, has changed the file. Cheap; only a hint."""
        return await self._in_thread(self._version)

    async def close(self) -> None:
        """End the threads and close the connections. May be called more than once."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        if self._hint is not None:
            self._idle.append(self._hint)
            self._hint = None
        while self._idle:
            self._idle.pop().close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise CannotReadError("cannot read: the ledger was closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except sqlite3.Error as error:
            raise CannotReadError(f"cannot read: {error}") from error

    # From here on: a reader's thread.

    def _look(self, make: Callable[[], Fact[T]]) -> T:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            connection.execute("BEGIN")
            return run(connection, make())
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._idle.append(connection)

    def _version(self) -> int:
        if self._hint is None:
            self._hint = self._connect()
        version: int = self._hint.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only = 1")
        return connection
