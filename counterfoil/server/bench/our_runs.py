"""Our side of a chain: a governed write a step, everything recorded with durability `full`, called by embedding."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ...canonical import JsonValue
from ..app import open_app
from .engines import Run, WrongEndError
from .stage import CONFIG, folder
from .tools import STEP


@asynccontextmanager
async def our_runs(steps: int) -> AsyncGenerator[Run]:
    """Runs of so many steps, in a ledger of their own."""
    with folder() as path:
        async with open_app(path / CONFIG) as app:

            async def run(_number: int) -> None:
                value: JsonValue = 0
                for _ in range(steps):
                    output = (await app.call(STEP, {"value": value})).wire()["output"]
                    value = output["value"] if isinstance(output, dict) else None
                if value != steps:
                    raise WrongEndError(f"a run of {steps} steps: expected {steps} at its end, got {value!r}")

            yield run
