"""Plans for the runtime's tests, and how they talk about the runs of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from counterfoil.registry.principal import Principal
from counterfoil.server.app import App
from tests.runtime.talk import LIMIT_S

Wire = dict[str, Any]


def step(name: str, tool: str = "note", /, **more: Any) -> Wire:
    """A step whose reference is its own name."""
    return {"id": name, "tool": tool, "args": {"ref": name}} | more


def plan(*steps: Wire, **more: Any) -> Wire:
    return {"goal": "see it through", "steps": list(steps)} | more


def somebody(app: App, **who: Any) -> Principal:
    """The local principal, but for this."""
    return replace(app.local, **who)


async def planned(app: App, *steps: Wire, **more: Any) -> str:
    """The id of a plan that was accepted."""
    view = await app.plan(plan(*steps, **more))
    assert view.plan_id is not None, view.wire()
    return view.plan_id


async def begun(app: App, wanted: str | Wire, **more: Any) -> Wire:
    """A run of this plan, or of the one with this id, without any wait."""
    view: Wire = (await app.run(wanted, wait_s=0, **more)).wire()
    return view


async def ran(app: App, *steps: Wire, **more: Any) -> Wire:
    """A new run of these steps, once nothing about it moves by itself."""
    return (await app.run(plan(*steps, **more))).wire()


async def seen(app: App, run_id: str, enough: Callable[[Wire], bool]) -> Wire:
    """The run once it is so."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            view = (await app.runtime.status(app.local, run_id=run_id)).wire()
            if enough(view):
                return view
            await asyncio.sleep(0.02)


async def until(app: App, run_id: str, *statuses: str) -> Wire:
    """The run once it is in one of these statuses."""
    return await seen(app, run_id, lambda view: view["status"] in statuses)


def states(view: Wire) -> dict[str, str]:
    """The state of each step."""
    return {one["id"]: one["state"] for one in view["steps"]}


def of(view: Wire, name: str) -> Wire:
    """One step."""
    return next(one for one in view["steps"] if one["id"] == name)
