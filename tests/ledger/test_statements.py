"""Every statement of the ledger is sound on both dialects and needs no conversion of its values."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import BigInteger, Integer, LargeBinary, String, select
from sqlalchemy.dialects import sqlite

import counterfoil.ledger
from counterfoil.ledger import migrations
from counterfoil.ledger.rows import AttemptRow, update_call
from counterfoil.ledger.rules import RULES
from counterfoil.ledger.sql import Sql, add, fetch, run
from counterfoil.ledger.tables import attempts, calls, metadata


def statements() -> dict[str, Sql[Any]]:
    """Every statement that a module of the ledger defines."""
    found: dict[str, Sql[Any]] = {f"check.{rule.name}": rule.sql for rule in RULES}
    for module in pkgutil.iter_modules(counterfoil.ledger.__path__, "counterfoil.ledger."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Sql):
                found[f"{module.name.rpartition('.')[2]}.{name}"] = value
    return found


STATEMENTS = statements()


class Name(NamedTuple):
    name: str


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_compiles_for_postgresql_and_binds_bare_values(name: str) -> None:
    sql = STATEMENTS[name]
    assert "?" not in sql.postgresql()
    compiled = sql.statement.compile(dialect=sqlite.dialect(paramstyle="qmark"))
    assert not compiled._bind_processors  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_one_that_sqlite_prepares(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    sql = STATEMENTS[name]
    with closing(migrations.connect(_file(tmp_path_factory), now=1)) as connection:
        connection.execute(f"EXPLAIN {sql.text}", [None] * len(sql.order)).fetchall()


def _file(factory: pytest.TempPathFactory) -> Path:
    return factory.getbasetemp() / "statements.db"


def test_a_connection_keeps_every_statement_prepared() -> None:
    assert len(STATEMENTS) < migrations.STATEMENTS


def test_columns_are_text_integers_and_bytes() -> None:
    kinds = {type(column.type) for table in metadata.tables.values() for column in table.columns}
    assert kinds <= {String, BigInteger, Integer, LargeBinary}


def test_parameters_of_a_caller_override_and_what_is_left_out_is_null() -> None:
    sql = Sql(calls.update().values(state="settled", outcome="success", code="x"))
    assert dict(zip(sql.order, sql.positional({"code": None}), strict=True)) == {
        "state": "settled", "outcome": "success", "code": None,
    }  # fmt: skip
    insert = Sql(calls.insert())
    assert dict(zip(insert.order, insert.positional({"call_id": "c"}), strict=True))["step"] is None


def test_a_row_with_more_or_fewer_fields_than_columns_is_refused() -> None:
    with pytest.raises(TypeError, match="Name needs one field for each column"):
        Sql(select(calls.c.call_id, calls.c.state), Name)


def test_an_added_row_leaves_out_what_is_none() -> None:
    row = AttemptRow("c", 1, "own", 5, None)
    sql, params = next(add(attempts, row))
    assert dict(zip(sql.order, sql.positional(params), strict=True)) == {
        "call_id": "c", "generation": 1, "owner_id": "own", "dispatched_at": 5,
    }  # fmt: skip
    assert sql is next(add(attempts, row._replace(call_id="d")))[0]
    assert "?" not in sql.postgresql()


def test_a_changed_call_writes_the_changed_columns_alone() -> None:
    sql = update_call("state", "revision")
    assert sql.order == ("state", "revision", "of", "was")
    assert sql is update_call("state", "revision")
    assert "?" not in sql.postgresql()


def test_a_misspelt_parameter_is_no_null() -> None:
    with pytest.raises(TypeError, match="no parameter call in"):
        Sql(calls.insert()).positional({"call": "c"})


def test_a_list_that_cannot_be_compiled_once_is_refused() -> None:
    with pytest.raises(TypeError, match="use or_"):
        Sql(select(calls.c.call_id).where(calls.c.state.in_(["a", "b"])), Name)


def test_a_statement_without_rows_cannot_be_fetched(tmp_path: Path) -> None:
    with (
        closing(migrations.connect(tmp_path / "x.db", now=1)) as connection,
        pytest.raises(TypeError, match="gives no rows"),
    ):
        run(connection, fetch(Sql(calls.delete())))
