"""One call through the real MCP surface, governed and recorded, beside the SDK's own call of the same function."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from .bare import NAME, bare_server
from .figures import Figure, at_most
from .rounds import Sample, Tell, cpu_ms, take_turns, wall_ms
from .settings import Settings
from .stage import bare, folder, governed
from .tools import READ, WRITE

TARGETS: Final = {16: (1.7, 2.2), 1: (2.5, 4.0)}
"""By how many are open at once: what a read and a write may cost, in CPU time of the reference."""
_AGAINST: Final = "the SDK's own call of the same function"


def measure(settings: Settings, tell: Tell) -> list[Figure]:
    """Read and write, at 16 at once and one at a time."""
    return asyncio.run(_measure(settings, tell))


async def _measure(settings: Settings, tell: Tell) -> list[Figure]:
    figures: list[Figure] = []
    with folder() as path:
        async with governed(path) as (_, ours), bare(bare_server()) as reference:
            for concurrency in TARGETS:
                count = settings.calls if concurrency > 1 else settings.single_calls
                contestants = {
                    "bare": partial(reference.calls, NAME, concurrency, count),
                    "read": partial(ours.calls, READ, concurrency, count),
                    "write": partial(ours.calls, WRITE, concurrency, count),
                }
                what = f"call, {concurrency} at once"
                taken = await take_turns(what, contestants, settings.rounds, tell)
                figures += _figures(concurrency, taken)
    return figures


def _figures(concurrency: int, taken: dict[str, list[Sample]]) -> list[Figure]:
    figures: list[Figure] = []
    for kind, target in zip(("read", "write"), TARGETS[concurrency], strict=True):
        name, title = f"call.{kind}.{concurrency}", f"governed {kind}, {concurrency} at once"
        ours, reference = taken[kind], taken["bare"]
        figures += [
            Figure.of(
                f"{name}.cpu", f"{title}, CPU", "ms", cpu_ms(ours), cpu_ms(reference),
                against=_AGAINST, target=at_most(target),
            ),
            Figure.of(
                f"{name}.wall", f"{title}, wall", "ms", wall_ms(ours), wall_ms(reference), against=_AGAINST
            ),
        ]  # fmt: skip
    return figures
