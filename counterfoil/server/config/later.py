"""What the reference configuration has and this version does not: refused at start, never ignored.

An ignored limit, policy or tool would let through what its author meant to stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final, cast

from .errors import KeyPath

_TABLES: Final = ("upstreams", "openapi", "sql", "files")
MESSAGE: Final = "not available in this version yet; remove it"
_TOOL_KEYS: Final = ("sql", "append")
_OVERLAY_DEPTH: Final = 2
OVERLAY: Final = (
    "a tool without `http` is an overlay on a tool that comes from elsewhere, and overlays are not available in this "
    "version yet; give it [tools.NAME.http], or manual = true if a person performs it, or remove it"
)


def take_out(document: dict[str, Any]) -> tuple[dict[str, Any], list[KeyPath]]:
    """The document without everything that is not available yet, and where that stood."""
    kept = dict(document)
    found = [path for table in _TABLES if table in kept for path in _below(table, kept.pop(table))]
    for table, key, spoken in _KEYS:
        if isinstance(kept.get(table), dict) and spoken(kept[table].get(key)):
            kept[table] = {name: value for name, value in kept[table].items() if name != key}
            found.append((table, key))
    if ("auth", "mode") in found and "tokens" in kept["auth"]:
        kept["auth"] |= {"mode": "tokens"}  # they are checked, and not blamed for a mode that is not there yet
    if isinstance(kept.get("tools"), dict):
        kept["tools"] = dict(_known_tools(kept["tools"], found))
    return kept, found


def message_for(path: KeyPath) -> str:
    """What is said of one of the places that were taken out."""
    return OVERLAY if path[0] == "tools" and len(path) == _OVERLAY_DEPTH else MESSAGE


def _known_tools(tools: dict[str, Any], found: list[KeyPath]) -> Iterator[tuple[str, Any]]:
    """The tools that are described here in full; anything but a table is left for its own check."""
    for name, tool in tools.items():
        table = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {"http": tool}
        probe = table.get("probe")
        taken: list[str] = [key for key in _TOOL_KEYS if key in table]
        if not (get_close_matches("http", table, 1) or table.get("manual") is True):
            found.append(("tools", name, "sql") if "sql" in table else ("tools", name))
            continue
        found += [("tools", name, key) for key in taken]
        if isinstance(probe, dict) and "tool" in probe:
            found.append(("tools", name, "probe", "tool"))
            taken.append("probe")
        yield name, {key: value for key, value in table.items() if key not in taken} if table is tool else tool


def _below(table: str, value: object) -> Iterator[KeyPath]:
    """Each named table below, else the table itself."""
    if isinstance(value, dict):
        yield from ((table, str(name)) for name in cast("dict[str, object]", value))
    elif isinstance(value, list):
        yield from ((table, index) for index in range(len(cast("list[object]", value))))
    else:
        yield (table,)


def _is_oauth(value: object) -> bool:
    return value == "oauth"


def _is_postgresql(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("postgresql", "postgres:"))


def _is_given(value: object) -> bool:
    return isinstance(value, str) and value != ""


_KEYS: Final = (
    ("auth", "mode", _is_oauth),
    ("auth", "issuer", _is_given),
    ("auth", "audience", _is_given),
    ("auth", "jwks_url", _is_given),
    ("ledger", "url", _is_postgresql),
    ("approvals", "webhook", _is_given),
)
