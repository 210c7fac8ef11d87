"""A clock that the test owns. Wall time stands still until it is set; monotonic time runs on, as the machine's does."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

START: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_MICROSECOND: Final = 1_000_000


@dataclass(slots=True)
class SetClock:
    """`at` is the wall time; `ahead_s` is added to monotonic time."""

    at: datetime = START
    ahead_s: float = 0.0
    _zero: float = field(default_factory=time.monotonic)

    def now(self) -> int:
        """Microseconds since 1970 in UTC."""
        whole = self.at - datetime(1970, 1, 1, tzinfo=UTC)
        return (whole.days * 86_400 + whole.seconds) * _MICROSECOND + whole.microseconds

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return time.monotonic() - self._zero + self.ahead_s
