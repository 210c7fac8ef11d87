"""What an adversary found: guards after an effect, requests that join and leave, calls that outlive their process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from counterfoil.registry.request import CallRequest
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App, open_app

pytestmark = pytest.mark.anyio
LIMIT_S = 20
NUMBERS = itertools.count()
TOOLS = """
import asyncio
from counterfoil import Call, tool
EFFECTS, ACTED, GO = [], asyncio.Event(), asyncio.Event()

@tool(effect="write")
async def twice_guarded(x: str, call: Call) -> str:
    "Acts between two guards."
    await call.guard()
    EFFECTS.append(x)
    ACTED.set()
    await GO.wait()
    await call.guard()
    return x

@tool(effect="write")
async def slow(x: str) -> str:
    "Acts, and answers when it is told to."
    EFFECTS.append(x)
    ACTED.set()
    await GO.wait()
    return x
"""


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[App, dict[str, object]]]:
    name = f"late_stop_tools_{next(NUMBERS)}"
    (folder / f"{name}.py").write_text(TOOLS)
    (folder / "counterfoil.toml").write_text(
        f'[server]\ngrace_s = 0\n[ledger]\nurl = "sqlite+aiosqlite:///l.db"\n[python]\nmodules = ["{name}"]\n'
        '[policy_defaults]\nwrite = "allow"\n'
    )
    async with open_app(folder / "counterfoil.toml") as app:
        yield app, vars(__import__(name))


def event(module: dict[str, object], name: str) -> asyncio.Event:
    found = module[name]
    assert isinstance(found, asyncio.Event)
    return found


async def ask(app: App, tool: str) -> CallView:
    return await app.runtime.call(CallRequest(principal=app.local, tool=tool, arguments={"x": "a"}))


async def test_a_guard_after_the_one_that_let_a_tool_act_never_says_that_nothing_was_sent(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), opened(tmp_path) as (app, module):
        asked = asyncio.create_task(ask(app, "twice_guarded"))
        await event(module, "ACTED").wait()
        (call_id,) = app.runtime._parts.cases  # pyright: ignore[reportPrivateUsage] (the id before the answer)
        await app.runtime.cancel(app.local, call_id=call_id)
        event(module, "GO").set()
        view = await asked
    assert (view.state, view.outcome, view.sent) == ("awaiting_reconciliation", "ambiguous", "unknown")
    assert module["EFFECTS"] == ["a"]


@pytest.mark.parametrize("steps", [0, 1, 3, 10, 30])
async def test_a_request_that_joins_and_leaves_does_not_hide_a_lost_answer(tmp_path: Path, steps: int) -> None:
    async with asyncio.timeout(LIMIT_S), opened(tmp_path) as (app, module):
        first = asyncio.create_task(ask(app, "slow"))
        await event(module, "ACTED").wait()
        first.cancel()
        await asyncio.wait({first})
        joining = asyncio.create_task(ask(app, "slow"))
        for _ in range(steps):
            await asyncio.sleep(0)
        joining.cancel()
        await asyncio.wait({joining})
        third = asyncio.create_task(ask(app, "slow"))
        await asyncio.sleep(0.2)
        event(module, "GO").set()
        view = await third
    assert (view.replayed, view.outcome) == (True, "success")
    assert module["EFFECTS"] == ["a"]


async def test_whoever_waits_is_answered_when_the_process_stops(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S):
        async with opened(tmp_path) as (app, module):
            asked = asyncio.create_task(ask(app, "slow"))
            await event(module, "ACTED").wait()
        view = await asked
    assert view.sent == "unknown"
    assert view.outcome is None
