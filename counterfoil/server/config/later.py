"""What the reference configuration has and this version does not: refused at start, never ignored.

An ignored limit, policy or tool would let through what its author meant to stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from .errors import KeyPath

_TABLES: Final = ("auth", "http", "tools", "upstreams", "openapi", "plans", "sql", "files")
MESSAGE: Final = "not available in this version yet; remove it"


def take_out(document: dict[str, Any]) -> tuple[dict[str, Any], list[KeyPath]]:
    """The document without everything that is not available yet, and where that stood."""
    kept = dict(document)
    found = [path for table in _TABLES if table in kept for path in _below(table, kept.pop(table))]
    for table, key, spoken in _KEYS:
        if isinstance(kept.get(table), dict) and spoken(kept[table].get(key)):
            kept[table] = {name: value for name, value in kept[table].items() if name != key}
            found.append((table, key))
    return kept, found


def _below(table: str, value: object) -> Iterator[KeyPath]:
    """Each named table below, else the table itself."""
    if isinstance(value, dict) and table not in {"http", "auth"}:
        yield from ((table, str(name)) for name in cast("dict[str, object]", value))
    elif isinstance(value, list):
        yield from ((table, index) for index in range(len(cast("list[object]", value))))
    else:
        yield (table,)


def _is_http(value: object) -> bool:
    return value == "http"


def _is_postgresql(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("postgresql", "postgres:"))


def _is_given(value: object) -> bool:
    return isinstance(value, str) and value != ""


_KEYS: Final = (
    ("server", "transport", _is_http),
    ("ledger", "url", _is_postgresql),
    ("approvals", "webhook", _is_given),
)
