"""Our side of a chain: a plan of governed writes, checked once, and runs of it, by embedding; durability is `full`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from ...canonical import JsonObject, JsonValue
from ..app import open_app
from .engines import Run, WrongEndError
from .stage import CONFIG, folder
from .tools import STEP


@asynccontextmanager
async def our_runs(steps: int) -> AsyncGenerator[Run]:
    """Runs of so many steps, in a ledger of their own."""
    with folder() as path:
        async with open_app(path / CONFIG) as app:
            plan_id = str((await app.plan(_chain(steps))).wire()["plan_id"])
            numbers = count()

            async def run(_number: int) -> None:
                ended: dict[str, Any] = (await app.run(plan_id, request_key=str(next(numbers)))).wire()
                last = ended["outputs"].get(f"s{steps - 1}") if ended["status"] == "succeeded" else None
                if last != {"value": steps}:
                    raise WrongEndError(f"a run of {steps} steps: expected {steps} at its end, got {last} ({ended})")

            yield run


def _chain(steps: int) -> JsonObject:
    made: list[JsonValue] = [
        {"id": f"s{n}", "tool": STEP, "args": {"value": f"${{s{n - 1}.value}}" if n else 0}} for n in range(steps)
    ]
    return {"goal": "Count the steps.", "steps": made}
