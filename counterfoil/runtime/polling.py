"""When a far side that has accepted a call is asked how far it is, and for how long. Pure: times in, times out.

The pause grows with the time that the call has waited, from seconds to minutes, and a long wait has no more questions
than a short one: some three hundred at most, whatever `external_wait_s` is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ..ledger.external import Acceptance
from .clock import micros

if TYPE_CHECKING:
    from ..registry.contract import Contract

FIRST_S: Final = 5.0
LONGEST_S: Final = 300.0
MOST: Final = 300
JITTER: Final = 0.2
LEASE_S: Final = 30.0
"""Beyond the probe's own time: after this a question of which nothing came is asked again, in seconds."""


def acceptance(contract: Contract, at: int, after_s: float | None) -> Acceptance:
    """Until when a call that was accepted at `at` is waited for, and when the far side is asked first.

    `after_s` is how long the far side would rather be left alone, in seconds.
    """
    until = at + micros(contract.limits.external_wait_s)
    return Acceptance(until, min(until, at + micros(max(FIRST_S, _wish(after_s, contract)))))


def next_poll(contract: Contract, until: int, now: int, after_s: float | None, chance: float) -> int:
    """When it is asked again after it was asked at `now`; at the end of the wait at the latest.

    `until` is the end of the wait, `chance` a random number from 0 to 1.
    """
    wait_s = contract.limits.external_wait_s
    waited_s = (now - until) / 1_000_000 + wait_s
    longest_s = max(LONGEST_S, wait_s / MOST)
    pause_s = max(FIRST_S, min(longest_s, waited_s)) * (1 + JITTER * chance)
    return max(now + 1, min(until, now + micros(max(pause_s, _wish(after_s, contract)))))


def _wish(after_s: float | None, contract: Contract) -> float:
    """What the far side asks for, within the wait."""
    wish = 0.0 if after_s is None or math.isnan(after_s) else after_s
    return min(wish, contract.limits.external_wait_s)
