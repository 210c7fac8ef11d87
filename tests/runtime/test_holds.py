"""Holds: what an operator holds is not sent, says so, and is sent again after the release; each leaves its event."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from counterfoil.ledger.chain import head_of
from counterfoil.ledger.check import check
from counterfoil.ledger.holding import CHAIN, HoldRow, lift_hold, list_holds, set_hold
from counterfoil.ledger.verify import verify_database
from counterfoil.registry.vocabulary import ErrorCode
from counterfoil.runtime.clock import rfc3339
from counterfoil.runtime.deciding import Decider
from counterfoil.server.app import App
from tests.runtime.bench import HandClock
from tests.runtime.chain.running import step
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import LIMIT_S, approve, until

pytestmark = pytest.mark.anyio
AT = 1_790_000_000_000_000


@pytest.mark.parametrize(("kind", "name"), [("all", ""), ("tool", "book"), ("tenant", "local"), ("subject", "")])
async def test_what_is_held_is_not_sent_until_it_is_released(
    kind: str, name: str, open_: OpenApp, stage: Stage
) -> None:
    app = await open_()
    name = app.local.subject if kind == "subject" else name
    await app.ledger.record(lambda: set_hold(kind, name, "alex", "an incident", AT))
    view = await app.call("book", {"ref": "a"})
    assert view.error is not None
    assert (view.error.code, view.sent, stage.effects) == (ErrorCode.HELD, "no", [])
    assert (view.error.details["kind"], view.error.details["name"]) == (kind, name)
    assert (view.error.details["by"], view.error.details["since"]) == ("alex", rfc3339(AT))
    assert f"alex holds {kind} {name}".rstrip() in view.error.message
    assert f"since {rfc3339(AT)}" in view.error.message
    await app.ledger.record(lambda: lift_hold(kind, name, "alex", AT + 1))
    assert (await app.call("book", {"ref": "a"})).outcome == "success"


@pytest.mark.parametrize(("kind", "name"), [("tool", "note"), ("tenant", "x"), ("subject", "x"), ("run", "x")])
async def test_a_hold_of_something_else_is_in_nobodys_way(kind: str, name: str, open_: OpenApp) -> None:
    app = await open_()
    await app.ledger.record(lambda: set_hold(kind, name, "alex", "an incident", AT))
    assert (await app.call("book", {"ref": "a"})).outcome == "success"


async def test_a_hold_set_or_lifted_twice_is_recorded_once(open_: OpenApp) -> None:
    app = await open_()
    for reason in ("first", "second"):
        made = await app.ledger.record(lambda reason=reason: set_hold("all", "", "alex", reason, AT))  # type: ignore[misc]  # a default binds the loop's value
        assert made == HoldRow("all", "", "alex", "first", AT)
    assert await app.ledger.record(list_holds) == [HoldRow("all", "", "alex", "first", AT)]
    for _ in range(2):
        await app.ledger.record(lambda: lift_hold("all", "", "alex", AT))
    assert await app.ledger.record(list_holds) == []
    assert (await app.ledger.record(lambda: head_of(CHAIN))).seq == 2


async def test_no_proposal_is_made_of_what_is_held(open_: OpenApp) -> None:
    app = await open_()
    await app.runtime.holding.hold("tool", "refund", by="os:me", reason="wrong prices")
    view = await app.call("refund", {"ref": "1"})
    assert view.error is not None
    assert (view.error.code, view.sent) == (ErrorCode.HELD, "no")
    assert "counterfoil release tool refund" in view.error.message
    assert await app.runtime.approvals() == []


async def test_what_was_decided_waits_for_the_release_and_its_window_stood_still(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_()
    asked = await app.call("refund", {"ref": "1"})
    await app.runtime.holding.hold("all", "", by="os:me")
    await approve(app, asked)
    async with asyncio.timeout(LIMIT_S):
        while "stalled" not in await happened(app, asked.call_id):
            await asyncio.sleep(0.02)
    clock.pass_(2_000)  # its window is 900 s
    view = await app.runtime.status(app.local, call_id=asked.call_id)
    assert (view.wire()["state"], stage.calls) == ("queued", [])
    await app.runtime.holding.release("all", "", by="os:me")
    assert (await until(app, asked.call_id, "settled")).outcome == "success"
    assert stage.count("refund") == 1


async def test_what_was_decided_uses_up_one_start_of_a_rate_however_long_it_is_held(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_(more='[[policy]]\nid = "ask"\ntool = "paced"\nverdict = "approve"\nassurance = "operator"')
    for ref in "ab":  # two of its three starts a minute
        sent = await app.call("paced", {"ref": ref})
        await approve(app, sent)
        await until(app, sent.call_id, "settled")
    asked = await app.call("paced", {"ref": "c"})
    await app.runtime.holding.hold("all", "", by="os:me")
    await approve(app, asked)
    async with asyncio.timeout(LIMIT_S):
        while "stalled" not in await happened(app, asked.call_id):
            await asyncio.sleep(0.02)
    await app.runtime.holding.release("all", "", by="os:me")
    assert (await until(app, asked.call_id, "settled", "refused")).outcome == "success"
    assert stage.count("paced") == 3


async def test_a_read_of_what_is_held_does_not_run(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    await app.runtime.holding.hold("tool", "peek", by="os:me")
    view = await app.call("peek", {"ref": "1"})
    assert view.error is not None
    assert (view.error.code, stage.calls) == (ErrorCode.HELD, [])


async def test_a_read_that_was_held_while_it_ran_is_withheld(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    await app.ledger.record(lambda: set_hold("tool", "peek", "os:me", "", AT))  # by another process, not seen here yet
    view = await app.call("peek", {"ref": "1"})
    assert view.error is not None
    assert (view.error.code, view.sent, view.output) == (ErrorCode.CANNOT_RECORD, "unknown", None)
    assert stage.count("peek") == 1


async def test_a_step_of_what_is_held_waits_and_goes_on_after_the_release(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    await app.runtime.holding.hold("tool", "book", by="os:me")
    plan: dict[str, Any] = {"goal": "Hold", "steps": [step("a"), step("b", "note")]}
    view = (await app.run(plan)).wire()
    assert (view["status"], view["reason"], stage.effects) == ("queued", "held", [("note", "b")])
    await app.runtime.holding.release("tool", "book", by="os:me")
    async with asyncio.timeout(LIMIT_S):
        while (await app.runtime.status(app.local, run_id=str(view["run_id"]))).wire()["status"] != "succeeded":
            await asyncio.sleep(0.02)
    assert stage.count("book") == 1


async def test_a_hold_of_a_run_is_in_its_way_alone(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    view = (await app.run({"goal": "Hold", "steps": [step("a", "refund")]})).wire()
    await app.runtime.holding.hold("run", str(view["run_id"]), by="os:me")
    (asked,) = await app.runtime.approvals()
    await app.runtime.decide(asked.approval_id, "approve", decider=Decider("os:me", "same_user", "cli"))
    async with asyncio.timeout(LIMIT_S):
        while (await app.runtime.status(app.local, run_id=str(view["run_id"]))).wire()["reason"] != "held":
            await asyncio.sleep(0.02)
    assert (await app.call("book", {"ref": "other"})).outcome == "success"
    assert stage.count("refund") == 0


async def test_a_probe_asks_whatever_is_held_and_nothing_is_sent_again(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    stage.then("probed", lose)
    sent = await app.call("probed", {"ref": "1"})
    await app.runtime.holding.hold("all", "", by="os:me")
    await app.runtime.reconcile(app.local, call_id=sent.call_id)
    assert "probed" in await happened(app, sent.call_id)
    assert stage.count("probed") == 1


async def test_a_ledger_with_holds_verifies_and_checks(open_: OpenApp, tmp_path: Path) -> None:
    app = await open_()
    await app.runtime.holding.hold("tool", "book", by="os:me", reason="x")
    await app.runtime.holding.release("tool", "book", by="os:me")
    assert verify_database(tmp_path / "ledger.db").ok
    assert check(tmp_path / "ledger.db").ok


async def happened(app: App, call_id: str | None) -> list[str]:
    view: dict[str, Any] = (await app.runtime.status(app.local, call_id=call_id)).wire()
    return [event["type"] for event in view["events"]]
