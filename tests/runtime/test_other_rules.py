"""Other rules while calls are under way: what was not sent yet is decided anew, and what was sent goes on."""

from __future__ import annotations

import asyncio

import pytest

from counterfoil.registry.policy import Policy
from counterfoil.registry.policy_rules import Rule
from counterfoil.registry.vocabulary import ErrorCode, Verdict
from counterfoil.runtime.settings import Pool
from counterfoil.server.app import App, settings_of
from counterfoil.server.limits import budgets_of
from tests.runtime.hands import Stage
from tests.runtime.talk import LIMIT_S, approve, until

pytestmark = pytest.mark.anyio


def rules(app: App, verdict: Verdict) -> None:
    """From now on: this verdict on `keyed`."""
    policy = Policy([Rule(id="new", verdict=verdict, tool="keyed")], app.policy.defaults)
    app.shelf.policy = policy
    app.runtime.take(policy, settings_of(app.config, serves=True), budgets_of(app.config.budgets))


async def stands_in_line(app: App) -> None:
    """Until somebody waits for the order that another call holds."""
    async with asyncio.timeout(LIMIT_S):
        while "local\0order:a" not in app.runtime._parts.waiting._queues:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("has_row", [False, True])
async def test_a_call_that_waits_is_refused_by_rules_that_came_meanwhile(app: App, stage: Stage, has_row: bool) -> None:
    begun, go = stage.hold("book")
    holding = asyncio.create_task(app.call("book", {"ref": "a"}))
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    waiting = asyncio.create_task(app.call("keyed", {"ref": "a"}, wait_s=0.0 if has_row else None))
    view = await waiting if has_row else None
    await stands_in_line(app)
    rules(app, Verdict.DENY)
    go.set()
    assert (await asyncio.wait_for(holding, LIMIT_S)).outcome == "success"
    view = await until(app, view.call_id, "refused") if view else await asyncio.wait_for(waiting, LIMIT_S)
    assert view.error is not None
    assert view.error.code in {ErrorCode.DENIED, ErrorCode.UNKNOWN_TOOL}
    assert stage.count("keyed") == 0


async def test_a_call_that_waits_becomes_a_proposal_where_the_rules_now_ask_for_one(app: App, stage: Stage) -> None:
    begun, go = stage.hold("book")
    holding = asyncio.create_task(app.call("book", {"ref": "a"}))
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    waiting = await app.call("keyed", {"ref": "a"}, wait_s=0.0)
    rules(app, Verdict.APPROVE)
    go.set()
    await asyncio.wait_for(holding, LIMIT_S)
    view = await until(app, waiting.call_id, "awaiting_approval")
    assert stage.count("keyed") == 0
    await approve(app, view)
    assert (await until(app, waiting.call_id, "settled")).outcome == "success"
    assert stage.count("keyed") == 1


async def test_what_was_sent_goes_on_under_the_rules_that_let_it(app: App, stage: Stage) -> None:
    begun, go = stage.hold("keyed")
    holding = asyncio.create_task(app.call("keyed", {"ref": "a"}))
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    rules(app, Verdict.DENY)
    go.set()
    assert (await asyncio.wait_for(holding, LIMIT_S)).outcome == "success"


async def test_other_numbers_hold_from_the_next_call_on(app: App) -> None:
    numbers = settings_of(app.config, serves=True)
    assert (await app.call("peek", {"ref": "a"})).truncated is None
    app.runtime.take(
        app.policy, type(numbers)(output_model_bytes=4, pools={"p": Pool(1)}), budgets_of(app.config.budgets)
    )
    assert (await app.call("peek", {"ref": "b"})).truncated is not None
