"""Strict reading: every field of a plan and of its steps, and all mistakes at once."""

from __future__ import annotations

import pytest

from counterfoil.registry.vocabulary import JsonObject, JsonValue
from counterfoil.runtime.plan.checking import PlanLimits, check_plan
from counterfoil.runtime.plan.model import Needs, OnPlanFailure, OnStepFailure, RetryLimit, Undo
from counterfoil.runtime.plan.problems import LONGEST, MOST, PlanInvalidError
from tests.runtime.plan.shop import ALICE, ORDER_STEP, checked, plan, problems, rules, step, told

INVALID = "invalid_arguments"


def test_every_field_is_read() -> None:
    document = plan(
        {**ORDER_STEP, "save_as": "first"},
        step(
            "pay-1", "orders_refund", {"order_id": "${first.order_id}", "amount": 3},
            version="1", depends_on=["order"], needs="settled", save_as="paid", when="${input.go}", if_version="7",
            timeout_s=5, retry={"attempts": 1, "backoff_s": 2, "least_s": 3.5}, on_failure="continue",
            compensate={"tool": "orders_charge", "args": {"order_id": "a", "amount": "${paid.amount}"}},
        ),
        {"id": "each", "tool": "echo", "for_each": [1, 2]},
        goal="Everything", input={"go": True}, on_failure="compensate", compensation="best_effort", max_parallel=3,
        deadline_s=60, budget={"calls": 9, "cost": 1.5, "elapsed_s": 5},
        allow={"effects": ["read", "destructive", "write"]},
    )  # fmt: skip
    found = checked(document).plan
    paid = found.steps[1]
    assert (paid.id, paid.index, paid.tool, paid.version, paid.depends_on) == (
        "pay-1",
        1,
        "orders_refund",
        "1",
        ("order",),
    )
    assert (paid.needs, paid.save_as, paid.on_failure) == (Needs.SETTLED, "paid", OnStepFailure.CONTINUE)
    assert (paid.when, paid.if_version, paid.timeout_s) == ("${input.go}", "7", 5)
    assert paid.retry == RetryLimit(1, 2, 3.5)
    assert paid.compensate == Undo("orders_charge", {"order_id": "a", "amount": "${paid.amount}"})
    assert found.edges == ((), (0,), ())
    assert (found.on_failure, found.compensation, found.max_parallel) == (OnPlanFailure.COMPENSATE, "best_effort", 3)
    assert (found.deadline_s, found.budget) == (60, {"calls": 9, "cost": 1.5, "elapsed_s": 5})
    assert len(paid.schema_digest) == 64


def test_null_counts_as_absent_and_a_whole_number_may_have_a_point() -> None:
    found = checked(plan({**ORDER_STEP, "when": None, "depends_on": None, "retry": None}, max_parallel=2.0, allow=None))
    assert (found.plan.steps[0].when, found.plan.max_parallel) == (None, 2)


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({"step": []}, "step", "did you mean 'steps'?"),
        ({"name": "x"}, "name", "'goal'"),
        ({"goal": 7}, "goal", "expected a string, got the number 7"),
        ({"goal": None}, "goal", "missing"),
        ({"goal": "x" * 2_001}, "goal", "1 to 2,000 characters"),
        ({"goal": ""}, "goal", "1 to 2,000 characters"),
        ({"input": "{}"}, "input", "an object itself, not its text"),
        ({"on_failure": "undo"}, "on_failure", "'stop' or 'compensate'"),
        ({"compensation": True}, "compensation", "'best_effort' or 'strict'"),
        ({"max_parallel": 0}, "max_parallel", "a whole number from 1"),
        ({"max_parallel": True}, "max_parallel", "a whole number"),
        ({"max_parallel": 1.5}, "max_parallel", "a whole number"),
        ({"deadline_s": 0}, "deadline_s", "above 0"),
        ({"deadline_s": 1e300}, "deadline_s", "at most"),
        ({"budget": {"call": 1}}, "budget.call", "did you mean 'calls'?"),
        ({"budget": {"calls": -1}}, "budget.calls", "from 0"),
        ({"budget": {"cost": "1"}}, "budget.cost", "a number of 0 or more"),
        ({"budget": []}, "budget", "an object"),
        ({"allow": {"effects": ["reads"]}}, "allow.effects", "'read', 'write' or 'destructive'"),
        ({"allow": {"tools": [1]}}, "allow.tools[0]", "the name of a tool"),
        ({"allow": {"tools": "orders_get"}}, "allow.tools", "a list"),
        ({"allow": {"cost": 1}}, "allow.cost", "did you mean 'max_cost'?"),
        ({"steps": []}, "steps", "at least one step"),
        ({"steps": None}, "steps", "missing"),
        ({"steps": {}}, "steps", "a list"),
    ],
)
def test_a_wrong_field_of_the_plan_is_told_with_what_may_stand_there(
    fields: JsonObject, place: str, words: str
) -> None:
    found = [one for one in problems({**plan(ORDER_STEP), **fields}) if one.code == INVALID]
    assert [(one.step, one.field) for one in found] == [(None, place)]
    assert words in found[0].message


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({"arguments": {}}, "arguments", "write 'args'"),
        ({"dependson": []}, "dependson", "did you mean 'depends_on'?"),
        ({"args": '{"password": "hunter2"}'}, "args", "an object itself, not its text"),
        ({"args": []}, "args", "an object"),
        ({"depends_on": "a"}, "depends_on", "a list"),
        ({"depends_on": [1]}, "depends_on[0]", "the id of a step"),
        ({"needs": "succeess"}, "needs", "'success' or 'settled'"),
        ({"save_as": "a b"}, "save_as", "A-Z"),
        ({"for_each": "a"}, "for_each", "one whole reference"),
        ({"for_each": {"a": 1}}, "for_each", "a list"),
        ({"for_each": "x ${input.l}"}, "for_each", "one whole reference"),
        ({"when": True}, "when", "a reference"),
        ({"when": "late"}, "when", "a reference"),
        ({"when": {"eq": 1}}, "when.ref", "missing"),
        ({"when": {"ref": "x", "eq": 1}}, "when.ref", "one whole reference"),
        ({"when": {"ref": "${input.l}"}}, "when", "add one of eq, ne"),
        ({"when": {"ref": "${input.l}", "equals": 1, "eq": 1}}, "when.equals", "there is no such field"),
        ({"when": {"ref": "${input.l}", "gt": "1"}}, "when.gt", "a number"),
        ({"when": {"ref": "${input.l}", "in": 1}}, "when.in", "a list"),
        ({"when": {"ref": "${input.l}", "exists": "yes"}}, "when.exists", "true or false"),
        ({"if_version": 7}, "if_version", "a string"),
        ({"timeout_s": -1}, "timeout_s", "above 0"),
        ({"timeout_s": "5"}, "timeout_s", "a number"),
        ({"retry": {"attempts": 0}}, "retry.attempts", "from 1"),
        ({"retry": {"tries": 1}}, "retry.tries", "there is no such field"),
        ({"retry": 3}, "retry", "an object"),
        ({"on_failure": "stop"}, "on_failure", "'fail' or 'continue'"),
        ({"compensate": "undo"}, "compensate", "'default', 'none' or {tool, args}"),
        ({"compensate": {"args": {}}}, "compensate.tool", "missing"),
        (
            {"compensate": {"tool": "notify_send", "args": {"to": "a", "text": "b"}, "arguments": {}}},
            "compensate.arguments", "write 'args'",
        ),
        ({"version": 1}, "version", "a string"),
        ({"tool": None}, "tool", "missing"),
        ({"tool": ["echo"]}, "tool", "the name of a tool"),
    ],
)  # fmt: skip
def test_a_wrong_field_of_a_step_is_told_with_what_may_stand_there(fields: JsonObject, place: str, words: str) -> None:
    found = problems(plan({**step("a", "echo"), **fields}, input={"l": [1]}))
    assert [(one.step, one.field, one.code) for one in found] == [("a", place, INVALID)]
    assert words in found[0].message
    assert "hunter2" not in found[0].message


@pytest.mark.parametrize("wrong", ["", "a b", "é", "x" * 65, 7, [], "a.b", "${x}"])
def test_a_step_whose_id_cannot_be_one_is_told_by_its_place(wrong: JsonValue) -> None:
    assert told(plan(step("ok", "echo"), {"id": wrong, "tool": "nope"})) == [
        (None, "steps[1].id", INVALID),
        (None, "steps[1].tool", "unknown_tool"),
    ]


def test_a_step_without_an_id_or_that_is_no_object_is_told_by_its_place() -> None:
    assert told(plan({"tool": "echo"}, "echo")) == [(None, "steps[0].id", INVALID), (None, "steps[1]", INVALID)]


@pytest.mark.parametrize("name", ["input", "run", "item"])
def test_names_that_references_have_for_something_else_are_taken(name: str) -> None:
    assert told(plan(step(name, "echo"))) == [(None, "steps[0].id", "duplicate_id")]
    assert told(plan(step("a", "echo", save_as=name))) == [("a", "save_as", "duplicate_id")]


def test_all_mistakes_are_told_at_once_those_of_the_plan_first_then_by_step() -> None:
    document = plan(
        {"id": "a", "tool": "nope", "args": [], "needs": 1},
        {"id": "a", "tool": "orders_get", "depends_on": ["b"], "args": {}},
        {"id": "c", "tool": "orders_get", "args": {"order_id": "${a"}, "oops": 1},
        goal=1, what=2,
    )  # fmt: skip
    assert told(document) == [
        (None, "what", INVALID),
        (None, "goal", INVALID),
        ("a", "args", INVALID),
        ("a", "needs", INVALID),
        ("a", "tool", "unknown_tool"),
        ("a", "id", "duplicate_id"),
        ("a", "depends_on", "unknown_step"),
        ("a", "args.order_id", INVALID),
        ("c", "oops", INVALID),
        ("c", "args.order_id", "bad_reference"),
    ]


@pytest.mark.parametrize("document", [None, [], "{}", 3, True])
def test_a_document_that_is_no_object_is_refused(document: JsonValue) -> None:
    assert told(document) == [(None, "", INVALID)]


def test_a_deep_or_large_document_is_too_large_and_one_that_is_no_json_is_invalid() -> None:
    deep: JsonValue = 1
    for _ in range(70):
        deep = [deep]
    assert [one[2] for one in told(plan(step("a", "echo", {"x": deep})))] == ["too_large"]
    small = rules(limits=PlanLimits(document_bytes=2_000, values=100, references=3))
    assert [one[2] for one in told(plan(step("a", "echo", {"x": "y" * 3_000})), small)] == ["too_large"]
    assert [one[2] for one in told(plan(step("a", "echo", {"x": [1] * 200})), small)] == ["too_large"]
    assert told(plan(step("a", "echo", {"x": "${input.a}" * 4})), small) == [(None, "", "too_large")]
    assert [one[2] for one in told(plan(step("a", "echo", {"x": float("nan")})))] == [INVALID]
    assert [one[2] for one in told(plan(step("a", "echo", {"x": "\ud800"})))] == [INVALID]


def test_too_many_steps_are_refused_by_the_stated_limit_and_not_looked_at() -> None:
    few = rules(limits=PlanLimits(steps=2))
    found = problems(plan(1, 2, 3), few)
    assert [(one.field, one.code) for one in found] == [("steps", "too_large")]
    assert "at most 2 steps, this one 3" in found[0].message


def test_a_long_list_of_problems_is_cut_and_says_how_many_more_there_are() -> None:
    with pytest.raises(PlanInvalidError, match=r"300 problems.*200 more are not told") as caught:
        check_plan(plan(*[step(f"s{n}", "nope") for n in range(300)]), ALICE, rules())
    assert (len(caught.value.problems), caught.value.more) == (MOST, 200)


def test_each_problem_is_short_whatever_the_document_holds() -> None:
    long = "x" * 100_000
    document: JsonObject = plan(
        {long: 1, "id": "a", "tool": long[:190], "depends_on": [long], "args": {long: f"${{{long}.b}}"}}, **{long: 1}
    )
    for one in problems(document):
        assert len(one.message) <= LONGEST
        assert len(one.field) <= LONGEST // 4
        assert set(one.wire()) == {"step", "field", "code", "message"}


@pytest.mark.parametrize("given", [[], "x", {"a": float("inf")}])
def test_an_input_that_cannot_be_laid_over_the_plans_is_refused(given: object) -> None:
    with pytest.raises(PlanInvalidError) as caught:
        check_plan(plan(ORDER_STEP), ALICE, rules(), given)  # type: ignore[arg-type]  # what a caller may send all the same
    assert {one.code for one in caught.value.problems} == {INVALID}


def test_a_given_input_is_laid_over_the_plans_and_leaves_the_plan_itself_alone() -> None:
    document = plan(step("a", "orders_get", {"order_id": "${input.id}"}), input={"id": "one", "b": 1})
    first, second = check_plan(document, ALICE, rules()), check_plan(document, ALICE, rules(), {"id": "two"})
    assert (first.input, second.input) == ({"id": "one", "b": 1}, {"id": "two", "b": 1})
    assert first.digest == second.digest
    assert second.plan.input == {"id": "one", "b": 1}
    with pytest.raises(PlanInvalidError, match="1 problem"):
        check_plan(document, ALICE, rules(), {"id": 7})
