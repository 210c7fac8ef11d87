"""Chains for tests: a plan written in few words, run and followed through whichever door a test has.

`Ask` is that door: `Seat.ask`, `Served.base`, or a web client's. Every wait here has its limit and ends at a fact.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Final, NamedTuple

from counterfoil.server.app import App
from tests.kit.bench import OPERATOR, Bench, bench
from tests.kit.book import Book
from tests.kit.clock import SetClock
from tests.kit.run_rules import FINAL
from tests.kit.workshop import Workshop

LIMIT_S: Final = 20.0
MODULES: Final = 'modules = ["tests.kit.tools", "tests.kit.more_tools", "tests.kit.chain_tools"]'
_NEWS_S: Final = 0.5
"""How long a look at a run waits for news of it."""

View = dict[str, Any]
Ask = Callable[..., Coroutine[Any, Any, View]]


@asynccontextmanager
async def chained(
    shop: Workshop, more: str = "", *, clock: SetClock | None = None, **head: str
) -> AsyncGenerator[tuple[Bench, Ask]]:
    """A bench with the tools that chains are made of, and its door."""
    async with bench(shop, more, clock=clock, **{"python": MODULES} | head) as at:
        yield at, at.seat.ask


def step(name: str, tool: str, args: View | None = None, /, **fields: Any) -> View:
    """One step; `after` is its `depends_on`."""
    depends = {"depends_on": fields.pop("after")} if "after" in fields else {}
    return {"id": name, "tool": tool, "args": args or {}} | depends | fields


def plan(*steps: View, goal: str = "See it through", **fields: Any) -> View:
    """A plan's document."""
    return {"goal": goal, "steps": list(steps)} | fields


async def planned(ask: Ask, document: View) -> View:
    """`plan`, which must find nothing wrong."""
    view = await ask("plan", **document)
    assert view.get("error") is None, view
    return view


async def problems(ask: Ask, document: View) -> list[View]:
    """`plan`, which must refuse; everything that it finds wrong."""
    view = await ask("plan", **document)
    assert view["error"]["code"] == "plan_invalid", view
    assert view.get("plan_id") is None
    return told(view)


def told(view: View) -> list[View]:
    """What a refused plan is told to be wrong in."""
    found: list[View] = view["errors"]
    return found


async def started(ask: Ask, document: View, **more: Any) -> View:
    """`run` with the whole plan, and no wait for anything."""
    view = await ask("run", plan=document, **{"wait_s": 0} | more)
    assert view.get("error") is None, view
    return view


async def until(ask: Ask, run_id: str, holds: Callable[[View], bool], limit_s: float = LIMIT_S) -> View:
    """Look at a run until something holds."""
    ends = asyncio.get_running_loop().time() + limit_s
    view = await ask("status", run_id=run_id, wait_s=0)
    while not holds(view):
        assert asyncio.get_running_loop().time() < ends, view
        view = await ask("status", run_id=run_id, after_seq=view["seq"], wait_s=_NEWS_S)
    return view


async def becomes(ask: Ask, run_id: str, *statuses: str, limit_s: float = LIMIT_S) -> View:
    """Look at a run until it has one of these statuses, without any: until it is final."""
    wanted = set(statuses) or FINAL
    return await until(ask, run_id, lambda view: view["status"] in wanted, limit_s)


async def ran(ask: Ask, document: View, *statuses: str, **more: Any) -> View:
    """Run a plan until it has one of these statuses, without any: to its end."""
    return await becomes(ask, (await started(ask, document, **more))["run_id"], *statuses)


def states(view: View) -> dict[str, str]:
    """Each step's state, by its id."""
    return {one["id"]: one["state"] for one in view["steps"]}


def of(view: View, name: str) -> View:
    """One step of a run's or a plan's view."""
    found: View = next(one for one in view["steps"] if one["id"] == name)
    return found


async def decide(app: App, view: View, name: str, decision: str) -> View:
    """What `counterfoil approvals approve|reject` does about what one step proposes."""
    (asked,) = [one for one in view["pending"] if one["step"] == name]
    approval_id, digest = asked["approval_id"], asked["digest"]
    said: View = (await app.runtime.decide(approval_id, decision, decider=OPERATOR, digest=digest)).wire()
    assert said.get("error") is None, said
    return said


async def settle(app: App, call_id: str, resolution: str, then: str | None = None) -> View:
    """What `counterfoil reconcile` does with a person's word about a call."""
    view = await app.runtime.reconcile(
        app.local, call_id=call_id, resolution=resolution, then=then, evidence="looked into W", person=OPERATOR
    )
    said: View = view.wire()
    return said


async def following(ask: Ask, run_id: str, after_seq: int = 0) -> list[View]:
    """Every event of a run after one of them, page by page."""
    found: list[View] = []
    while True:
        page = await ask("status", run_id=run_id, after_seq=found[-1]["seq"] if found else after_seq)
        found += page["events"]
        if not page["more"]:
            return found


class Interval(NamedTuple):
    """When a call was under way, as places in the order of all of the ledger's events."""

    start: int
    end: int
    call_id: str


def intervals(book: Book, *call_ids: str) -> list[Interval]:
    """From the dispatch to the settlement of each call, first dispatch first."""
    found: list[Interval] = []
    for call_id in call_ids:
        rows = book.rows("SELECT id, type FROM events WHERE call_id = ? ORDER BY id", call_id)
        places = {row["type"]: row["id"] for row in rows}
        found.append(Interval(places["dispatched"], places["settled"], call_id))
    return sorted(found)


def apart(found: list[Interval]) -> bool:
    """Whether no two of them overlap."""
    return all(one.end < other.start for one, other in pairwise(found))


def calls_of(view: View) -> list[str]:
    """The calls of a run, in the order of its steps and items."""
    listed = (one.get("items", [one]) for one in view["steps"])
    return [one["call_id"] for each in listed for one in each if one["call_id"] is not None]
