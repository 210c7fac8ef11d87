"""Whether and when another attempt of a call is made. Pure: it is told what happened and how much time is left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..registry.vocabulary import Idempotency

if TYPE_CHECKING:
    from ..registry.contract import Contract, Retry

JITTER = 0.5
LONGEST_BACKOFF_S = 60.0


@dataclass(frozen=True, slots=True)
class Again:
    """Make another attempt after this many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Enough:
    """Make no other attempt, because."""

    why: str


def next_attempt(retry: Retry, attempts: int, left_s: float, wish_s: float | None, chance: float) -> Again | Enough:
    """Decide after a failure that may be tried again.

    Args:
        retry: the contract's budget.
        attempts: how many were made.
        left_s: what is left of the call's time, in seconds.
        wish_s: how long the other side asked to be left alone (Retry-After), in seconds.
        chance: a random number from 0 to 1, for the jitter.
    """
    if attempts >= retry.attempts:
        return Enough("its attempts are used up")
    backoff = min(LONGEST_BACKOFF_S, retry.backoff_s * 2 ** (attempts - 1)) * (1 - JITTER + JITTER * 2 * chance)
    wait = max(backoff, 0.0 if wish_s is None or math.isnan(wish_s) else wish_s)
    if wait + retry.least_s > left_s:
        return Enough("too little time is left for another attempt")
    return Again(wait)


def harmless_again(contract: Contract) -> bool:
    """True if a second attempt has no second effect, even where the first one may have had its own."""
    return contract.is_read or contract.recovery.idempotency is not Idempotency.NONE


def time_budget(retry: Retry, timeout_s: float) -> float:
    """The time that all attempts of one call may take together, in seconds."""
    return retry.attempts * timeout_s + (retry.attempts - 1) * LONGEST_BACKOFF_S
