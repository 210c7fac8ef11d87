"""Time and names come in from outside: the runtime reads no global clock and makes no id of its own."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

from ..randomness import random_bytes

MICROSECOND = 1_000_000


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
    """Names from the operating system's random source."""

    def new(self, prefix: str) -> str:
        """A prefix and 128 random bits in hex."""
        return prefix + random_bytes().hex()


def rfc3339(at: int | None) -> str | None:
    """A time as the wire shows it, or None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / MICROSECOND, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def micros(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * MICROSECOND)
