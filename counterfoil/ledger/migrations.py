"""The schema's numbered steps, forward only, and how a file is recognised and opened for writing.

A fresh file is made at the latest version at once. An older one is copied beside itself and then brought forward in
one transaction under the write lock, so that two first starts, or two upgrades, may race. A newer one is left alone.
Version n is n - 1 steps after the first; the steps are in `schema_steps`.
"""

from __future__ import annotations

import random
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from .errors import (
    CannotRecordError,
    DamagedLedgerError,
    LedgerLockedError,
    NewerLedgerError,
    Reason,
    is_locked,
    reason_of,
)
from .place import publish
from .schema_steps import STEPS as STEPS
from .schema_steps import Step
from .sql import Sql, change, fetch, run
from .tables import meta, metadata

T = TypeVar("T")
Durability: TypeAlias = Literal["full", "normal"]

LATEST: Final = 1 + len(STEPS)
APPLICATION_ID: Final = 0x43464C47  # "CFLG", in the file's header
STATEMENTS: Final = 512  # prepared statements that a connection keeps: more than the ledger has


class MetaRow(NamedTuple):
    """One row of `meta`."""

    name: str
    value: str


INSERT_META = Sql(meta.insert())
UPDATE_META = Sql(
    update(meta).where(meta.c.name == bindparam("of", type_=meta.c.name.type)).values(value=bindparam("to"))
)
SELECT_META = Sql(select(meta.c.name, meta.c.value), MetaRow)


def connect(
    path: Path,
    *,
    now: int,
    durability: Durability = "full",
    busy_s: float = 5.0,
    steps: Sequence[Step] = STEPS,
) -> sqlite3.Connection:
    """Open the file for writing, make or bring forward its schema. To be used in the calling thread only.

    Raises:
        LedgerLockedError: another process held it for longer than `busy_s`.
        NewerLedgerError: its schema is newer than this program; nothing was written.
        DamagedLedgerError: it is no database, or another program's.
        CannotRecordError: it cannot be opened or written.
    """
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=0, cached_statements=STATEMENTS)
        _prepare(connection, path, now, busy_s, steps)
        connection.execute(f"PRAGMA synchronous = {durability}")
        connection.execute("PRAGMA fullfsync = 1")  # macOS: past the drive's own cache
        connection.execute("PRAGMA checkpoint_fullfsync = 1")
        connection.execute("PRAGMA trusted_schema = 0")
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise _opening_error(path, error) from error
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def migrate(path: Path, *, now: int, busy_s: float = 5.0, steps: Sequence[Step] = STEPS) -> tuple[int, int]:
    """Bring an existing ledger forward: its version before and after. Raises what `connect` raises."""
    if not path.exists():
        raise CannotRecordError(Reason.IO, f"there is no ledger at {path}")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        try:
            before = _version(connection)
        except sqlite3.Error as error:
            raise _opening_error(path, error) from error
    with closing(connect(path, now=now, busy_s=busy_s, steps=steps)) as connection:
        return before, _version(connection)


def read_meta(connection: sqlite3.Connection) -> dict[str, str]:
    """`schema_version`, `ledger_id`, `created_at`."""
    return {row.name: row.value for row in run(connection, fetch(SELECT_META))}


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether every table and column that this program writes is there."""
    found = set(
        connection.execute(
            "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'"
        )
    )
    return all((table.name, column.name) in found for table in metadata.tables.values() for column in table.columns)


def _prepare(connection: sqlite3.Connection, path: Path, now: int, busy_s: float, steps: Sequence[Step]) -> None:
    latest = 1 + len(steps)
    version = _patiently(busy_s, lambda: recognise(connection, path, latest))
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):  # set once; setting it locks the whole file
        _patiently(busy_s, lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
    if version == latest:
        return
    _patiently(busy_s, lambda: connection.execute("BEGIN IMMEDIATE"))
    try:
        version = recognise(connection, path, latest)  # a rival may have been first
        if version == 0:
            _create(connection, now, latest)
        elif version < latest:
            _copy_beside(path, version, latest)
            _advance(connection, steps[version - 1 :], latest)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def recognise(connection: sqlite3.Connection, path: Path, latest: int = LATEST) -> int:
    """The file's version, 0 if it is empty. Reads only.

    Raises:
        DamagedLedgerError: it is another program's.
        NewerLedgerError: its schema is newer than `latest`.
    """
    version = _version(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and application == 0 and objects == 0:
        return 0
    if application != APPLICATION_ID or version == 0:
        raise DamagedLedgerError(f"{path} is a database of another program; name another file in [ledger] url")
    if version > latest:
        raise NewerLedgerError(
            f"{path} has schema {version}, this program knows {latest}: install the version that wrote it"
        )
    return version


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _create(connection: sqlite3.Connection, now: int, latest: int) -> None:
    dialect = sqlite.dialect()
    for table in metadata.sorted_tables:
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
    for name, value in (
        ("schema_version", str(latest)),
        ("ledger_id", f"led_{secrets.token_hex(16)}"),
        ("created_at", str(now)),
    ):
        run(connection, change(INSERT_META, name=name, value=value))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {latest}")


def _advance(connection: sqlite3.Connection, steps: Sequence[Step], latest: int) -> None:
    for step in steps:
        for statement in step:
            connection.execute(statement)
    run(connection, change(UPDATE_META, of="schema_version", to=str(latest)))
    connection.execute(f"PRAGMA user_version = {latest}")


def _copy_beside(path: Path, version: int, latest: int) -> None:
    """Keep what an older program can read. Reads through a second connection, which sees the last committed state."""

    def fill(draft: Path) -> None:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(draft)) as copy:
            source.backup(copy)

    copy = path.with_name(f"{path.name}.schema{version}-before{latest}")
    publish(copy, fill)  # one that is there already is the older, and therefore the better, copy


def _patiently(busy_s: float, act: Callable[[], T]) -> T:
    """Try again while another process holds the file: SQLite does not wait by itself when the journal mode changes."""
    give_up_at = time.monotonic() + busy_s
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() >= give_up_at:
                raise
            time.sleep(random.uniform(0.005, 0.02))  # noqa: S311 (no secret)


def _opening_error(path: Path, error: sqlite3.Error) -> Exception:
    reason = reason_of(error)
    if reason is Reason.LOCKED:
        return LedgerLockedError(f"{path} is locked by another process; end it or try again ({error})")
    if reason is Reason.DAMAGED:
        return DamagedLedgerError(f"{path} is not a sound database ({error}); restore it from a backup")
    return CannotRecordError(reason or Reason.IO, f"{path} cannot be opened: {error}")
