"""A statement that is compiled once, and the form of a fact.

A fact is a generator: it yields steps (a statement with its parameters) and receives rows or a row count, holds no
connection and awaits nothing, so that the one writer runs many of them in one transaction, runs them again when a
neighbour has spoilt the batch, and any driver can serve them. Guards come first: a fact that raises before its first
change costs its neighbours nothing.

    def cancel(call_id: str, now: int) -> Fact[bool]:
        row = yield from one(SELECT_CALL, call_id=call_id)
        ...
        yield from change(UPDATE_CALL, of=call_id, ...)
        return True

    await ledger.record(lambda: cancel(call_id, now))
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from functools import cache, partial
from itertools import compress
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast, overload

from sqlalchemy import Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

R = TypeVar("R", bound=tuple[Any, ...])
T = TypeVar("T")
Values: TypeAlias = tuple[Any, ...]


class Sql(Generic[R]):
    """One Core statement and its text on each dialect; `row` is the type that its rows become.

    `text` is SQLite's with `?` and `order` names the parameter of each; parameters given by a caller override the
    values that were written inside the statement. A parameter that is left out is NULL.
    """

    @overload
    def __init__(self: Sql[tuple[()]], statement: ClauseElement) -> None: ...
    @overload
    def __init__(self, statement: ClauseElement, row: type[R]) -> None: ...
    def __init__(self, statement: ClauseElement, row: type[Any] | None = None) -> None:
        self.statement = statement
        compiled = cast("SQLCompiler", statement.compile(dialect=sqlite.dialect(paramstyle="qmark")))
        self.text = str(compiled)
        if "POSTCOMPILE" in self.text:
            raise TypeError(f"a statement that is compiled once has no in_() list; use or_(): {self.text}")
        self.order = tuple(compiled.positiontup or ())
        self.defaults: dict[str, Any] = {**dict.fromkeys(self.order), **(compiled.params or {})}
        self._pick = _picker(self.order)
        self.has_rows = row is not None
        self._make: Callable[[Sequence[Any]], R] | None = None
        if row is not None:
            self._make = partial(tuple.__new__, row)  # pyright: ignore[reportUnknownMemberType]  # `_make` without its checks
            columns = compiled._result_columns  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] (no public name)
            if len(row._fields) != len(columns):
                raise TypeError(f"{row.__name__} needs one field for each column of: {self.text}")

    @property
    def make(self) -> Callable[[Sequence[Any]], R]:
        """What makes a row of a driver's tuple.

        Raises:
            TypeError: the statement has no rows.
        """
        if self._make is None:
            raise TypeError(f"this statement gives no rows: {self.text}")
        return self._make

    def positional(self, params: dict[str, Any] | Values) -> Values:
        """The values in the order of the `?` marks; a tuple is in it already.

        Raises:
            TypeError: a name that the statement does not have; it would be a column silently left NULL.
        """
        if isinstance(params, tuple):
            return params
        if len(params) != len(self.defaults):
            params = {**self.defaults, **params}
        if len(params) == len(self.defaults):
            try:
                return self._pick(params)
            except KeyError:
                pass
        unknown = ", ".join(sorted(params.keys() - self.defaults.keys()))
        raise TypeError(f"no parameter {unknown} in: {self.text}")

    def postgresql(self) -> str:
        """The same statement for PostgreSQL, with `$1` marks; a test keeps every statement compilable there."""
        dialect = postgresql.asyncpg.dialect()  # type: ignore[no-untyped-call]
        return str(self.statement.compile(dialect=dialect))


def _picker(order: tuple[str, ...] | tuple[int, ...]) -> Callable[[Any], Values]:
    """What puts values in order, in C where there is more than one."""
    if len(order) > 1:
        return itemgetter(*order)
    return lambda params: tuple([params[name] for name in order])


class Count(NamedTuple):
    """The row of a statement that counts or sums."""

    n: int


Step: TypeAlias = "tuple[Sql[Any], dict[str, Any] | Values]"
Fact: TypeAlias = Generator[Step, Any, T]


def fetch(sql: Sql[R], **params: Any) -> Fact[list[R]]:  # noqa: ANN401 (a column's value)
    """All rows, as the statement's row type. Also for changes with RETURNING."""
    make = sql.make
    found: list[tuple[Any, ...]] = yield sql, params
    return list(map(make, found))


def one(sql: Sql[R], **params: Any) -> Fact[R | None]:  # noqa: ANN401
    """The first row or None."""
    rows = yield from fetch(sql, **params)
    return rows[0] if rows else None


def change(sql: Sql[Any], **params: Any) -> Fact[int]:  # noqa: ANN401
    """Carry out a change; how many rows it changed."""
    count: int = yield sql, params
    return count


def add(table: Table, row: tuple[Any, ...]) -> Fact[None]:
    """Insert a NamedTuple without what is None: that is NULL by itself, and the driver binds it slowly."""
    sql, pick = _insert(table, type(row), tuple([value is not None for value in row]))
    yield sql, pick(row)


@cache
def _insert(table: Table, kind: type[Any], given: tuple[bool, ...]) -> tuple[Sql[Any], Callable[[Any], Values]]:
    fields = cast("tuple[str, ...]", kind._fields)
    sql = Sql(table.insert().values({name: bindparam(name) for name in compress(fields, given)}))
    return sql, _picker(tuple([fields.index(name) for name in sql.order]))


def run(connection: sqlite3.Connection, fact: Fact[T]) -> T:
    """Carry out one fact on a connection of the bare driver, in whatever transaction that has open."""
    execute = connection.execute
    try:
        sql, params = next(fact)
        while True:
            cursor = execute(sql.text, sql.positional(params))
            sql, params = fact.send(cursor.fetchall() if sql.has_rows else cursor.rowcount)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        fact.close()
