"""What the checks go by: the configuration's file as far as it can be read, and the configuration where it is right."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from ..config import FILE_NAME, ConfigError, Configuration, find, load

_SECRET: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_NO_SECRETS_IN: Final = frozenset({"policy"})  # arguments of tests, and texts to compare with


@dataclass(frozen=True, slots=True)
class Basis:
    """A configuration that may be absent, unreadable or wrong; `document` is what it says if it is TOML at all."""

    path: Path | None
    configuration: Configuration | None = None
    problems: tuple[str, ...] = ()
    document: dict[str, Any] = field(default_factory=dict[str, Any])

    def table(self, name: str) -> dict[str, Any]:
        """One table of the document; empty if there is none."""
        found = self.document.get(name)
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    @property
    def secrets(self) -> list[str]:
        """Every secret reference in it, whichever table it stands in."""
        return self.secrets_outside()

    def secrets_outside(self, *others: str) -> list[str]:
        """Every secret reference that stands in none of these tables."""
        tables = (value for name, value in self.document.items() if name not in _NO_SECRETS_IN.union(others))
        return list(dict.fromkeys(text for table in tables for text in _texts(table) if _SECRET.fullmatch(text)))


def read_basis(named: Path | None, folder: Path) -> Basis:
    """The configuration that was named, else the nearest one in or above `folder`; never raises for its content."""
    path = named or find(folder)
    if path is None:
        return Basis(None, problems=(f"there is no {FILE_NAME} here or in a folder above",))
    path = path.absolute()
    document = _document(path)
    try:
        return Basis(path, load(path), document=document)
    except ConfigError as error:
        return Basis(path, problems=tuple(map(str, error.problems)), document=document)


def _document(path: Path) -> dict[str, Any]:
    """What the file says, empty if it is no TOML: `load` tells why."""
    try:
        return tomllib.loads(path.read_bytes().decode())
    except (OSError, ValueError):
        return {}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in cast("dict[str, object]", value).values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in cast("list[object]", value):
            yield from _texts(member)
