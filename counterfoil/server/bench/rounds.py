"""Taking turns: every contestant once in each round, so that a busy machine is busy for all of them.

Time is measured twice: on the clock, and as CPU time of the whole process, all threads included.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

MS: Final = 1_000.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What one item cost, in seconds."""

    cpu_s: float
    wall_s: float


Key = TypeVar("Key", bound=str)
Contestant: TypeAlias = Callable[[], Awaitable[Sample]]
Tell: TypeAlias = Callable[[str], None]
"""Told what is being measured now."""


async def take_turns(
    what: str, contestants: Mapping[Key, Contestant], rounds: int, tell: Tell
) -> dict[Key, list[Sample]]:
    """The samples of each contestant, round by round; a first round only warms up and is not counted."""
    taken: dict[Key, list[Sample]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        tell(f"{what}: round {number} of {rounds}" if number else f"{what}: warming up")
        for name, contestant in contestants.items():
            sample = await contestant()
            if number:
                taken[name].append(sample)
    return taken


async def at_once(call: Callable[[int], Awaitable[None]], concurrency: int, count: int) -> Sample:
    """What one of `count` calls cost, `concurrency` of them open at any time."""
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await call(number)

    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(client())
    return Sample((time.process_time() - cpu) / count, (time.perf_counter() - wall) / count)


def measured(work: Callable[[], object], count: int = 1) -> Sample:
    """What one of `count` items of some work without waiting cost."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Sample((time.process_time() - cpu) / count, (time.perf_counter() - wall) / count)


def cpu_ms(samples: list[Sample]) -> list[float]:
    """Their CPU time, in milliseconds."""
    return [sample.cpu_s * MS for sample in samples]


def wall_ms(samples: list[Sample]) -> list[float]:
    """Their time on the clock, in milliseconds."""
    return [sample.wall_s * MS for sample in samples]


def rate(samples: list[Sample]) -> list[float]:
    """How many in a second, on the clock."""
    return [1 / sample.wall_s for sample in samples]
