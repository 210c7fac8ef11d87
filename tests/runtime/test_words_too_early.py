"""A person's word that it did not happen, where something may still act, or where nothing is to be sent again."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil import Outcome
from counterfoil.ledger import owners
from counterfoil.ledger.queries import CALL
from counterfoil.ledger.runs import ask_cancel
from counterfoil.runtime.clock import rfc3339
from counterfoil.server.app import App
from tests.runtime.bench import SECOND, HandClock
from tests.runtime.chain.running import step
from tests.runtime.chains import of, ran
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage
from tests.runtime.talk import say

pytestmark = pytest.mark.anyio


async def lapse(lost: App, by: App) -> None:
    """What a server leaves that ended without a word."""
    owner_id, at = lost.ledger.owner_id, by.ledger.now()
    row = await by.ledger.record(lambda: owners.get(owner_id))
    assert row is not None
    assert await by.ledger.record(lambda: owners.declare_lapsed(owner_id, row.beat, at))


async def test_of_what_is_accepted_nobody_says_before_its_time_that_it_did_not_happen(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    first = await open_()
    stage.then("probed", lambda _: Outcome.accepted("in the queue"))
    view = await first.call("probed", {"ref": "1"})
    app = await open_()
    await lapse(first, app)
    (row,) = await app.ledger.reads.fetch(CALL, call_id=view.call_id)
    early: Any = (await say(app, view.call_id, "not_happened", "retry")).wire()
    assert (early["error"]["code"], stage.count("probed")) == ("in_progress", 1)
    assert early["error"]["details"]["earliest"] == rfc3339(row.external_until)
    clock.pass_(((row.external_until or 0) - clock.now()) / SECOND + 1)
    assert (await say(app, view.call_id, "not_happened")).outcome == "permanent_failure"


async def test_a_word_sends_no_step_of_a_cancelled_run_again(open_: OpenApp, stage: Stage) -> None:
    first = await open_()
    stage.then("book", lambda _: Outcome.ambiguous("no answer"))
    view = await ran(first, step("a"))
    app = await open_()
    await lapse(first, app)
    call_id, run_id = of(view, "a")["call_id"], view["run_id"]
    assert await app.ledger.record(lambda: ask_cancel(run_id, "me", "no more", app.ledger.now())) is not None
    done: Any = (await say(app, call_id, "not_happened", "retry")).wire()
    assert (done["state"], done["outcome"], stage.count("book")) == ("settled", "permanent_failure", 1)
