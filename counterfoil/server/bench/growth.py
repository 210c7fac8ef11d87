"""That a call costs what it costs: with many tools registered, and with an old ledger, beside few and none."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from ...ledger.measure import fill
from ...registry.catalogue import Catalogue
from .figures import Figure, at_most
from .rounds import Contestant, Tell, cpu_ms, take_turns
from .settings import Settings
from .stage import LEDGER, folder, governed
from .synthetic import Nothing, tools
from .tools import WRITE

FEW: Final = 10
CONCURRENCY: Final = 16
TARGET: Final = 1.2
"""1 is no growth; the rest is what two runs of the same thing may differ by."""


def measure(settings: Settings, tell: Tell) -> list[Figure]:
    """A governed write on four servers in this process: few and many tools, an empty and an old ledger."""
    return asyncio.run(_measure(settings, tell))


async def _measure(settings: Settings, tell: Tell) -> list[Figure]:
    async with AsyncExitStack() as stack:
        contestants: dict[str, Contestant] = {}
        for name, (registered, recorded) in {
            "few": (FEW, 0), "many": (settings.tools, 0), "old": (FEW, settings.old_calls),
        }.items():  # fmt: skip
            tell(f"growth: {registered:,} tools, {recorded:,} recorded calls")
            path = stack.enter_context(folder())
            if recorded:
                await fill(path / LEDGER, recorded)
            app, caller = await stack.enter_async_context(governed(path))
            await asyncio.to_thread(_furnish, app.catalogue, registered)
            contestants[name] = partial(caller.calls, WRITE, CONCURRENCY, settings.calls)
        taken = await take_turns("growth", contestants, settings.rounds, tell)
    few, many, old = (cpu_ms(taken[name]) for name in ("few", "many", "old"))
    return [
        Figure.of(
            "growth.tools", f"governed write with {settings.tools:,} tools, CPU", "ms", many, few,
            against=f"the same with {FEW} tools", target=at_most(TARGET),
        ),
        Figure.of(
            "growth.ledger", f"governed write after {settings.old_calls:,} calls, CPU", "ms", old, few,
            against="the same on an empty ledger", target=at_most(TARGET),
        ),
    ]  # fmt: skip


def _furnish(catalogue: Catalogue, count: int) -> None:
    """Register so many tools; in a thread, before anybody calls, since the loop would stand still meanwhile."""
    for contract in tools(count):
        catalogue.register(contract, Nothing())
