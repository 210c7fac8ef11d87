"""Reads: their own connections, opened at the first read, that can change nothing and never wait for the writer.

A transaction lives no longer than one question, so that no reader keeps the write-ahead log from being folded back.
Belongs to the event loop that uses it first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement

from .errors import CannotReadError
from .sql import Fact, Sql

if TYPE_CHECKING:
    import aiosqlite
    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

R = TypeVar("R", bound=tuple[Any, ...])
T = TypeVar("T")
_CONNECTIONS = 4  # each has a thread; further readers wait


class Reads:
    """Questions to the ledger."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine: AsyncEngine | None = None
        self._hint: AsyncConnection | None = None

    @overload
    async def fetch(self, statement: Sql[R], **params: Any) -> list[R]: ...  # noqa: ANN401 (a column's value)
    @overload
    async def fetch(self, statement: ClauseElement, **params: Any) -> list[Row[Any]]: ...  # noqa: ANN401
    async def fetch(self, statement: Sql[R] | ClauseElement, **params: Any) -> list[R] | list[Row[Any]]:
        """All rows of one statement.

        Raises:
            CannotReadError: the file cannot be read now.
        """
        async with self._connection() as connection:
            if isinstance(statement, Sql):
                return await _rows(connection, statement, params)
            return list((await connection.execute(cast("Any", statement), params)).all())

    async def look(self, make: Callable[[], Fact[T]]) -> T:
        """Carry out a fact that only reads; all it sees is of one moment.

        Raises:
            CannotReadError: the file cannot be read now.
            Exception: whatever the fact raised.
        """
        fact = make()
        async with self._connection() as connection:
            ask = (await _driver(connection)).execute_fetchall
            await ask("BEGIN")
            try:
                sql, params = next(fact)
                while True:
                    sql, params = fact.send(await ask(sql.text, sql.positional(params)))
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                fact.close()  # the transaction ends as the connection goes back, which no cancellation can prevent

    async def data_version(self) -> int:
        """A number that changes whenever anybody, this process included, has changed the file. Cheap; only a hint."""
        if self._hint is None:
            self._hint = await self._connect().connect()
        version: int = (await self._hint.exec_driver_sql("PRAGMA data_version")).scalar_one()
        return version

    async def close(self) -> None:
        """Close the connections."""
        if self._hint is not None:
            await self._hint.close()
            self._hint = None
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[AsyncConnection]:
        try:
            async with self._connect().connect() as connection:
                yield connection
        except DBAPIError as error:
            raise CannotReadError(f"cannot read: {error.orig}") from error
        except sqlite3.Error as error:
            raise CannotReadError(f"cannot read: {error}") from error

    def _connect(self) -> AsyncEngine:
        if self._engine is None:
            from sqlalchemy import URL, event  # noqa: PLC0415 (the async engine costs a start 60 ms; reads come later)
            from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415

            url = URL.create(
                "sqlite+aiosqlite", database=self._path.absolute().as_uri(), query={"uri": "true", "mode": "ro"}
            )
            self._engine = create_async_engine(
                url,
                isolation_level="AUTOCOMMIT",
                pool_size=_CONNECTIONS,
                max_overflow=0,
                connect_args={"timeout": 5.0},
            )
            event.listen(self._engine.sync_engine, "connect", _only_reads)
        return self._engine


async def _rows(connection: AsyncConnection, sql: Sql[R], params: dict[str, Any]) -> list[R]:
    make = sql.make
    rows = await (await _driver(connection)).execute_fetchall(sql.text, sql.positional(params))
    return list(map(make, rows))


async def _driver(connection: AsyncConnection) -> aiosqlite.Connection:
    """The driver's own connection: a statement costs it one step into its thread, where the engine's takes four."""
    raw = await connection.get_raw_connection()
    return cast("aiosqlite.Connection", raw.driver_connection)


def _only_reads(connection: Any, _: Any) -> None:  # noqa: ANN401 (SQLAlchemy's own event types)
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only = 1")
    cursor.close()
