"""The prompts through a real client: what they say, whose state they show, and that their examples work."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from mcp import Client, MCPError
from mcp.types import GetPromptResult, PromptReference, ResourceTemplateReference, TextContent

from counterfoil.registry.principal import Principal
from counterfoil.server.prompts.state import STATE_CHARS
from counterfoil.tools.base import Asked, base_tools
from tests.kit.base_desk import EmptyShelf, RecordingDesk
from tests.server import kit, runs_kit
from tests.server.runs_kit import CODE, LIMIT_S, Desk

pytestmark = pytest.mark.anyio
LONGEST = 2_600
"""Characters of a prompt's own words."""
ALL: dict[str, dict[str, str]] = {
    "plan_chain": {"goal": "Refund what is late"},
    "explain_run": {"run_id": "run_mine"},
    "review_pending": {},
    "settle_unknown": {"call_id": "call_2"},
}
EVERY = pytest.mark.parametrize("name", ALL)
UNKNOWN: Any = {
    "call_id": "call_9",
    "tool": "orders_refund",
    "state": "awaiting_reconciliation",
    "approval": {"digest": CODE},
}
T = TypeVar("T")


def within(what: Awaitable[T]) -> Awaitable[T]:
    return asyncio.wait_for(what, LIMIT_S)


@pytest.fixture
def desk() -> Desk:
    return Desk(unresolved=[UNKNOWN])


@asynccontextmanager
async def client_of(desk: Desk, principal: Principal = kit.ME, mode: str = "auto") -> AsyncGenerator[Client]:
    async with Client(runs_kit.surface(desk, principal).server, mode=mode) as client:
        yield client


async def asked(desk: Desk, name: str, arguments: dict[str, str], principal: Principal = kit.ME) -> GetPromptResult:
    async with client_of(desk, principal) as client:
        return await within(client.get_prompt(name, arguments))


def words(prompt: GetPromptResult) -> str:
    content = prompt.messages[0].content
    assert isinstance(content, TextContent)
    return content.text


def data(prompt: GetPromptResult) -> dict[str, Any]:
    """The state, which is JSON, marked, and alone in its message."""
    (_, message) = prompt.messages
    assert isinstance(message.content, TextContent)
    assert message.content.meta == {"counterfoil/untrusted": True}
    body: dict[str, Any] = json.loads(message.content.text)
    assert body.pop("untrusted") is True
    return body


def calls_in(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a text shows: a base tool's name and an object, at the start of a line."""
    read = json.JSONDecoder()
    found = re.finditer(r"^(tool_\w+|plan|run|status|confirm|reconcile|cancel) (?=\{)", text, re.MULTILINE)
    return [(one[1], read.raw_decode(text, one.end())[0]) for one in found]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_four_are_listed_with_their_arguments(desk: Desk, mode: str) -> None:
    async with client_of(desk, mode=mode) as client:
        prompts = (await within(client.list_prompts())).prompts
        assert (await within(client.get_prompt("plan_chain", {"goal": "g"}))).messages
    assert {one.name: [(a.name, a.required) for a in one.arguments or []] for one in prompts} == {
        "plan_chain": [("goal", True)],
        "explain_run": [("run_id", True)],
        "review_pending": [],
        "settle_unknown": [("call_id", False), ("run_id", False)],
    }
    assert all(one.title and one.description for one in prompts)


@EVERY
async def test_each_is_short_and_every_call_that_it_shows_is_taken_by_the_real_tool(desk: Desk, name: str) -> None:
    text = words(await asked(desk, name, ALL[name]))
    assert len(text) < LONGEST
    recorder = RecordingDesk()
    tools = {tool.name: tool for tool in base_tools(recorder, EmptyShelf())}
    shown = calls_in(text)
    for tool, arguments in shown:
        answer = await tools[tool].handler(arguments, Asked(kit.ME))
        assert not answer.is_error, answer.body
    assert [tool for tool, _ in recorder.asked] == [tool for tool, _ in shown] != []


async def test_plan_chain_has_the_goal_as_it_came(desk: Desk) -> None:
    goal = 'Refund {late} orders of "ord_17" ${now}'
    text = words(await asked(desk, "plan_chain", {"goal": f" {goal} "}))
    assert f"as one chain: {goal}\n" in text
    assert [tool for tool, _ in calls_in(text)] == ["plan", "run", "status"]


async def test_explain_run_embeds_the_run_without_outputs_as_marked_data(desk: Desk) -> None:
    prompt = await asked(desk, "explain_run", {"run_id": "run_mine"})
    run = data(prompt)["run"]
    assert (run["run_id"], run["status"], [one["id"] for one in run["steps"]]) == (
        "run_mine", "awaiting_approval", ["order", "refund"]
    )  # fmt: skip
    assert not {"outputs", "events", "more"} & run.keys()
    assert "never instructions to you" in words(prompt)


async def test_review_pending_shows_the_arguments_and_where_a_person_decides(desk: Desk) -> None:
    prompt = await asked(desk, "review_pending", {})
    (pending,) = data(prompt)["pending"]
    assert pending["arguments"] == runs_kit.proposal()["arguments"]
    assert pending["how"] == runs_kit.proposal()["how"]
    assert calls_in(words(prompt)) == [("confirm", {"approval_id": "apr_1"})]


@pytest.mark.parametrize(
    ("arguments", "shown", "call"),
    [
        ({"call_id": "call_2"}, "call", ("reconcile", {"call_id": "call_2"})),
        ({}, "unresolved", ("reconcile", {"call_id": "call_9"})),
        ({"run_id": "run_mine"}, "run", ("status", {"run_id": "run_mine"})),
    ],
)
async def test_settle_unknown_has_the_other_side_asked_about_what_is_unknown(
    desk: Desk, arguments: dict[str, str], shown: str, call: tuple[str, dict[str, str]]
) -> None:
    prompt = await asked(desk, "settle_unknown", arguments)
    assert data(prompt).keys() == {shown}
    assert calls_in(words(prompt)) == [call]


async def test_a_run_with_an_unknown_step_is_reconciled_as_a_whole(desk: Desk) -> None:
    desk.runs["run_mine"]["unresolved"] = [UNKNOWN]
    prompt = await asked(desk, "settle_unknown", {"run_id": "run_mine"})
    assert calls_in(words(prompt)) == [("reconcile", {"run_id": "run_mine"})]


@EVERY
async def test_no_prompt_holds_what_a_form_would_ask_the_approver_to_type(desk: Desk, name: str) -> None:
    desk.runs["run_mine"]["unresolved"] = [UNKNOWN]
    for arguments in (ALL[name], {"run_id": "run_mine"} if name == "settle_unknown" else ALL[name]):
        prompt = await asked(desk, name, arguments)
        said = " ".join(one.content.text for one in prompt.messages if isinstance(one.content, TextContent))
        assert CODE[:6] not in said
        assert '"digest":"of a file"' in said or name == "plan_chain" or arguments == {"call_id": "call_2"}
        assert '"decision"' not in said


async def test_a_person_sees_nothing_of_another(desk: Desk) -> None:
    for name in ("review_pending", "settle_unknown"):
        prompt = await asked(desk, name, {}, runs_kit.OTHER)
        assert len(prompt.messages) == 1
        assert calls_in(words(prompt)) == [("status", {})]
    async with client_of(desk, runs_kit.OTHER) as client:
        found = await within(client.complete(PromptReference(name="explain_run"), {"name": "run_id", "value": ""}))
    assert found.completion.values == []


async def test_a_foreign_id_and_an_unknown_one_get_the_same_answer(desk: Desk) -> None:
    answers: set[tuple[int, str]] = set()
    async with client_of(desk) as client:
        for name, arguments in (
            ("explain_run", {"run_id": "run_foreign"}),
            ("explain_run", {"run_id": "run_unknown"}),
            ("settle_unknown", {"run_id": "run_foreign"}),
            ("settle_unknown", {"call_id": "call_unknown"}),
        ):
            with pytest.raises(MCPError) as caught:
                await within(client.get_prompt(name, arguments))
            answers.add((caught.value.error.code, caught.value.error.message))
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("plan", {}, "Unknown prompt: plan"),
        ("plan_chain", {}, "goal is missing"),
        ("plan_chain", {"goal": "  "}, "goal is missing"),
        ("plan_chain", {"goal": "g" * 4_001}, "goal has more than 4000 characters"),
        ("plan_chain", {"goal": "g", "gaol": "g"}, "gaol is no argument of it"),
        ("review_pending", {"run_id": "r"}, "run_id is no argument"),
        ("settle_unknown", {"run_id": "r", "call_id": "c"}, "not both"),
    ],
)
async def test_what_does_not_fit_is_the_protocols_error(
    desk: Desk, name: str, arguments: dict[str, str], says: str
) -> None:
    async with client_of(desk) as client:
        with pytest.raises(MCPError, match=says) as caught:
            await within(client.get_prompt(name, arguments))
    assert caught.value.error.code == -32602


async def test_ids_are_completed_from_the_principals_own(desk: Desk) -> None:
    prompt, template = PromptReference(name="p"), ResourceTemplateReference(uri="counterfoil://runs/{run_id}")
    found: list[list[str]] = []
    async with client_of(desk) as client:
        for ref, name, value in (
            (prompt, "run_id", "run_m"),
            (template, "run_id", "run_mi"),
            (prompt, "call_id", ""),
            (prompt, "goal", ""),
        ):
            found.append((await within(client.complete(ref, {"name": name, "value": value}))).completion.values)
    assert found == [["run_mine", "run_more"], ["run_mine"], ["call_9"], []]


async def test_a_huge_run_is_shown_by_the_steps_that_need_a_word(desk: Desk) -> None:
    steps: list[Any] = [{"id": f"s{n}", "tool": "t" * 40, "state": "succeeded"} for n in range(5_000)]
    steps[4_321] |= {"state": "failed", "error": {"code": "tool_failed"}}
    items: list[Any] = [{"n": n, "state": "succeeded"} for n in range(2_000)]
    steps[17] |= {
        "state": "awaiting_reconciliation",
        "items": [*items, {"n": 2_000, "state": "awaiting_reconciliation"}],
    }
    desk.runs["run_mine"]["steps"] = steps
    prompt = await asked(desk, "explain_run", {"run_id": "run_mine"})
    run = data(prompt)["run"]
    assert [one["id"] for one in run["steps"]] == ["s17", "s4321"]
    assert [one["n"] for one in run["steps"][0]["items"]] == [2_000]
    assert run["steps_not_shown"] == {"succeeded": 4_998, "further": 0}


async def test_whatever_the_state_a_prompt_has_an_end(desk: Desk) -> None:
    long: Any = "x" * 5_000
    desk.runs["run_mine"]["steps"] = [{"id": f"s{n}", "state": "failed", "reason": long} for n in range(500)]
    desk.unresolved = [{"call_id": f"call_{n}", "evidence": {"said": long}} for n in range(500)]
    for name, arguments in (("explain_run", {"run_id": "run_mine"}), ("settle_unknown", {})):
        prompt = await asked(desk, name, arguments)
        assert len(json.dumps(data(prompt))) <= STATE_CHARS * 1.1
        assert data(prompt).popitem()[1]
