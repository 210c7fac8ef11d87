"""Rates, capacity, and the breaker for repeated failures, as plain values.

No clock: `now` is a parameter, in seconds of one clock that its caller keeps to. Nothing here waits.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Final, NamedTuple

from .contract import Rate

FAILURES: Final = 5
"""Failures or refusals of one call that block it (design section 7)."""
WITHIN_S: Final = 600.0
BLOCKED_S: Final = 600.0
ACTORS_MAX: Final = 1_024
"""Subjects with a tool that the breaker remembers, each with `DIGESTS_MAX` arguments; the oldest go first."""
DIGESTS_MAX: Final = 64


class RateState:
    """The last starts under one `Rate`: never more than `count` of them in any `per_s` seconds.

    Raises:
        ValueError: a rate that lets nothing through, or everything.
    """

    def __init__(self, rate: Rate) -> None:
        if rate.count < 1 or not 0 < rate.per_s < math.inf:
            raise ValueError(f"a rate is a count of 1 or more in a positive time, not {rate.count} in {rate.per_s} s")
        self.rate = rate
        self._starts: deque[float] = deque(maxlen=rate.count)

    def retry_after(self, now: float) -> float:
        """Seconds until the next start is allowed, 0 if it is; a `take` after exactly this long succeeds."""
        if len(self._starts) < self.rate.count:
            return 0.0
        free = self._starts[0] + self.rate.per_s
        wait = free - now
        while wait > 0 and now + wait < free:
            wait = math.nextafter(wait, math.inf)
        return max(wait, 0.0)

    def take(self, now: float) -> float:
        """Start now if that is allowed, and answer 0; else start nothing and answer `retry_after`."""
        wait = self.retry_after(now)
        if wait == 0.0:
            self._starts.append(max(now, self._starts[-1]) if self._starts else now)
        return wait


class Actor(NamedTuple):
    """Who uses which tool."""

    tenant: str
    subject: str
    tool: str


class Breaker:
    """Blocks a call that failed again and again in the same way.

    Its caller reports failures and refusals, never `in_progress` or waiting. What comes while a call is blocked
    changes nothing, so that asking in vain does not prolong it.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[Actor, OrderedDict[str, deque[float]]] = OrderedDict()

    def note_failure(self, actor: Actor, digest: str, now: float) -> None:
        """One more failure or refusal of this tool, subject and argument digest."""
        if self.blocked_until(actor, digest, now) is not None:
            return
        by_digest = self._failures.setdefault(actor, OrderedDict())
        times = by_digest.setdefault(digest, deque(maxlen=FAILURES))
        times.append(now)
        self._failures.move_to_end(actor)
        by_digest.move_to_end(digest)
        if len(by_digest) > DIGESTS_MAX:
            by_digest.popitem(last=False)
        if len(self._failures) > ACTORS_MAX:
            self._failures.popitem(last=False)

    def note_success(self, actor: Actor) -> None:
        """The tool works for this subject: whatever failed before is forgotten."""
        self._failures.pop(actor, None)

    def blocked_until(self, actor: Actor, digest: str, now: float) -> float | None:
        """When the block on this call ends; None if it is not blocked."""
        by_digest = self._failures.get(actor)
        times = by_digest.get(digest) if by_digest else None
        if times is None or len(times) < FAILURES or times[-1] - times[0] > WITHIN_S:
            return None
        until = times[-1] + BLOCKED_S
        return until if now < until else None

    def __len__(self) -> int:
        return sum(map(len, self._failures.values()))
