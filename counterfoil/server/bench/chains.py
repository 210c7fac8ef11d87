"""Steps a second of whole runs, beside DBOS and LangGraph doing the same on files of their own; and of a long run.

Each run is a chain of steps that do nothing, each given what the one before it gave. Ours has two durable records a
step, one before the tool is called and one after; theirs have one, after.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import tracemalloc
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

from .engines import DBOS, EXTRA, LANGGRAPH, Open, Run, installed
from .figures import Figure, at_least, at_most
from .our_runs import our_runs
from .rounds import Contestant, Sample, Tell, at_once, cpu_ms, rate, take_turns
from .settings import Settings

STEPS: Final = 10
TARGETS: Final = {16: 5.0, 1: 1.5}
"""By how many runs are open at once: how many times the steps a second of each reference."""
LONG_TARGET: Final = 1.2
"""1 is linear; the rest is what two runs of the same thing may differ by."""
LONG_PART: Final = 10
"""How many times as long as the run that it stands beside a long one is."""
_OURS: Final = "counterfoil"
_AGAINST: Final = {
    DBOS: "DBOS, workflows of steps in threads, its system database on SQLite",
    LANGGRAPH: 'LangGraph, nodes in threads, its SQLite checkpointer, durability="sync"',
}
_MISSING: Final = f"not installed: pip install {EXTRA}"
_KIB: Final = 1024


def measure(settings: Settings, tell: Tell) -> list[Figure]:
    """Runs at once and one after the other, beside each engine that is here; then a long run."""
    return asyncio.run(_measure(settings, tell))


async def _measure(settings: Settings, tell: Tell) -> list[Figure]:
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        runs = {_OURS: await stack.enter_async_context(our_runs(STEPS))}
        for name, engine in installed().items():
            if engine is not None:
                tell(f"chains: opening {name}")
                runs[name] = await _opened(stack, engine)
        for concurrency in TARGETS:
            many = settings.runs if concurrency > 1 else settings.single_runs
            contestants = {name: partial(_steps, run, concurrency, many, STEPS) for name, run in runs.items()}
            what = f"chains, {concurrency} at once"
            taken = await take_turns(what, contestants, settings.chain_rounds, tell)
            figures += [one for name in _AGAINST for one in _figures(concurrency, name, taken)]
    return figures + await _long(settings, tell)


async def _opened(stack: AsyncExitStack, engine: Open) -> Run:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="counterfoil-bench-"))
    return await stack.enter_async_context(engine(Path(folder), STEPS, max(TARGETS)))


async def _steps(run: Run, concurrency: int, runs: int, steps: int) -> Sample:
    """What one step of so many runs cost."""
    one = await at_once(run, concurrency, runs)
    return Sample(one.cpu_s / steps, one.wall_s / steps)


def _figures(concurrency: int, name: str, taken: dict[str, list[Sample]]) -> list[Figure]:
    ours, against, target = taken[_OURS], _AGAINST[name], at_least(TARGETS[concurrency])
    figure = f"chains.{concurrency}.{name.lower()}"
    title = f"{f'{concurrency} runs at once' if concurrency > 1 else 'one run after another'}, beside {name}"
    if name not in taken:
        return [Figure.alone(figure, title, "steps/s", rate(ours), against=against, target=target, missing=_MISSING)]
    reference = taken[name]
    return [
        Figure.of(figure, title, "steps/s", rate(ours), rate(reference), against=against, target=target),
        Figure.of(f"{figure}.cpu", f"{title}, CPU", "ms", cpu_ms(ours), cpu_ms(reference), against=against),
    ]  # fmt: skip


async def _long(settings: Settings, tell: Tell) -> list[Figure]:
    """Time and memory of a step in a long run, beside one in a run of a tenth of its length."""
    lengths = {"long": settings.long_steps, "short": settings.long_steps // LONG_PART}
    async with AsyncExitStack() as stack:
        runs = {name: await stack.enter_async_context(our_runs(steps)) for name, steps in lengths.items()}
        contestants: dict[str, Contestant] = {
            name: partial(_steps, run, 1, 1, lengths[name]) for name, run in runs.items()
        }
        taken = await take_turns("chains, a long run", contestants, settings.chain_rounds, tell)
        tell("chains, a long run: memory")
        memory = {name: [await _peak_kib(run) / lengths[name]] for name, run in runs.items()}
    title, against = f"a step of {lengths['long']:,}", f"a step of {lengths['short']:,}"
    target = at_most(LONG_TARGET)
    return [
        Figure.of(
            "chains.long.cpu", f"{title}, CPU", "ms", cpu_ms(taken["long"]), cpu_ms(taken["short"]),
            against=against, target=target,
        ),
        Figure.of(
            "chains.long.memory", f"{title}, peak memory", "KiB", memory["long"], memory["short"],
            against=against, target=target,
        ),
    ]  # fmt: skip


async def _peak_kib(run: Run) -> float:
    """How much more memory Python holds at the worst moment of a run than before it."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await run(0)
        return (tracemalloc.get_traced_memory()[1] - before) / _KIB
    finally:
        tracemalloc.stop()
