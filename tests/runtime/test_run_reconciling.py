"""`reconcile` waits no longer than its request does, whatever the far side does; and events say what they are about."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil import Probe
from counterfoil.server.app import App
from tests.runtime.chains import of, ran, step, until
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import LIMIT_S
from tests.runtime.talk import until as until_call

pytestmark = pytest.mark.anyio


async def test_reconcile_of_a_run_answers_while_the_far_side_is_still_asked(app: App, stage: Stage) -> None:
    stage.then("probed", lose)
    view = await ran(app, step("a", "probed"))
    asked, go = stage.hold("probe")
    async with asyncio.timeout(LIMIT_S):
        still: Any = (await app.runtime.reconcile(app.local, run_id=view["run_id"], wait_s=0.05)).wire()
        await asked.wait()
    assert [one["step"] for one in still["unresolved"]] == ["a"]
    stage.then("probe", lambda _: Probe.happened({"ref": "found"}))
    go.set()
    await app.runtime.reconcile(app.local, run_id=view["run_id"])
    assert (await until(app, view["run_id"], "succeeded"))["outputs"] == {"a": {"ref": "found"}}
    assert stage.count("probed") == 1


async def test_reconcile_of_a_run_does_not_wait_for_the_steps_that_follow(app: App, stage: Stage) -> None:
    stage.then("probed", lose)
    view = await ran(app, step("a", "probed"), step("b", "note", depends_on=["a"]))
    stage.then("probe", lambda _: Probe.happened({"ref": "found"}))
    _, go = stage.hold("note")
    async with asyncio.timeout(LIMIT_S / 2):  # less than the wait that was asked for
        done: Any = (await app.runtime.reconcile(app.local, run_id=view["run_id"], wait_s=LIMIT_S)).wire()
    assert (done["status"], done["unresolved"], done["next"]["tool"]) == ("running", [], "status")
    go.set()
    await until(app, view["run_id"], "succeeded")


@pytest.mark.parametrize("leaves", [False, True])
async def test_reconcile_of_a_call_that_is_not_waited_for_goes_on(app: App, stage: Stage, leaves: bool) -> None:
    stage.then("probed", lose)
    lost = await app.call("probed", {"ref": "x"})
    asked, go = stage.hold("probe")
    wait_s = LIMIT_S if leaves else 0.05
    asking = asyncio.create_task(app.runtime.reconcile(app.local, call_id=lost.call_id, wait_s=wait_s))
    async with asyncio.timeout(LIMIT_S):
        await asked.wait()
        if leaves:
            asking.cancel()
            await asyncio.wait({asking})
        else:
            still: Any = (await asking).wire()
            assert (still["state"], still["next"]["tool"]) == ("awaiting_reconciliation", "reconcile")
    stage.then("probe", lambda _: Probe.happened({"ref": "found"}))
    go.set()
    done: Any = (await app.runtime.reconcile(app.local, call_id=lost.call_id)).wire()
    assert (await until_call(app, lost.call_id, "settled")).output == {"ref": "found"}, done


async def test_every_event_of_a_call_says_which_step_item_and_call_it_is_about(app: App, stage: Stage) -> None:
    stage.then("note", lose)
    stage.then("probed", lose)
    view = await ran(
        app,
        step("each", for_each=["x", "y"], args={"ref": "${item}"}) | {"tool": "peek"},
        step("lost"),
        step("asked", "refund"),
        step("probed", "probed"),
    )
    stage.then("probe", lambda _: Probe.happened({"ref": "found"}))
    await app.runtime.reconcile(app.local, run_id=view["run_id"])
    shown: Any = (await app.runtime.status(app.local, run_id=view["run_id"])).wire()
    places = {of(shown, name)["call_id"]: (name, None) for name in ("lost", "asked", "probed")}
    places |= {one["call_id"]: ("each", one["n"]) for one in of(shown, "each")["items"]}
    about = [event for event in shown["events"] if not event["type"].startswith(("run_", "step_"))]
    assert {event["type"] for event in about} >= {"observed", "dispatched", "lost", "proposed", "resolved"}
    for event in about:
        data = event["data"]
        assert (data["step"], data.get("item")) == places[data["call_id"]], event
    assert all("call_id" not in event["data"] for event in shown["events"] if event not in about)
