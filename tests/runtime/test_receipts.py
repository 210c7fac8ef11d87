"""Answers that were never written: one look finds many, one fact records them, and a stop leaves nothing of them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest

from counterfoil.ledger.sql import Fact
from counterfoil.registry.request import CallRequest
from counterfoil.runtime import receipts
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App
from tests.runtime.conftest import OpenApp
from tests.runtime.talk import LIMIT_S

pytestmark = pytest.mark.anyio


async def booked(app: App, ref: str) -> CallView:
    """A settled call whose answer nobody says was written."""
    view = await app.runtime.call(CallRequest(app.local, "book", {"ref": ref}))
    assert view.state == "settled"
    return view


async def test_many_answers_that_are_never_written_are_recorded_in_one_fact(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "UNWRITTEN_S", 0.5)
    facts: set[Sequence[str]] = set()
    all_closed, close = asyncio.Event(), receipts._close
    loop = asyncio.get_running_loop()

    def counting(call_ids: Sequence[str], owner_id: str) -> Fact[None]:
        facts.add(call_ids)
        yield from close(call_ids, owner_id)
        if sum(map(len, facts)) == 5:
            loop.call_soon_threadsafe(all_closed.set)

    monkeypatch.setattr(receipts, "_close", counting)
    views = await asyncio.gather(*(booked(app, str(n)) for n in range(5)))
    await asyncio.wait_for(all_closed.wait(), LIMIT_S)
    assert len(facts) < len(views)
    again = await booked(app, "0")
    assert (again.call_id, again.replayed) == (views[0].call_id, True)


async def test_a_stop_leaves_neither_timers_nor_tasks_for_answers_that_were_not_written(open_: OpenApp) -> None:
    failures: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: failures.append(context))
    app = await open_()
    view = await booked(app, "1")
    timers = app.runtime._receipts
    assert timers._looking is not None
    assert await app.runtime.stop(1.0)
    assert timers._looking.cancelled()
    await app.ledger.close()
    tasks = asyncio.all_tasks()
    await app.runtime.undelivered([view.call_id or ""], app.local)
    timers.closed("call_whose_request_ended_after_the_stop")
    assert asyncio.all_tasks() == tasks
    gc.collect()
    assert failures == []
