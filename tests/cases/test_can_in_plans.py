"""CAN-01 and CAN-04 for runs: cancelled, out of time, told to stop, or with their tools changed meanwhile."""

from __future__ import annotations

import signal
from datetime import timedelta
from typing import Any

import pytest

from tests.kit.bench import furnish
from tests.kit.chains import (
    LIMIT_S,
    MODULES,
    View,
    becomes,
    chained,
    decide,
    following,
    of,
    plan,
    ran,
    settle,
    started,
    states,
    step,
    until,
)
from tests.kit.clock import START, SetClock
from tests.kit.lines import by_lines
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CHAIN = plan(
    step("s", "kit_write", {"ref": "s"}),
    step("read", "kit_read", {"ref": "s"}, after=["s"]),
    step("behind", "kit_write", {"ref": "behind"}, after=["s"]),
)


@pytest.mark.promise("CAN-01")
async def test_a_cancelled_run_follows_its_write_to_its_end_starts_nothing_more_and_lists_what_stands(
    shop: Workshop,
) -> None:
    shop.world.arm("s", hold="before")
    async with chained(shop) as (at, ask):
        run_id = (await started(ask, CHAIN))["run_id"]
        await at.world.reached("s", "asked")
        answer = await ask("cancel", run_id=run_id, reason="enough")
        assert (answer["status"], answer["finished_at"]) == ("running", None)
        assert answer["cancel_requested_at"] is not None
        again = await ask("cancel", run_id=run_id, reason="again")
        assert again["cancel_requested_at"] == answer["cancel_requested_at"]
        at.world.release("s")
        done = await becomes(ask, run_id)
        assert (done["status"], of(done, "s")["state"]) == ("cancelled", "succeeded")
        assert {states(done)[name] for name in ("read", "behind")} <= {"cancelled", "not_run"}
        late = await ask("cancel", run_id=run_id)
        assert [(one["step"], one["tool"]) for one in late["effects"]] == [("s", "kit_write")]
        assert (late["status"], late["finished_at"]) == ("cancelled", done["finished_at"])
        assert (await ask("run", run_id=run_id, wait_s=1))["status"] == "cancelled"
        assert (await ask("run", plan=CHAIN, wait_s=0))["status"] == "cancelled"
        (event,) = [one for one in await following(ask, run_id) if one["type"] == "run_cancel_requested"]
        assert (event["data"]["by"], event["data"]["reason"]) == ("alice", "enough")
    assert [shop.world.count(ref) for ref in ("s", "behind")] == [1, 0]


@pytest.mark.promise("CAN-01")
async def test_cancelling_a_run_revokes_what_it_proposes_and_an_unresolved_step_keeps_it_open(shop: Workshop) -> None:
    shop.world.arm("lost", drop="after")
    document = plan(step("lost", "kit_write", {"ref": "lost"}), step("asks", "kit_delete", {"ref": "asks"}))
    async with chained(shop) as (at, ask):
        run_id = (await started(ask, document))["run_id"]
        view = await until(ask, run_id, lambda one: bool(one["pending"]) and bool(one["unresolved"]))
        await ask("cancel", run_id=run_id)
        still = await becomes(ask, run_id, "awaiting_reconciliation")
        assert (still["pending"], states(still)["asks"], still["finished_at"]) == ([], "cancelled", None)
        shown = await ask("confirm", approval_id=view["pending"][0]["approval_id"])
        assert shown["state"] == "revoked"
        call_id = of(view, "lost")["call_id"]
        await settle(at.app, call_id, "happened")
        assert (await becomes(ask, run_id))["status"] == "cancelled"
    assert [shop.world.count(ref) for ref in ("lost", "asks")] == [1, 0]


@pytest.mark.promise("CAN-01")
async def test_cancelling_a_finished_run_changes_nothing(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        done = await ran(ask, CHAIN)
        answer = await ask("cancel", run_id=done["run_id"])
        assert (answer["status"], answer["finished_at"]) == ("succeeded", done["finished_at"])
        assert {one["step"] for one in answer["effects"]} == {"s", "behind"}
        assert (await ask("status", run_id=done["run_id"], wait_s=0))["status"] == "succeeded"


@pytest.mark.promise("CAN-04")
async def test_past_its_deadline_nothing_starts_and_the_run_is_failed_with_that_reason(shop: Workshop) -> None:
    clock = SetClock()
    shop.world.arm("s", hold="after")
    async with chained(shop, clock=clock) as (at, ask):
        run_id = (await started(ask, CHAIN | {"deadline_s": 60}))["run_id"]
        await at.world.reached("s", "done")
        assert (await ask("status", run_id=run_id, wait_s=0))["deadline"] == "2026-03-01T12:01:00.000000Z"
        clock.at = START + timedelta(seconds=61)
        clock.ahead_s = 61
        at.world.release("s")
        done = await becomes(ask, run_id)
        assert done["status"] == "failed"
        assert "deadline" in str(done["reason"])
        assert {states(done)[name] for name in ("read", "behind")} <= {"not_run", "failed", "cancelled"}
    assert [shop.world.count(ref) for ref in ("s", "behind")] == [1, 0]


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize(
    ("ending", "status"), [("cancel", "cancelled"), ("deadline", "failed"), ("budget", "budget_exhausted")]
)
async def test_what_ended_a_run_is_still_its_end_when_an_unresolved_step_is_settled_after_a_restart(
    shop: Workshop, ending: str, status: str
) -> None:
    clock = SetClock()
    shop.world.arm("lost", drop="after", hold="before")
    document = plan(
        step("lost", "kit_write_on", {"ref": "lost"}),
        step("order", "chain_order", {"order_id": "o", "people": 4}),
        step("each", "kit_write_on", {"ref": "${item.email}"}, for_each="${order.contacts}"),
        step("behind", "kit_read", {"ref": "o"}, after=["lost"]),
    ) | ({"budget": {"writes": 3}} if ending == "budget" else {"deadline_s": 60})
    async with chained(shop, clock=clock) as (at, ask):
        run_id = (await started(ask, document))["run_id"]
        await until(ask, run_id, lambda view: states(view)["each"] in {"succeeded", "failed", "not_run"})
        if ending == "deadline":
            clock.at, clock.ahead_s = START + timedelta(seconds=61), 61
        at.world.release("lost")
        await becomes(ask, run_id, "awaiting_reconciliation")
        if ending == "cancel":
            await ask("cancel", run_id=run_id)
        view = await becomes(ask, run_id, "awaiting_reconciliation")
    async with chained(shop, clock=clock) as (at, ask):
        await settle(at.app, of(view, "lost")["call_id"], "happened")
        done = await becomes(ask, run_id)
        assert (done["status"], states(done)["behind"] in {"cancelled", "not_run"}) == (status, True)
        assert at.world.count("lost") == 1
    async with chained(shop, clock=clock) as (_, ask):
        assert (await ask("run", run_id=run_id, wait_s=0))["status"] == status


@pytest.mark.promise("CAN-04")
async def test_a_deadline_stands_still_while_only_a_person_is_waited_for(shop: Workshop) -> None:
    clock = SetClock()
    document = plan(
        step("asks", "kit_delete", {"ref": "asks"}), step("behind", "kit_write", {"ref": "behind"}, after=["asks"]),
        deadline_s=60,
    )  # fmt: skip
    async with chained(shop, clock=clock) as (at, ask):
        view = await ran(ask, document, "awaiting_approval")
        clock.at = START + timedelta(minutes=30)
        clock.ahead_s = 1_800
        view = await ask("status", run_id=view["run_id"], wait_s=0)
        assert view["status"] == "awaiting_approval"
        await decide(at.app, view, "asks", "approve")
        assert (await becomes(ask, view["run_id"]))["status"] == "succeeded"
    assert [shop.world.count(ref) for ref in ("asks", "behind")] == [1, 1]


@pytest.mark.promise("CAN-01")
async def test_a_request_for_a_run_that_is_cancelled_stops_further_writes_until_the_run_is_taken_up(
    shop: Workshop,
) -> None:
    shop.world.arm("s", hold="before")
    document = plan(
        step("s", "kit_write", {"ref": "s"}),
        step("read", "kit_read", {"ref": "s"}, after=["s"]),
        step("behind", "kit_write", {"ref": "behind"}, after=["read"]),
    )
    async with by_lines(furnish(shop, python=MODULES)) as lines:
        lines.request("run", "run", plan=document, wait_s=45)
        await shop.world.reached("s", "asked", limit_s=40)
        lines.cancel("run")
        ask = _numbered(lines)
        (row,) = (await ask("status"))["runs"]
        shop.world.release("s")
        stopped = await until(ask, row["run_id"], lambda view: view["status"] == "queued")
        assert (stopped["reason"], stopped["finished_at"]) == ("stopped", None)
        assert (states(stopped)["s"], states(stopped)["behind"] in {"waiting", "ready"}) == ("succeeded", True)
        assert shop.world.count("behind") == 0
        assert stopped["next"]["arguments"]["run_id"] == row["run_id"]
        await ask("run", run_id=row["run_id"], wait_s=LIMIT_S)
        assert (await becomes(ask, row["run_id"]))["status"] == "succeeded"
    assert [shop.world.count(ref) for ref in ("s", "behind")] == [1, 1]


def _numbered(lines: Any) -> Any:
    count = 0

    async def ask(tool: str, **arguments: Any) -> View:
        nonlocal count
        count += 1
        found: View = await lines.ask(f"q{count}", tool, **arguments)
        return found

    return ask


TOOL = """
[http]
allow_hosts = ["127.0.0.1:9"]
[tools.far_pay]
description = "Pays."
effect = "{effect}"
input = {{ amount = "{kind}" }}
[tools.far_pay.http]
method = "POST"
url = "http://127.0.0.1:9/pay"
json = {{ amount = "{{amount}}" }}
"""


@pytest.mark.promise("CHAIN-SAFE")
@pytest.mark.parametrize("change", ["schema", "effect", "gone"])
async def test_a_step_whose_tool_changed_since_the_plan_was_made_stops_as_plan_stale(
    shop: Workshop, change: str
) -> None:
    shop.world.arm("s", hold="before")
    head = {"python": MODULES, "server": 'visibility = "deferred"'}
    shop.configure(TOOL.format(kind="integer", effect="write"), head=head)
    document = plan(step("s", "kit_write", {"ref": "s"}), step("pay", "far_pay", {"amount": 3}, after=["s"]))
    async with shop.serve() as served:
        run_id = (await served.base("run", plan=document, wait_s=0))["run_id"]
        await shop.world.reached("s", "asked")
        after = {
            "schema": TOOL.format(kind="number", effect="write"),
            "effect": TOOL.format(kind="integer", effect="read"),
            "gone": "",
        }[change]
        shop.configure(after, head=head)
        served.terminate(signal.SIGHUP)
        await shop.world.until(lambda: "is in force" in served.stderr, "no reload")
        shop.world.release("s")
        done = await becomes(served.base, run_id)
        assert (done["status"], states(done)) == ("failed", {"s": "succeeded", "pay": "failed"})
        assert of(done, "pay")["error"]["code"] == "plan_stale"
        assert of(done, "pay")["attempts"] == 0


@pytest.mark.promise("CHAIN-SAFE")
async def test_a_step_that_was_approved_is_not_sent_once_its_tool_has_changed_or_is_denied(shop: Workshop) -> None:
    head = {"python": MODULES, "server": 'visibility = "deferred"'}
    shop.configure(TOOL.format(kind="integer", effect="destructive"), head=head)
    pays = plan(step("pay", "far_pay", {"amount": 3}))
    writes = plan(step("asks", "kit_delete", {"ref": "asks"}), step("s", "kit_write", {"ref": "s"}, after=["asks"]))
    async with shop.serve() as served:
        pay = await ran(served.base, pays, "awaiting_approval")
        write = await ran(served.base, writes, "awaiting_approval")
        deny = '[[policy]]\nid = "no"\ntool = "kit_write"\nverdict = "deny"\nreason = "Not any more."\n'
        shop.configure(TOOL.format(kind="number", effect="destructive") + deny, head=head)
        served.terminate(signal.SIGHUP)
        await shop.world.until(lambda: "is in force" in served.stderr, "no reload")
        for view in (pay, write):
            (asked,) = (await served.base("status", run_id=view["run_id"]))["pending"] or view["pending"]
            await shop.command("approvals", "approve", asked["approval_id"], "--digest", asked["digest"])
        stale = await becomes(served.base, pay["run_id"])
        assert (stale["status"], of(stale, "pay")["error"]["code"]) == ("failed", "plan_stale")
        assert of(stale, "pay")["attempts"] == 0
        denied = await becomes(served.base, write["run_id"])
        assert (denied["status"], states(denied)) == ("failed", {"asks": "succeeded", "s": "failed"})
        assert of(denied, "s")["error"]["code"] in {"denied", "unknown_tool"}
    assert [shop.world.count(ref) for ref in ("asks", "s")] == [1, 0]
