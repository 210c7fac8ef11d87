"""Times as a person reads them: how long ago, how long it took. Pure: now is handed in."""

from __future__ import annotations

from datetime import datetime
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 3_600
_DAY: Final = 86_400


def moment(at: object) -> datetime | None:
    """An RFC 3339 time; None for what is none."""
    if not isinstance(at, str):
        return None
    try:
        read = datetime.fromisoformat(at)
    except ValueError:
        return None
    return read if read.tzinfo is not None else None


def between(begin: object, end: object) -> str | None:
    """How long it was from one time to another; None where one is not known."""
    first, last = moment(begin), moment(end)
    return None if first is None or last is None else span((last - first).total_seconds())


def ago(at: object, now: datetime) -> str:
    """How long before `now` that was, in its largest unit: `4 m ago`; `-` where it is not known."""
    then = moment(at)
    if then is None:
        return "-"
    number, unit = span(max(0.0, (now - then).total_seconds())).split()[:2]
    return f"{int(float(number))} {unit} ago"


def span(seconds: float) -> str:
    """`0.012 s`, `12.3 s`, `3 m 12 s`, `5 h 2 m`, `3 d 4 h`."""
    if seconds < 1:
        return f"{seconds:.3f} s"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} m {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} m"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def to_the_second(at: object) -> str | None:
    """`2026-11-30 19:56:40Z`; None for no time."""
    return f"{str(at)[:19]}Z".replace("T", " ") if at else None
