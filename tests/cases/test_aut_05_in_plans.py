"""AUT-05 for plans: a step, its condition, its undoing and its probe reach nothing that a direct call may not reach."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.kit.chains import (
    View,
    becomes,
    chained,
    decide,
    following,
    of,
    plan,
    planned,
    problems,
    ran,
    states,
    step,
    told,
)
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
FIRST = step("first", "kit_write", {"ref": "first"})
READER: Final = 'scopes = ["kit:read"]'
DENY: Final = """
[[policy]]
id = "no-purge"
tool = "kit_purge"
verdict = "deny"
reason = "Nobody purges."
[[policy]]
id = "others-only"
tool = "kit_fail_write"
tenant = "a"
verdict = "deny"
[[policy]]
id = "not-much"
tool = "kit_write_idem"
when = { "/amount" = { gt = 100 } }
verdict = "deny"
reason = "Too much."
"""
SAME: Final = ("tool", "version", "schema_digest", "effect", "subject", "client", "rule_id", "args_digest", "arguments")


def nothing_happened(shop: Workshop) -> None:
    assert shop.world.count("first") == shop.world.count("r") == 0
    assert shop.book.calls() == []
    assert shop.book.rows("SELECT * FROM runs") == []


@pytest.mark.promise("AUT-05")
@pytest.mark.parametrize("door", ["plan", "run"])
@pytest.mark.parametrize(
    ("tool", "code"),
    [
        pytest.param("scoped_write", "insufficient_scope", id="a scope that is missing"),
        pytest.param("more_hidden", "unknown_tool", id="a hidden tool"),
        pytest.param("kit_purge", "unknown_tool", id="a tool that is denied outright"),
        pytest.param("kit_fail_write", "unknown_tool", id="a tool of other tenants"),
        pytest.param("no_such_tool", "unknown_tool", id="no tool at all"),
        pytest.param("Kit_Write", "unknown_tool", id="other letters"),
        pytest.param("kit_writе", "unknown_tool", id="a letter that looks alike"),
        pytest.param("kit_write ", "unknown_tool", id="a space"),
        *(
            pytest.param(name, "unknown_tool", id=f"the base tool {name}")
            for name in ("tool_call", "plan", "run", "confirm", "reconcile", "cancel", "status", "tool_read")
        ),
        pytest.param("scoped_write__undo", "unknown_tool", id="an undoing"),
        pytest.param("kit_write_query__probe", "unknown_tool", id="a probe"),
    ],
)
async def test_a_plan_with_a_step_that_its_principal_may_not_call_is_refused_as_a_whole(
    shop: Workshop, tool: str, code: str, door: str
) -> None:
    async with chained(shop, DENY, principals_local=READER) as (_, ask):
        document = plan(FIRST, step("s", tool, {"ref": "r"}, after=["first"]))
        if door == "run":
            refused = await ask("run", plan=document)
            assert refused["error"]["code"] == "plan_invalid"
            found = told(refused)
        else:
            found = await problems(ask, document)
        assert [(one["step"], one["code"]) for one in found] == [("s", code)]
        nothing_happened(shop)


@pytest.mark.promise("AUT-05")
async def test_what_may_not_be_known_is_answered_as_what_does_not_exist(shop: Workshop) -> None:
    async with chained(shop, DENY, principals_local=READER) as (_, ask):
        forbidden = ("more_hidden", "kit_purge", "scoped_write__undo", "kit_write_query__probe")
        answers: set[str] = set()
        for name in (*forbidden, "more_hiden", "kit_purg", "scoped_write__und"):
            (found,) = await problems(ask, plan(step("s", name, {"anything": 1})))
            said = str(found).replace(name, "NAME")
            assert not [one for one in forbidden if one in said], said
            answers.add(re.sub(r" (Did you mean|Use) .*", "", said))
        assert len(answers) == 1, answers


@pytest.mark.promise("AUT-05")
@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        pytest.param({"version": "2"}, {"unknown_tool"}, id="a version that is not registered"),
        pytest.param({"version": ""}, {"unknown_tool", "invalid_arguments"}, id="an empty version"),
        pytest.param({"approval": "none"}, {"invalid_arguments"}, id="an approval of its own"),
        pytest.param({"effect": "read"}, {"invalid_arguments"}, id="an effect of its own"),
        pytest.param({"scopes": ["*"]}, {"invalid_arguments"}, id="scopes of its own"),
        pytest.param({"principal": "carol"}, {"invalid_arguments"}, id="somebody else"),
        pytest.param(
            {"compensate": {"tool": "scoped_delete", "args": {"ref": "r"}}}, {"insufficient_scope"},
            id="an undoing without the scope",
        ),
        pytest.param(
            {"compensate": {"tool": "more_hidden", "args": {"ref": "r"}}}, {"unknown_tool"}, id="a hidden undoing"
        ),
        pytest.param(
            {"compensate": {"tool": "tool_call", "args": {"name": "kit_purge", "arguments": {}}}}, {"unknown_tool"},
            id="a base tool as its undoing",
        ),
        pytest.param(
            {"compensate": {"tool": "kit_purge", "args": {"ref": "r"}}}, {"unknown_tool", "denied"},
            id="a denied undoing",
        ),
    ],
)  # fmt: skip
async def test_a_steps_fields_lend_it_nothing(shop: Workshop, fields: View, codes: set[str]) -> None:
    async with chained(shop, DENY, principals_local=READER) as (_, ask):
        found = await problems(ask, plan(FIRST, step("s", "kit_write", {"ref": "r"}, after=["first"], **fields)))
        assert {one["step"] for one in found} == {"s"}
        assert {one["code"] for one in found} <= codes
        nothing_happened(shop)


@pytest.mark.promise("AUT-05")
async def test_a_verdict_about_a_value_is_the_same_at_plan_time_at_run_time_and_directly(shop: Workshop) -> None:
    async with chained(shop, DENY) as (at, ask):
        (found,) = await problems(ask, plan(step("s", "kit_write_idem", {"ref": "r", "amount": 101})))
        assert (found["step"], found["code"]) == ("s", "denied")
        late = plan(
            step("o", "chain_order", {"order_id": "o", "total": 101}),
            step("s", "kit_write_idem", {"ref": "r", "amount": "${o.total}"}),
        )
        assert of(await planned(ask, late), "s")["approval"] == "depends"
        view = await ran(ask, late)
        direct = await at.seat.call("kit_write_idem", {"ref": "r", "amount": 101})
        assert (view["status"], of(view, "s")["state"]) == ("failed", "failed")
        assert of(view, "s")["error"]["code"] == direct["error"]["code"] == "denied"
        assert of(view, "s")["error"]["message"] == direct["error"]["message"]
        assert at.world.count("r") == 0


@pytest.mark.promise("AUT-05")
async def test_a_destructive_step_is_proposed_decided_and_recorded_as_a_direct_call_is(shop: Workshop) -> None:
    arguments = {"ref": "r", "older_than": 3}
    async with chained(shop) as (at, ask):
        direct = await at.seat.call("more_purge", arguments)
        view = await ran(ask, plan(step("s", "more_purge", arguments)), "awaiting_approval")
        (asked,) = view["pending"]
        shown = await ask("confirm", approval_id=asked["approval_id"])
        other = await ask("confirm", approval_id=direct["approval"]["approval_id"])
        for name in ("tool", "effect", "arguments", "assurance", "rule", "requester"):
            assert shown[name] == other[name], name
        assert (shown["run_id"], shown["step"]) == (view["run_id"], "s")
        assert shown["digest"] != other["digest"]
        assert at.world.count("r") == 0
        assert (await at.approve(direct))["outcome"] == "success"
        assert (await ask("status", run_id=view["run_id"], wait_s=0))["status"] == "awaiting_approval"
        await decide(at.app, view, "s", "approve")
        assert (await becomes(ask, view["run_id"]))["status"] == "succeeded"
        assert at.world.count("r") == 2
        mine, theirs = await at.events(view["run_id"]), await at.events(direct["call_id"])
        for kind in ("proposed", "dispatched"):
            (step_says,) = (one for one in mine if one["type"] == kind)
            (call_says,) = (one for one in theirs if one["type"] == kind)
            assert {name: step_says.get(name) for name in SAME} == {name: call_says.get(name) for name in SAME}
            assert step_says.get("route", "step") == "step"
        assert {event["type"] for event in theirs} - {"delivered"} <= {event["type"] for event in mine}


@pytest.mark.promise("AUT-05")
async def test_a_decision_about_a_direct_call_or_another_run_is_none_about_a_step(shop: Workshop) -> None:
    document = plan(step("s", "more_purge", {"ref": "r"}))
    async with chained(shop) as (at, ask):
        first = await ran(ask, document, "awaiting_approval")
        second = await ran(ask, document, "awaiting_approval", request_key="second")
        assert first["pending"][0]["digest"] != second["pending"][0]["digest"]
        await decide(at.app, first, "s", "approve")
        assert (await becomes(ask, first["run_id"]))["status"] == "succeeded"
        still = await ask("status", run_id=second["run_id"], wait_s=0)
        assert (still["status"], at.world.count("r")) == ("awaiting_approval", 1)


@pytest.mark.promise("AUT-05")
async def test_allow_narrows_and_never_widens(shop: Workshop) -> None:
    purge, write = step("p", "more_purge", {"ref": "r"}), step("w", "kit_write", {"ref": "w"})
    async with chained(shop, principals_local=READER) as (_, ask):
        for allow in ({"tools": ["kit_write"]}, {"effects": ["read", "write"]}):
            narrow = await problems(ask, plan(write, purge, allow=allow))
            assert {one["step"] for one in narrow} == {"p"}
            assert {one["code"] for one in narrow} <= {"denied", "over_budget"}
        wide = {"tools": ["*"], "effects": ["read", "write", "destructive"]}
        (found,) = await problems(ask, plan(step("s", "scoped_write", {"ref": "r"}), allow=wide))
        assert found["code"] == "insufficient_scope"
        allowed = plan(write, purge, allow={"tools": ["kit_write", "more_purge"]})
        assert of(await planned(ask, allowed), "p")["approval"] == "operator"
        view = await ran(ask, allowed, "awaiting_approval")
        assert states(view) == {"p": "awaiting_approval", "w": "succeeded"}


@pytest.mark.promise("AUT-05")
async def test_a_rule_that_counts_counts_steps_and_direct_calls_together(shop: Workshop) -> None:
    rule = (
        '[[policy]]\nid = "two"\ntool = "kit_write"\nverdict = "deny"\nreason = "Enough."\n'
        'limit = { per = "subject", window_s = 3600, calls = 2 }\n'
    )
    async with chained(shop, rule) as (at, ask):
        assert (await at.seat.call("kit_write", {"ref": "direct"}))["outcome"] == "success"
        view = await ran(ask, plan(FIRST, step("second", "kit_write", {"ref": "second"}, after=["first"])))
        assert states(view) == {"first": "succeeded", "second": "failed"}
        assert of(view, "second")["error"]["code"] == "denied"
        assert at.world.count("second") == 0


@pytest.mark.promise("AUT-05")
async def test_a_steps_probe_is_a_recorded_read_of_its_own_and_no_other_can_be_named(shop: Workshop) -> None:
    async with chained(shop) as (at, ask):
        at.world.arm("r", drop="after")
        view = await ran(ask, plan(step("s", "kit_write_query", {"ref": "r"})), "awaiting_reconciliation")
        for more in ({"probe": "kit_delete"}, {"tool": "kit_delete"}, {"arguments": {"ref": "other"}}):
            refused = await ask("reconcile", run_id=view["run_id"], **more)
            assert refused["error"]["code"] == "invalid_arguments"
        await ask("reconcile", run_id=view["run_id"])
        assert (await becomes(ask, view["run_id"]))["status"] == "succeeded"
        (probed,) = [event for event in await at.events(view["run_id"]) if event["type"] == "probed"]
        own = await at.events(probed["probe"])
        dispatched = next(event for event in own if event["type"] in {"dispatched", "observed"})
        assert (dispatched["tool"], dispatched["effect"], dispatched["route"]) == (
            "kit_write_query__probe", "read", "probe",
        )  # fmt: skip
        assert (at.world.count("r"), at.world.count("other")) == (1, 0)
        types = [event["type"] for event in await following(ask, view["run_id"])]
        assert types.count("dispatched") == 1


@pytest.mark.promise("AUT-05")
async def test_a_probe_over_mcp_settles_a_step_but_a_persons_word_needs_its_scope(shop: Workshop) -> None:
    async with chained(shop) as (at, ask):
        at.world.arm("r", drop="after")
        view = await ran(ask, plan(step("s", "kit_write", {"ref": "r"})), "awaiting_reconciliation")
        for named in ({"run_id": view["run_id"]}, {"call_id": of(view, "s")["call_id"]}):
            refused = await ask("reconcile", resolution="happened", evidence="trust me", **named)
            assert refused["error"]["code"] in {"insufficient_scope", "invalid_arguments", "denied"}, refused
        still = await ask("status", run_id=view["run_id"], wait_s=0)
        assert (still["status"], len(still["unresolved"])) == ("awaiting_reconciliation", 1)


def undone_by(tool: str, ref: str) -> View:
    return plan(
        step("first", "kit_write", {"ref": "first"}, compensate={"tool": tool, "args": {"ref": ref}}),
        step("bad", "kit_write", {"ref": "bad"}, after=["first"]),
        on_failure="compensate",
    )


@pytest.mark.promise("AUT-05")
async def test_an_undoing_by_a_destructive_tool_waits_for_a_decision_about_that_tool(shop: Workshop) -> None:
    shop.world.arm("bad", refuse="no")
    async with chained(shop) as (at, ask):
        view = await ran(ask, undone_by("kit_delete", "r"), "awaiting_approval")
        [asked] = view["pending"]
        assert (asked["tool"], asked["arguments"]["ref"], shop.world.count("r")) == ("kit_delete", "r", 0)
        [row] = [row for row in shop.book.calls() if row["tool"] == "kit_delete"]
        assert (row["route"], row["effect"], row["step"]) == ("compensation", "destructive", "first")
        await decide(at.app, view, "first", "approve")
        view = await becomes(ask, view["run_id"])
        assert (view["compensation"], shop.world.count("r")) == ("complete", 1)


@pytest.mark.promise("AUT-05")
async def test_a_rule_that_came_since_denies_an_undoing_as_it_does_any_call(shop: Workshop) -> None:
    shop.world.arm("bad", refuse="no")
    async with chained(shop) as (_, ask):
        view = await ran(ask, undone_by("kit_delete", "r"), "awaiting_approval")
    rule = '[[policy]]\nid = "no-delete"\ntool = "kit_delete"\nverdict = "deny"\nreason = "Nobody deletes."\n'
    async with chained(shop, rule) as (at, ask):
        await decide(at.app, await ask("status", run_id=view["run_id"]), "first", "approve")
        view = await becomes(ask, view["run_id"])
        assert (view["compensation"], shop.world.count("r")) == ("incomplete", 0)
        [stands] = view["compensations"]
        assert (stands["state"], stands["error"]["code"]) == ("not_undone", "denied")
