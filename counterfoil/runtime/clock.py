"""Time and names come in from outside: the runtime reads no global clock and makes no id of its own."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Protocol

MICROSECOND = 1_000_000
_BYTES = 16
_AHEAD = 64


class Clock(Protocol):
    """Wall time for records, monotonic time for waiting."""

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        ...


class Ids(Protocol):
    """New opaque names."""

    def new(self, prefix: str) -> str:
        """A name that nobody has had: the prefix (such as `call_`) and at least 128 random bits."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return time.monotonic()


class RandomIds:
    """Names from the operating system's random source, which is asked for many at a time."""

    def __init__(self) -> None:
        self._ahead: list[str] = []
        if hasattr(os, "register_at_fork"):  # a child must not give the names that its parent gives
            os.register_at_fork(after_in_child=self._ahead.clear)

    def new(self, prefix: str) -> str:
        """A prefix and 128 random bits in hex."""
        if not self._ahead:
            drawn = os.urandom(_AHEAD * _BYTES).hex()
            self._ahead.extend(drawn[start : start + 2 * _BYTES] for start in range(0, len(drawn), 2 * _BYTES))
        return prefix + self._ahead.pop()


def rfc3339(at: int | None) -> str | None:
    """A time as the wire shows it, or None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / MICROSECOND, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def micros(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * MICROSECOND)
