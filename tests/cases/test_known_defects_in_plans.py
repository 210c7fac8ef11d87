"""Defects that comparable runtimes were reported with, each shut out: what is unknown, invalid or late stays so.

An unknown dependency or a cycle that is reported as success stands in DAG-03, a run that somebody else can read in
`test_aut_03_in_plans`, and a run that waits is checked by the seat of every test (`run_rules`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.chains import (
    View,
    becomes,
    chained,
    following,
    of,
    plan,
    problems,
    ran,
    settle,
    started,
    states,
    step,
    until,
)
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
BEHIND = step("behind", "kit_write", {"ref": "behind"}, after=["s"])


@pytest.mark.promise("CHAIN-SAFE")
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        pytest.param("kit_write", {}, id="a write"),
        pytest.param("kit_fail_write", {}, id="a write that raises"),
        pytest.param("chain_eager", {}, id="a write whose contract would try four times"),
        pytest.param("chain_eager", {"retry": {"attempts": 3}}, id="a write whose step would try three times"),
    ],
)
async def test_a_write_that_nobody_confirmed_is_never_sent_again(shop: Workshop, tool: str, more: View) -> None:
    shop.world.arm("r", drop="after")
    async with chained(shop) as (at, ask):
        view = await ran(ask, plan(step("s", tool, {"ref": "r"}, **more), BEHIND), "awaiting_reconciliation")
        assert (of(view, "s")["attempts"], states(view)["behind"]) == (1, "waiting")
        await ask("reconcile", run_id=view["run_id"])
        await ask("run", run_id=view["run_id"], wait_s=0)
        await becomes(ask, view["run_id"], "awaiting_reconciliation")
        assert at.world.marks("r").count("asked") == at.world.count("r") == 1
        assert at.world.count("behind") == 0


@pytest.mark.promise("CHAIN-SAFE")
async def test_a_failure_that_was_not_sent_is_tried_as_often_as_its_contract_says_or_its_step_if_that_is_less(
    shop: Workshop,
) -> None:
    shop.world.arm("usual", busy=3)
    shop.world.arm("less", busy=3)
    document = plan(
        step("usual", "chain_busy", {"ref": "usual"}),
        step("less", "chain_busy", {"ref": "less"}, retry={"attempts": 2}),
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert states(view) == {"usual": "succeeded", "less": "failed"}
        assert [at.world.marks(name).count("asked") for name in ("usual", "less")] == [4, 2]
        assert [of(view, name)["attempts"] for name in ("usual", "less")] == [4, 2]


@pytest.mark.promise("CHAIN-SAFE")
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("kit_write", {"retry": {"attempts": 2}}),
        ("chain_busy", {"retry": {"attempts": 5}}),
        ("kit_write", {"timeout_s": 31}),
        ("retry_short", {"timeout_s": 0.4}),
    ],
)
async def test_a_step_that_asks_for_more_attempts_or_time_than_its_contract_gives_is_refused(
    shop: Workshop, tool: str, more: View
) -> None:
    async with chained(shop) as (_, ask):
        (found,) = await problems(ask, plan(step("s", tool, {"ref": "r"}, **more)))
        assert (found["step"], found["code"]) == ("s", "invalid_arguments")
        assert found["field"].split(".")[0] in more


@pytest.mark.promise("CHAIN-SAFE")
@pytest.mark.parametrize("kind", ["invalid", "permanent"])
async def test_what_the_far_side_finds_invalid_is_not_sent_again(shop: Workshop, kind: str) -> None:
    async with chained(shop) as (at, ask):
        view = await ran(ask, plan(step("s", "more_says", {"ref": "r", "kind": kind}), BEHIND))
        assert (view["status"], of(view, "s")["state"], of(view, "s")["attempts"]) == ("failed", "failed", 1)
        assert at.world.marks("r") == ["asked"]
        assert states(view)["behind"] == "not_run"


@pytest.mark.promise("CHAIN-SAFE")
async def test_arguments_that_break_the_schema_once_resolved_fail_the_step_and_are_sent_never(shop: Workshop) -> None:
    shop.world.arm("source", payload='{"amount": "ten"}')
    document = plan(
        step("source", "kit_emit", {"ref": "source"}),
        step("s", "retry_write_idem", {"ref": "${source.amount.x ?? 3}"}),
        step("typed", "kit_write", {"ref": "t", "amount": "${source.amount}"}),
        BEHIND,
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        for name in ("s", "typed"):
            failed = of(view, name)
            assert (failed["state"], failed["attempts"]) == ("failed", 0), failed
            assert (failed["error"]["code"], failed["error"]["retryable"]) == ("invalid_arguments", False)
        assert "amount" in of(view, "typed")["error"]["message"]
        assert (at.world.marks("3"), at.world.marks("t"), at.world.count("behind")) == ([], [], 0)


@pytest.mark.promise("CHAIN-SAFE")
async def test_a_write_that_takes_too_long_is_unresolved_and_not_failed(shop: Workshop) -> None:
    shop.world.arm("r", hold="after")
    async with chained(shop) as (at, ask):
        view = await ran(
            ask, plan(step("s", "kit_write", {"ref": "r"}, timeout_s=0.3), BEHIND), "awaiting_reconciliation"
        )
        assert (view["finished_at"], states(view)) == (None, {"s": "awaiting_reconciliation", "behind": "waiting"})
        assert [one["step"] for one in view["unresolved"]] == ["s"]
        at.world.release("r")
        await settle(at.app, of(view, "s")["call_id"], "happened")
        assert (await becomes(ask, view["run_id"]))["status"] == "succeeded"
        assert (at.world.count("r"), at.world.count("behind")) == (1, 1)


@pytest.mark.promise("CHAIN-SAFE")
async def test_a_plan_can_give_a_step_less_time(shop: Workshop) -> None:
    shop.world.arm("r", hold="before")
    async with chained(shop) as (at, ask):
        slow = await ran(ask, plan(step("s", "kit_look", {"ref": "r"}, timeout_s=0.1, retry={"attempts": 1})))
        assert (slow["status"], of(slow, "s")["outcome"]) == ("failed", "retryable_failure")
        at.world.release("r")


@pytest.mark.promise("CHAIN-SAFE")
@pytest.mark.parametrize(
    ("first", "status"),
    [
        pytest.param(step("s", "kit_delete", {"ref": "x"}), "awaiting_approval", id="for approval"),
        pytest.param(step("s", "kit_write_query", {"ref": "r"}), "awaiting_reconciliation", id="for reconciliation"),
        pytest.param(step("s", "kit_write", {"ref": "slow"}), "running", id="for its tool"),
    ],
)
async def test_a_run_that_waits_is_neither_failed_nor_over(shop: Workshop, first: View, status: str) -> None:
    shop.world.arm("r", drop="after")
    shop.world.arm("slow", hold="before")
    async with chained(shop) as (at, ask):
        view = await ran(ask, plan(first, BEHIND), status)
        assert_waiting(view)
        (listed,) = (await ask("status"))["runs"]
        assert (listed["run_id"], listed["status"]) == (view["run_id"], status)
        at.world.release("slow")


def assert_waiting(view: View) -> None:
    assert (view["finished_at"], view["started_at"] is None) == (None, False)
    assert not {"failed", "not_run", "cancelled"} & set(states(view).values())


@pytest.mark.promise("CHAIN-SAFE")
async def test_a_run_waits_for_the_unresolved_call_of_another_run_and_goes_on_by_itself(shop: Workshop) -> None:
    shop.world.arm("r", drop="after")
    async with chained(shop) as (at, ask):
        first = await ran(ask, plan(step("own", "kit_write_query", {"ref": "r"})), "awaiting_reconciliation")
        second = plan(step("s", "kit_write_idem", {"ref": "r"}), BEHIND)
        view = await ran(ask, second, "awaiting_reconciliation")
        assert_waiting(view)
        assert [one["call_id"] for one in view["unresolved"]] == [of(first, "own")["call_id"]]
        at.world.arm("r", drop=None)
        await ask("reconcile", run_id=first["run_id"])
        for run in (view, first):
            assert (await becomes(ask, run["run_id"]))["status"] == "succeeded"
        assert at.world.count("r") == 2


SOURCE = '{"here": null, "text": "", "list": [], "deep": {"x": [1]}, "false": false, "zero": 0}'


@pytest.mark.promise("CHAIN-SAFE")
@pytest.mark.parametrize(
    "template",
    [
        "${source.gone}", "before ${source.gone} after", "${source.list[0]}", "${source.deep.x[1]}", "${source.text.x}",
        "${source.deep.y.z}", '${source.deep["x y"]}', "${source.here.inside}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
async def test_a_path_that_is_missing_fails_the_step_before_anything_is_sent_and_is_never_null_or_empty(
    shop: Workshop, template: str, *, nested: bool
) -> None:
    shop.world.arm("source", payload=SOURCE)
    value: Any = [{"deep": template}] if nested else template
    document = plan(
        step("source", "kit_emit", {"ref": "source"}),
        step("s", "kit_echo", {"value": value}),
        step("beside", "kit_write", {"ref": "beside"}, after=["source"]),
        BEHIND,
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        failed = of(view, "s")
        assert (view["status"], failed["state"], failed["attempts"], failed["call_id"]) == ("failed", "failed", 0, None)
        assert "source" in failed["error"]["message"]
        assert "s" not in view["outputs"]
        assert states(view)["beside"] == "succeeded"
        assert (states(view)["behind"], at.world.count("behind")) == ("not_run", 0)


@pytest.mark.promise("CHAIN-SAFE")
async def test_what_is_there_is_used_as_it_is_also_where_it_is_null_empty_or_false(shop: Workshop) -> None:
    shop.world.arm("source", payload=SOURCE)
    names = ("here", "text", "list", "false", "zero")
    document = plan(
        step("source", "kit_emit", {"ref": "source"}),
        *(step(name, "kit_echo", {"value": {"is": f"${{source.{name}}}"}}) for name in names),
    )
    async with chained(shop) as (_, ask):
        view = await ran(ask, document)
        assert [view["outputs"][name]["is"] for name in names] == [None, "", [], False, 0]


@pytest.mark.promise("CHAIN-SAFE")
async def test_the_events_of_a_run_tell_each_dispatch_once_and_end_with_its_end(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):
        run = await started(ask, plan(step("s", "kit_write", {"ref": "r"}), BEHIND))
        await until(ask, run["run_id"], lambda view: view["finished_at"] is not None)
        types = [event["type"] for event in await following(ask, run["run_id"])]
        assert (types[0], types[-1]) == ("run_created", "run_finished")
        assert (types.count("dispatched"), types.count("settled")) == (2, 2)


@pytest.mark.promise("CHAIN-SAFE")
async def test_beside_an_unresolved_write_its_own_run_goes_on_and_everybody_else_of_its_subject_waits(
    shop: Workshop,
) -> None:
    shop.world.arm("lost", drop="after")
    document = plan(
        step("s", "kit_write", {"ref": "lost"}),
        step("beside", "kit_write", {"ref": "beside"}),
        step("each", "kit_write", {"ref": "${item}"}, for_each=["i", "j"]),
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document, "awaiting_reconciliation")
        assert states(view) == {"s": "awaiting_reconciliation", "beside": "succeeded", "each": "succeeded"}
        direct = await at.seat.call("kit_write", {"ref": "direct"})
        assert (direct["error"]["code"], direct["sent"]) == ("ambiguous", "no")
        assert direct["error"]["details"]["call_id"] == of(view, "s")["call_id"]
        other = await ran(ask, plan(step("o", "kit_write", {"ref": "other"})), "awaiting_reconciliation")
        assert [one["call_id"] for one in other["unresolved"]] == [of(view, "s")["call_id"]]
        assert [at.world.count(ref) for ref in ("direct", "other")] == [0, 0]
        await settle(at.app, of(view, "s")["call_id"], "happened")
        for run in (view, other):
            assert (await becomes(ask, run["run_id"]))["status"] == "succeeded"
    assert [shop.world.count(ref) for ref in ("lost", "beside", "i", "j", "other")] == [1] * 5


@pytest.mark.promise("CHAIN-SAFE")
async def test_an_unresolved_step_is_not_settled_for_those_behind_it_and_is_no_failure(shop: Workshop) -> None:
    shop.world.arm("lost", drop="before")
    document = plan(
        step("s", "kit_write", {"ref": "lost"}, on_failure="continue"),
        step("cleanup", "kit_write_on", {"ref": "cleanup"}, after=["s"], needs="settled"),
        BEHIND,
    )
    async with chained(shop) as (_, ask):
        view = await ran(ask, document, "awaiting_reconciliation")
        assert states(view) == {"s": "awaiting_reconciliation", "cleanup": "waiting", "behind": "waiting"}
    async with chained(shop) as (at, ask):
        await settle(at.app, of(view, "s")["call_id"], "not_happened", "fail")
        done = await becomes(ask, view["run_id"])
        assert states(done) == {"s": "failed", "cleanup": "succeeded", "behind": "not_run"}
        assert done["status"] == "succeeded"


@pytest.mark.promise("CHAIN-SAFE")
async def test_the_effect_of_a_part_that_was_done_or_of_an_invalid_output_stands(
    shop: Workshop,
) -> None:
    async with chained(shop) as (at, ask):
        partial = await ran(ask, plan(step("s", "more_partial", {"ref": "p"}), BEHIND))
        assert (partial["status"], states(partial)) == ("failed", {"s": "failed", "behind": "not_run"})
        assert of(partial, "s")["outcome"] == "partial"
        effects = (await ask("cancel", run_id=partial["run_id"]))["effects"]
        assert [one["step"] for one in effects] == ["s"]

        use = step("use", "kit_echo", {"value": "${s}"})
        invalid = await ran(ask, plan(step("s", "more_write_invalid", {"ref": "i"}), use))
        made = of(invalid, "s")
        assert (made["outcome"], made["error"]["code"], made["attempts"]) == ("success", "output_invalid", 1)
        assert states(invalid)["use"] in {"failed", "not_run"}, "there is no output to refer to"
        assert [one["step"] for one in (await ask("cancel", run_id=invalid["run_id"]))["effects"]] == ["s"]
        assert [at.world.count(ref) for ref in ("i", "p", "behind")] == [1, 1, 0]
