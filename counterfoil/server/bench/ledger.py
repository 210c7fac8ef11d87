"""How many calls the ledger records, beside a bare group-committing writer and beside the naive way, on one disk."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from ...ledger.measure import CONCURRENCY, Way, cost
from .figures import Figure, at_least
from .rounds import Sample, Tell, cpu_ms, rate, take_turns
from .settings import Settings

JUDGED: Final = 64
TARGET: Final = 0.5
_AGAINST: Final = "a bare group-committing SQLite writer"
_NAIVE: Final = "SQLAlchemy's async engine, statement by statement"
_NAIVE_PART: Final = 8
"""The naive way is so slow that it is measured by fewer calls."""


def measure(settings: Settings, tell: Tell) -> list[Figure]:
    """Both references at each concurrency."""
    return asyncio.run(_measure(settings, tell))


async def _measure(settings: Settings, tell: Tell) -> list[Figure]:
    figures: list[Figure] = []
    for concurrency in CONCURRENCY:
        count = max(settings.ledger_calls * min(concurrency, 16) // 16, 40)
        contestants = {
            Way.BARE: partial(_sample, Way.BARE, concurrency, count),
            Way.GOVERNED: partial(_sample, Way.GOVERNED, concurrency, count),
            Way.NAIVE: partial(_sample, Way.NAIVE, concurrency, max(count // _NAIVE_PART, 20)),
        }
        what = f"ledger, {concurrency} at once"
        figures += _figures(concurrency, await take_turns(what, contestants, settings.ledger_rounds, tell))
    return figures


async def _sample(way: Way, concurrency: int, count: int) -> Sample:
    one = await cost(way, concurrency, count)
    return Sample(one.cpu_s, one.wall_s)


def _figures(concurrency: int, taken: dict[Way, list[Sample]]) -> list[Figure]:
    bare, governed, naive = taken[Way.BARE], taken[Way.GOVERNED], taken[Way.NAIVE]
    name, title = f"ledger.{concurrency}", f"ledger, {concurrency} at once"
    target = at_least(TARGET) if concurrency == JUDGED else None
    return [
        Figure.of(f"{name}.rate", title, "calls/s", rate(governed), rate(bare), against=_AGAINST, target=target),
        Figure.of(f"{name}.cpu", f"{title}, CPU", "ms", cpu_ms(governed), cpu_ms(bare), against=_AGAINST),
        Figure.of(f"{name}.naive", title, "calls/s", rate(governed), rate(naive), against=_NAIVE),
    ]
