"""The references of a chain: the same run of steps in other engines, each a durable record a step on a SQLite file.

Each is measured only where it is installed (`counterfoil[bench]`), in the form that is the faster one here: plain
functions, a thread for each run that is open. None of them may speak to anybody, so whatever makes one do so is off.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict

Run: TypeAlias = Callable[[int], Awaitable[None]]
"""Carries one run out, from its start to its end; the number only tells one from another."""
Open: TypeAlias = Callable[[Path, int, int], AbstractAsyncContextManager[Run]]
"""Opens an engine in this folder, for runs of so many steps, so many of them at once."""

EXTRA: Final = "counterfoil[bench]"
DBOS: Final = "DBOS"
LANGGRAPH: Final = "LangGraph"
_QUIET: Final = {
    "LANGSMITH_TRACING": "false", "LANGSMITH_TRACING_V2": "false", "LANGCHAIN_TRACING_V2": "false",
    "DBOS__CLOUD": "false", "OTEL_SDK_DISABLED": "true",
}  # fmt: skip


class WrongEndError(RuntimeError):
    """A run did not end with what its steps make, so that nothing was measured."""


def installed() -> dict[str, Open | None]:
    """Each engine by its name; None where it is not there."""
    modules = {
        DBOS: (("dbos",), _dbos),
        LANGGRAPH: (("langgraph", "langgraph.checkpoint.sqlite"), _langgraph),
    }
    return {name: opens if all(map(_is_there, needed)) else None for name, (needed, opens) in modules.items()}


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of its parent
        return False


@asynccontextmanager
async def _dbos(folder: Path, steps: int, at_once: int) -> AsyncGenerator[Run]:
    """A workflow of steps that are called one after the other; its journal is SQLite's own, as DBOS sets it."""
    with _silence():
        dbos = import_module("dbos")
        engine: Any = dbos.DBOS

        @engine.step()  # type: ignore[untyped-decorator]  # the module is not there where types are checked
        def step(value: int) -> int:
            return value + 1

        @engine.workflow()  # type: ignore[untyped-decorator]
        def chain() -> int:
            value = 0
            for _ in range(steps):
                value = step(value)
            return value

        configuration = {
            "name": "counterfoil-bench", "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}",
            "application_version": "1", "executor_id": "bench", "log_level": "ERROR", "enable_otlp": False,
        }  # fmt: skip
        engine(config=configuration)
        await asyncio.to_thread(engine.launch)
        try:
            with _threads(at_once, chain, steps) as run:
                yield run
        finally:
            await asyncio.to_thread(engine.destroy, destroy_registry=True)


class _State(TypedDict):
    value: int


@asynccontextmanager
async def _langgraph(folder: Path, steps: int, at_once: int) -> AsyncGenerator[Run]:
    """A graph with a node for each step; what a node gives is written before the next one begins."""
    with _silence():
        graph: Any = import_module("langgraph.graph")
        saver: Any = import_module("langgraph.checkpoint.sqlite").SqliteSaver
        builder = graph.StateGraph(_State)
        names = [f"s{n}" for n in range(steps)]
        for name in names:
            builder.add_node(name, _node)
        for before, after in zip((graph.START, *names), (*names, graph.END), strict=True):
            builder.add_edge(before, after)
        numbers = count()
        with saver.from_conn_string(str(folder / "langgraph.sqlite")) as checkpointer:
            compiled = builder.compile(checkpointer=checkpointer)

            def chain() -> int:
                which = {"configurable": {"thread_id": str(next(numbers))}, "recursion_limit": steps + 5}
                ended: int = compiled.invoke({"value": 0}, which, durability="sync")["value"]
                return ended

            with _threads(at_once, chain, steps) as run:
                yield run


def _node(state: _State) -> _State:
    return {"value": state["value"] + 1}


@contextmanager
def _threads(at_once: int, chain: Callable[[], int], expected: int) -> Generator[Run]:
    """A run as something to await: `chain` in a thread of its own."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(at_once) as pool:

        async def run(_number: int) -> None:
            ended = await loop.run_in_executor(pool, chain)
            if ended != expected:
                raise WrongEndError(f"a chain of {expected} steps: expected {expected} at its end, got {ended}")

        yield run


@contextmanager
def _silence() -> Generator[None]:
    """What turns off an engine's wish to report, for as long as it is open."""
    before = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update(_QUIET)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
