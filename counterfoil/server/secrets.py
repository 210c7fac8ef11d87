"""Secret references, `env:NAME` and `file:PATH`, and their values at the moment of a call.

A value is never kept here, and never stands in a message, a representation or a log.

    SecretError     the reference has no value now; the message names the reference alone
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 64 * 1024


class SecretError(Exception):
    """`REFERENCE: what is missing and what to do`."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A resolved value that does not show itself; `reveal` where it is used."""

    _value: str = field(repr=False)

    def __str__(self) -> str:
        return "(secret)"

    def reveal(self) -> str:
        """The value itself."""
        return self._value


def resolve(reference: str, folder: Path, environment: Mapping[str, str] | None = None) -> Secret:
    """The value of a reference now; a relative `file:` is relative to `folder`, the configuration's.

    Raises:
        SecretError: the variable is not set, or the file cannot be read, is empty or too large.
    """
    kind, _, name = reference.partition(":")
    match kind:
        case "env":
            return _from_environment(reference, name, os.environ if environment is None else environment)
        case "file":
            return _from_file(reference, folder / name)
        case _:
            raise SecretError("a secret reference is env:NAME or file:PATH; this one is neither")


def _from_environment(reference: str, name: str, environment: Mapping[str, str]) -> Secret:
    value = environment.get(name, "")
    if not value:
        raise SecretError(f"{reference}: the variable is not set; set it where the server is started")
    return Secret(value)


def _from_file(reference: str, path: Path) -> Secret:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SecretError(f"{reference}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise SecretError(f"{reference}: expected at most {MAX_BYTES} bytes")
    try:
        value = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise SecretError(f"{reference}: expected UTF-8 text") from None
    if not value:
        raise SecretError(f"{reference}: the file is empty")
    return Secret(value)
