from __future__ import annotations

import json
from typing import Any, cast

import pytest

from counterfoil.registry.principal import Principal
from counterfoil.registry.request import CallRequest
from counterfoil.registry.schema import compile_schema
from counterfoil.registry.vocabulary import JsonObject
from counterfoil.tools.base import Answer, Asked, BaseTool, base_tools, instructions
from counterfoil.tools.base.shelf import Shelf
from tests.kit.base_desk import EmptyShelf, RecordingDesk, Shown
from tests.kit.rules import PROBLEM

pytestmark = pytest.mark.anyio
CHARS_PER_TOKEN = 4.13


@pytest.fixture
def desk() -> RecordingDesk:
    return RecordingDesk()


@pytest.fixture
def tools(desk: RecordingDesk) -> dict[str, BaseTool]:
    shelf: Shelf = EmptyShelf()
    return {tool.name: tool for tool in base_tools(desk, shelf)}


@pytest.fixture
def asked(principal: Principal) -> Asked:
    return Asked(principal, default_wait_s=4.0)


def listed(tool: BaseTool, *, with_output: bool) -> JsonObject:
    hints = tool.annotations
    entry: JsonObject = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": {
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
        "_meta": {"anthropic/alwaysLoad": True},
    }
    return {**entry, "outputSchema": tool.output_schema} if with_output else entry


def refusal(answer: Answer) -> dict[str, Any]:
    assert answer.is_error
    error = cast("dict[str, Any]", answer.body["error"])
    assert error["code"] == "invalid_arguments"
    assert error["retryable"] is False
    assert all(problem.keys() == PROBLEM for problem in error["details"]["problems"])
    return error


@pytest.mark.parametrize(("with_output", "most"), [(False, 1800), (True, 3200)])
def test_the_list_is_small(tools: dict[str, BaseTool], with_output: bool, most: int) -> None:
    text = json.dumps([listed(tool, with_output=with_output) for tool in tools.values()], separators=(",", ":"))
    assert len(text) / CHARS_PER_TOKEN <= most


def test_the_list_is_constant_and_has_the_tools_of_this_stage(tools: dict[str, BaseTool]) -> None:
    names = ["tool_search", "tool_read", "tool_call", "plan", "run", "confirm", "reconcile", "status", "cancel"]
    assert list(tools) == names


def test_only_what_changes_nothing_is_annotated_read_only(tools: dict[str, BaseTool]) -> None:
    read_only = [tool.name for tool in tools.values() if tool.annotations.read_only]
    assert read_only == ["tool_search", "tool_read", "plan", "status"]
    assert [tool.name for tool in tools.values() if tool.annotations.destructive] == ["tool_call", "run"]


def test_input_schemas_are_closed_objects_without_alternatives_at_the_root(tools: dict[str, BaseTool]) -> None:
    for tool in tools.values():
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert not {"oneOf", "anyOf", "allOf"} & tool.input_schema.keys()


def test_every_number_has_a_maximum_that_clients_and_ledger_hold(tools: dict[str, BaseTool]) -> None:
    numbers = [
        schema
        for tool in tools.values()
        for schema in cast("dict[str, dict[str, Any]]", tool.input_schema["properties"]).values()
        if schema.get("type") in {"integer", "number"}
    ]
    assert len(numbers) >= 8
    assert all(number["maximum"] <= 2**53 - 1 for number in numbers)


async def test_a_number_beyond_it_is_answered_and_reaches_no_desk(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked
) -> None:
    for name in ("after_seq", "offset"):
        answer = await tools["status"].handler({"call_id": "call_1", name: 2**63}, asked)
        assert refusal(answer)["code"] == "invalid_arguments"
    assert desk.asked == []


@pytest.mark.parametrize(
    "body",
    [
        {"outcome": "invalid_request", "sent": "no", "error": {"code": "invalid_arguments", "message": "m"}},
        {
            "call_id": None,
            "state": "refused",
            "outcome": "denied",
            "sent": "no",
            "output": None,
            "error": {"code": "denied"},
            "next": None,
        },
        {"call_id": "call_1", "state": "settled", "outcome": None, "output": [1], "error": None, "attempts": 1},
    ],
)
def test_every_output_schema_admits_views_and_the_error_form(tools: dict[str, BaseTool], body: JsonObject) -> None:
    for tool in tools.values():
        assert tool.output_schema["type"] == "object"
        assert "required" not in tool.output_schema
        assert compile_schema(tool.output_schema).accepts(body)


async def test_tool_call_makes_one_request_that_needs_a_digest(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, principal: Principal
) -> None:
    arguments: JsonObject = {
        "name": "refund_order",
        "arguments": {"order_id": "o"},
        "schema_digest": "0123abcd",
        "idempotency_key": "k",
        "if_version": "v",
        "dry_run": True,
        "wait_s": 0,
    }
    answer = await tools["tool_call"].handler(arguments, asked)
    assert answer == Answer({"state": "settled", "error": None}, is_error=False, delivers=("call_1",))
    expected = CallRequest(
        principal,
        tool="refund_order",
        arguments={"order_id": "o"},
        schema_digest="0123abcd",
        needs_digest=True,
        idempotency_key="k",
        if_version="v",
        dry_run=True,
        wait_s=0,
        wait_given=True,
    )
    assert desk.asked == [("call", expected)]


async def test_tool_read_asks_for_a_read_and_waits_the_default_time(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, principal: Principal
) -> None:
    await tools["tool_read"].handler({"name": "order_status", "arguments": {}}, asked)
    expected = CallRequest(principal, tool="order_status", arguments={}, read_only=True, wait_s=4.0)
    assert desk.asked == [("call", expected)]


async def test_a_progress_sink_goes_with_the_request(
    tools: dict[str, BaseTool], desk: RecordingDesk, principal: Principal
) -> None:
    async def sink(done: float, total: float | None, message: str | None) -> None: ...

    await tools["tool_call"].handler(
        {"name": "a", "arguments": {}}, Asked(principal, sink, 20.0, has_progress_token=True)
    )
    assert desk.asked[0][1].progress is sink
    assert desk.asked[0][1].wait_s == 20.0


async def test_whether_an_answer_is_an_error_is_what_its_view_says(principal: Principal) -> None:
    body: JsonObject = {"state": "dispatched", "error": {"code": "in_progress"}}
    desk = RecordingDesk(Shown(body, is_error=False))
    tools = {tool.name: tool for tool in base_tools(desk, EmptyShelf())}
    answer = await tools["tool_call"].handler({"name": "a", "arguments": {}}, Asked(principal))
    assert (answer.body, answer.is_error) == (body, False)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("tool_call", {"arguments": {}}, "name"),
        ("tool_call", {"name": "a", "arguments": "{}"}, "object"),
        ("tool_call", {"name": "a", "arguments": {}, "idempotencykey": "k"}, "idempotencykey"),
        ("tool_call", {"name": "a", "arguments": {}, "wait_s": 46}, "45"),
        ("tool_call", {"name": "a", "arguments": {}, "wait_s": True}, "number"),
        ("tool_read", {"name": "a", "arguments": {}, "schema_digest": "x"}, "schema_digest"),
        ("status", {"after_seq": -1}, "0"),
        ("confirm", {"decision": "yes"}, "approve"),
        ("reconcile", {"call_id": "c", "then": "again"}, "retry"),
        ("cancel", {"call_id": 1}, "string"),
        ("tool_search", {"limit": 21}, "20"),
        ("tool_search", {"detail": "all"}, "brief"),
        ("tool_search", [], "object"),
    ],
)
async def test_arguments_that_do_not_fit_are_answered_and_reach_no_desk(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, name: str, arguments: Any, told: str
) -> None:
    error = refusal(await tools[name].handler(arguments, asked))
    assert told in error["message"]
    assert desk.asked == []


@pytest.mark.parametrize("name", ["cancel", "reconcile"])
@pytest.mark.parametrize("arguments", [{}, {"call_id": "c", "run_id": "r"}])
async def test_exactly_one_id_is_needed_where_something_is_done_to_it(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, name: str, arguments: JsonObject
) -> None:
    error = refusal(await tools[name].handler(arguments, asked))
    assert "exactly one of call_id and run_id" in error["message"]
    assert desk.asked == []


@pytest.mark.parametrize("arguments", [{"call_id": "c", "run_id": "r"}, {"offset": 5}, {"run_id": "r", "offset": 0}])
async def test_status_takes_one_id_at_most_and_pages_only_calls(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, arguments: JsonObject
) -> None:
    assert "call_id" in refusal(await tools["status"].handler(arguments, asked))["message"]
    assert desk.asked == []


async def test_status_answers_at_once_unless_it_is_told_to_wait(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, principal: Principal
) -> None:
    await tools["status"].handler({}, asked)
    await tools["status"].handler({"run_id": "r", "after_seq": 3, "wait_s": 10}, asked)
    none = {"call_id": None, "run_id": None, "after_seq": None, "offset": None, "wait_s": 0}
    some = {"call_id": None, "run_id": "r", "after_seq": 3, "offset": None, "wait_s": 10}
    assert desk.asked == [("status", (principal, none)), ("status", (principal, some))]


async def test_confirm_passes_on_what_was_said_and_whether_a_wait_was(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, principal: Principal
) -> None:
    await tools["confirm"].handler({"approval_id": "apr_1", "decision": "approve", "digest": "d", "note": "n"}, asked)
    stated = {"approval_id": "apr_1", "run_id": None, "decision": "approve", "digest": "d", "note": "n"}
    assert desk.asked == [("confirm", (principal, {**stated, "wait_s": 4.0, "wait_given": False, "asks": False}))]


async def test_reconcile_and_cancel_pass_on_what_was_said(
    tools: dict[str, BaseTool], desk: RecordingDesk, asked: Asked, principal: Principal
) -> None:
    stated: JsonObject = {
        "call_id": "c",
        "resolution": "happened",
        "evidence": "seen",
        "output": [1],
        "external_reference": "x",
        "then": "fail",
        "expected_version": 2,
    }
    await tools["reconcile"].handler(stated, asked)
    await tools["cancel"].handler({"run_id": "r", "reason": "why"}, asked)
    assert desk.asked == [
        ("reconcile", (principal, {**stated, "run_id": None, "wait_s": 4.0, "said": None, "asks": False})),
        ("cancel", (principal, {"call_id": None, "run_id": "r", "reason": "why"})),
    ]


def test_the_instructions_teach_the_flow_and_list_the_categories() -> None:
    text = instructions(["orders", "mail"])
    for word in ("tool_search", "tool_read", "tool_call", "schema_digest", "status", "reconcile", "awaiting_approval"):
        assert word in text
    assert "Never repeat a write because its answer is missing" in text
    assert text.endswith("Categories: orders, mail.")
    assert "Categories" not in instructions([])


def test_the_instructions_stay_small_whatever_the_catalogue_has() -> None:
    text = instructions([f"{n}{'x' * 500}" for n in range(10_000)])
    assert len(text) < 4_000
    assert text.endswith("and 9960 more.")
