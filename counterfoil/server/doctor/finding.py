"""What a check found, and how a check that itself fails becomes a finding. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, TypeVar

T = TypeVar("T")


class Level(StrEnum):
    """How bad a finding is: only a problem stops work."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what there is, and what to do about it where something can be done."""

    check: str
    level: Level
    what: str
    do: str = ""


Check: TypeAlias = Callable[[T], Iterable[Finding]]


def ok(check: str, what: str) -> Finding:
    """It works."""
    return Finding(check, Level.OK, what)


def note(check: str, what: str, do: str = "") -> Finding:
    """It works, and is worth knowing."""
    return Finding(check, Level.NOTE, what, do)


def problem(check: str, what: str, do: str) -> Finding:
    """It stops work."""
    return Finding(check, Level.PROBLEM, what, do)


def guarded(name: str, check: Check[T], subject: T) -> Iterator[Finding]:
    """What the check finds; one that fails is itself a finding, so that the others still say theirs."""
    try:
        yield from check(subject)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (a check meets anything: modules, disks, accounts)
        said = f"this check itself failed: {type(error).__name__}: {error}"
        yield problem(name, said, "the rest stands; please report this with the output of --json")
