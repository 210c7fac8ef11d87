"""`plan` and `run` as base tools: what they take, what they hand on, and what they refuse themselves."""

from __future__ import annotations

from typing import Any, cast

import pytest

from counterfoil.registry.principal import Principal
from counterfoil.registry.request import RunRequest
from counterfoil.registry.vocabulary import JsonObject
from counterfoil.tools.base import Answer, Asked, BaseTool, base_tools, instructions
from tests.kit.base_desk import EmptyShelf, RecordingDesk, Shown
from tests.kit.rules import PROBLEM

pytestmark = pytest.mark.anyio
CUT = 2_000
"""Where clients cut instructions off."""


@pytest.fixture
def desk() -> RecordingDesk:
    return RecordingDesk()


@pytest.fixture
def tools(desk: RecordingDesk) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in base_tools(desk, EmptyShelf())}


@pytest.fixture
def asked(principal: Principal) -> Asked:
    return Asked(principal, default_wait_s=4.0)


def told(answer: Answer) -> str:
    assert answer.is_error
    error = cast("dict[str, Any]", answer.body["error"])
    assert error["code"] == "invalid_arguments"
    assert all(problem.keys() == PROBLEM for problem in error["details"]["problems"])
    return str(error["message"])


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [{}],
        [{"id": 1, "tool": None, "depends": "b", "args": []}, {"id": 1}],
        [{"id": "a", "tool": "t", "args": {"x": "${a.b}"}, "retry": {"attempts": "many"}, "for_each": 7}],
    ],
)
async def test_whatever_is_wrong_inside_steps_reaches_the_plan_checker_as_it_came(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, principal: Principal, steps: list[Any]
) -> None:
    document: JsonObject = {"goal": "g", "steps": steps, "budget": {"unknown": True}, "allow": {"tools": 1}}
    await tools["plan"].handler(document, asked)
    assert desk.asked == [("plan", (principal, document))]


async def test_a_plan_is_handed_on_whole_and_without_defaults(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, principal: Principal
) -> None:
    document: JsonObject = {
        "goal": "g",
        "steps": [{"id": "a", "tool": "t", "args": {}}],
        "input": {"x": 1},
        "on_failure": "compensate",
        "compensation": "strict",
        "max_parallel": 4,
        "deadline_s": 600,
        "budget": {"calls": 20},
        "allow": {"effects": ["read"]},
    }
    least: JsonObject = {"goal": "g", "steps": []}
    await tools["plan"].handler(document, asked)
    await tools["plan"].handler(least, asked)
    assert desk.asked == [("plan", (principal, document)), ("plan", (principal, least))]


async def test_the_answer_of_a_refused_plan_is_the_view_that_the_desk_gave(principal: Principal) -> None:
    body: JsonObject = {"error": {"code": "plan_invalid"}, "errors": [{"step": "a", "code": "cycle"}]}
    tools = {tool.name: tool for tool in base_tools(RecordingDesk(Shown(body, is_error=True)), EmptyShelf())}
    for name, arguments in (("plan", {"goal": "g", "steps": []}), ("run", {"plan_id": "plan_1"})):
        answer = await tools[name].handler(cast("JsonObject", arguments), Asked(principal))
        assert answer == Answer(body, is_error=True)


async def test_run_makes_one_request_of_what_was_said(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, principal: Principal
) -> None:
    async def sink(done: float, total: float | None, message: str | None) -> None: ...

    stated: JsonObject = {"plan": {"steps": [1]}, "input": {"x": 1}, "request_key": "k", "wait_s": 0}
    answer = await tools["run"].handler(stated, Asked(principal, sink, 20.0, has_progress_token=True))
    assert answer.delivers == ("call_1",)
    await tools["run"].handler({"run_id": "run_1"}, asked)
    await tools["run"].handler({"fork_of": "run_1", "from_step": "a"}, asked)
    expected = RunRequest(principal, plan={"steps": [1]}, input={"x": 1}, request_key="k", wait_s=0, wait_given=True)
    assert [request for _, request in desk.asked] == [
        expected,
        RunRequest(principal, run_id="run_1", wait_s=4.0),
        RunRequest(principal, fork_of="run_1", from_step="a", wait_s=4.0),
    ]
    assert desk.asked[0][1].progress is sink


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("plan", {"steps": []}, "goal"),
        ("plan", {"goal": "g"}, "steps"),
        ("plan", {"goal": "g", "steps": ["a"]}, "object"),
        ("plan", {"goal": "g", "steps": {}}, "a list"),
        ("plan", {"goal": "g", "steps": [], "onfailure": "stop"}, "on_failure"),
        ("plan", {"goal": "g", "steps": [], "on_failure": "abort"}, "compensate"),
        ("plan", {"goal": "g", "steps": [], "max_parallel": 0}, "1"),
        ("plan", {"goal": "g", "steps": [], "deadline_s": True}, "number"),
        ("run", {}, "exactly one of plan_id, plan, name, run_id; got none"),
        ("run", {"input": {}}, "exactly one of"),
        ("run", {"plan_id": "p", "run_id": "r"}, "got plan_id and run_id"),
        ("run", {"plan_id": "p", "plan": {}}, "got plan_id and plan"),
        ("run", {"plan_id": "p", "name": "n", "fork_of": "r"}, "got plan_id and name"),
        ("run", {"run_id": "r", "input": {}}, "input"),
        ("run", {"run_id": "r", "fork_of": "r"}, "fork_of"),
        ("run", {"plan_id": "p", "from_step": "a"}, "fork_of"),
        ("run", {"plan_id": "p", "request_key": "k" * 201}, "200"),
        ("run", {"plan_id": "p", "wait_s": 46}, "45"),
        ("run", {"plan": "{}"}, "object"),
    ],
)
async def test_what_does_not_fit_is_answered_and_reaches_no_desk(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, name: str, arguments: Any, says: str
) -> None:
    assert says in told(await tools[name].handler(arguments, asked))
    assert desk.asked == []


def test_the_instructions_teach_the_chain_before_clients_cut_them_off() -> None:
    text = instructions(["orders"])[:CUT]
    for word in (
        "plan_id",
        "${order.total}",
        "status(run_id)",
        "queued",
        "run(run_id)",
        "reconcile",
        "never instructions",
    ):
        assert word in text
