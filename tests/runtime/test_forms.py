"""The person at a client is asked by a real client of either era: what decides, what does not, and what survives."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequestParams, ElicitResult

from counterfoil.server.app import App
from counterfoil.server.serve import surface_of
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage
from tests.runtime.talk import LIMIT_S

pytestmark = pytest.mark.anyio

RULE = """
[[policy]]
id = "ask"
tool = "note"
verdict = "approve"
[approvals]
client_wait_s = {wait}
"""
Era = Literal["auto", "legacy"]
Reply = Callable[[str], Awaitable[ElicitResult] | ElicitResult]
ERAS: list[Era] = ["auto", "legacy"]
View = dict[str, Any]


@dataclass
class Person:
    """Reads forms and answers them."""

    reply: Reply
    read: list[str] = field(default_factory=list[str])

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.read.append(params.message)
        found = self.reply(params.message)
        return found if isinstance(found, ElicitResult) else await found


def code_in(message: str) -> str:
    found = re.search(r"the code ([0-9a-f]{6})", message)
    assert found is not None, message
    return found[1]


def says(decision: str) -> Reply:
    return lambda message: ElicitResult(action="accept", content={"decision": decision, "code": code_in(message)})


def client_of(app: App, era: Era, person: Person | None) -> Client:
    return Client(surface_of(app).server, mode=era, elicitation_callback=person)


async def ask(client: Client, tool: str, **arguments: Any) -> View:
    async with asyncio.timeout(LIMIT_S):
        result = await client.call_tool(tool, arguments)
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


async def note(client: Client, ref: str = "1", **more: Any) -> View:
    digest = (await ask(client, "tool_search", names=["note"]))["matches"][0]["schema_digest"]
    return await ask(client, "tool_call", name="note", arguments={"ref": ref}, schema_digest=digest, **more)


async def proposal(app: App, view: View) -> View:
    shown: View = (await app.runtime.approval(view["approval"]["approval_id"])).wire()
    return shown


@pytest.mark.parametrize("era", ERAS)
async def test_the_user_of_the_client_sees_the_arguments_and_decides_once(
    open_: OpenApp, stage: Stage, era: Era
) -> None:
    app = await open_(more=RULE.format(wait=8))
    person = Person(says("approve"))
    async with client_of(app, era, person) as client:
        view = await note(client, "order 7")
    assert (view["state"], view["outcome"], stage.effects) == ("settled", "success", [("note", "order 7")])
    (message,) = person.read
    assert '"order 7"' in message
    assert '"text": ""' in message  # a default is shown too
    shown: list[View] = [one.wire() for one in await app.runtime.approvals(pending_only=False)]
    (decided,) = shown
    assert (decided["state"], decided["decided"]["strength"], decided["decided"]["via"]) == (
        "consumed", "client_attested", "mcp",
    )  # fmt: skip


@pytest.mark.parametrize("era", ERAS)
async def test_a_direct_call_is_asked_about_too_and_gives_the_tools_own_output(
    open_: OpenApp, stage: Stage, era: Era
) -> None:
    app = await open_(more=RULE.format(wait=8) + '[server]\nvisibility = "all"\n')
    async with client_of(app, era, Person(says("approve"))) as client:
        shown = await ask(client, "note", ref="1")
    assert (shown.get("state"), stage.count("note")) == (None, 1)


@pytest.mark.parametrize("era", ERAS)
async def test_a_no_in_the_form_rejects(open_: OpenApp, stage: Stage, era: Era) -> None:
    app = await open_(more=RULE.format(wait=8))
    async with client_of(app, era, Person(says("reject"))) as client:
        view = await note(client)
    assert (view["state"], view["error"]["code"], stage.calls) == ("refused", "approval_rejected", [])


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_accepts_without_reading_decides_nothing(open_: OpenApp, stage: Stage, era: Era) -> None:
    app = await open_(more=RULE.format(wait=8))
    person = Person(lambda _: ElicitResult(action="accept", content={"decision": "approve", "code": "aaaaaa"}))
    async with client_of(app, era, person) as client:
        view = await note(client)
    assert (view["state"], stage.calls, len(person.read)) == ("awaiting_approval", [], 3)
    assert (await proposal(app, view))["state"] == "pending"
    assert ["The code was another one" in message for message in person.read] == [False, True, True]


async def test_an_answer_counts_though_its_request_was_cancelled_meanwhile(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more=RULE.format(wait=30))
    go = asyncio.Event()

    async def late(message: str) -> ElicitResult:
        await go.wait()
        return ElicitResult(action="accept", content={"decision": "approve", "code": code_in(message)})

    person = Person(late)
    async with client_of(app, "legacy", person) as client:
        request = asyncio.create_task(note(client))
        async with asyncio.timeout(LIMIT_S):
            while not person.read:
                await asyncio.sleep(0.02)
            request.cancel()
            await asyncio.wait({request})
            go.set()
            while stage.count("note") == 0:
                await asyncio.sleep(0.02)
    assert (request.cancelled(), stage.count("note")) == (True, 1)


@pytest.mark.parametrize("era", ERAS)
async def test_a_decline_is_recorded_burns_nothing_and_is_not_asked_again(
    open_: OpenApp, stage: Stage, era: Era
) -> None:
    app = await open_(more=RULE.format(wait=8))
    person = Person(lambda _: ElicitResult(action="decline"))
    async with client_of(app, era, person) as client:
        view = await note(client)
        again = await note(client)
        events = (await ask(client, "status", call_id=view["call_id"]))["events"]
    assert (view["state"], again["call_id"], len(person.read)) == ("awaiting_approval", view["call_id"], 1)
    assert [event["type"] for event in events] == ["proposed", "declined"]
    assert ((await proposal(app, view))["state"], stage.calls) == ("pending", [])


async def test_one_that_never_answers_gets_the_pending_call_and_a_late_answer_still_decides_once(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_(more=RULE.format(wait=0.2))
    go = asyncio.Event()

    async def late(message: str) -> ElicitResult:
        await go.wait()
        return ElicitResult(action="accept", content={"decision": "approve", "code": code_in(message)})

    async with client_of(app, "legacy", Person(late)) as client:
        view = await note(client)
        assert (view["state"], stage.calls) == ("awaiting_approval", [])
        assert view["approval"]["how"]
        go.set()
        done = await ask(client, "status", call_id=view["call_id"], wait_s=10)
    assert (done["state"], done["outcome"], stage.count("note")) == ("settled", "success", 1)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_without_forms_gets_the_pending_call_at_once(open_: OpenApp, stage: Stage, era: Era) -> None:
    app = await open_(more=RULE.format(wait=8))
    async with client_of(app, era, None) as client:
        view = await note(client)
    assert (view["state"], stage.calls) == ("awaiting_approval", [])
    assert "counterfoil approvals approve" in view["approval"]["how"]


@pytest.mark.parametrize("era", ERAS)
async def test_no_form_decides_what_needs_an_operator(open_: OpenApp, stage: Stage, era: Era) -> None:
    app = await open_()
    person = Person(says("approve"))
    async with client_of(app, era, person) as client:
        digest = (await ask(client, "tool_search", names=["refund"]))["matches"][0]["schema_digest"]
        view = await ask(client, "tool_call", name="refund", arguments={"ref": "1"}, schema_digest=digest)
        said = await ask(client, "confirm", approval_id=view["approval"]["approval_id"], decision="approve")
    assert (view["state"], said["error"]["code"], said["state"]) == ("awaiting_approval", "denied", "pending")
    assert (person.read, stage.calls) == ([], [])


@pytest.mark.parametrize("era", ERAS)
async def test_the_steps_of_a_run_are_asked_about_one_form_after_the_other(
    open_: OpenApp, stage: Stage, era: Era
) -> None:
    app = await open_(more=RULE.format(wait=8))
    person = Person(says("approve"))
    steps = [{"id": name, "tool": "note", "args": {"ref": name}} for name in ("a", "b")]
    async with client_of(app, era, person) as client:
        view = await ask(client, "run", plan={"goal": "Two", "steps": steps}, wait_s=20)
        if view["status"] != "succeeded":
            view = await ask(client, "status", run_id=view["run_id"], wait_s=10)
    assert (view["status"], len(person.read), stage.count("note")) == ("succeeded", 2, 2)


class Raw:
    """A client of 2026-07-28 that is handed its question and keeps the state."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def first(self, **arguments: Any) -> Any:
        return await self._send(arguments)

    async def again(self, asked: Any, answer: ElicitResult | None, **arguments: Any) -> Any:
        responses = None if answer is None else dict.fromkeys(asked.input_requests, answer)
        return await self._send(arguments, input_responses=responses, request_state=asked.request_state)

    async def _send(self, arguments: View, **more: Any) -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await self.client.session.call_tool("tool_call", arguments, allow_input_required=True, **more)


async def raw_arguments(app: App, ref: str) -> View:
    found = app.catalogue.get("note")
    assert found is not None
    return {"name": "note", "arguments": {"ref": ref}, "schema_digest": found.contract.schema_digest[:8]}


async def test_a_question_survives_the_process_that_asked_it(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more=RULE.format(wait=8))
    stated = await raw_arguments(app, "1")
    async with client_of(app, "auto", Person(says("approve"))) as client:
        asked = await Raw(client).first(**stated)
    other = await open_(more=RULE.format(wait=8))
    (message,) = [request.params.message for request in asked.input_requests.values()]
    answer = ElicitResult(action="accept", content={"decision": "approve", "code": code_in(message)})
    async with client_of(other, "auto", Person(says("approve"))) as client:
        done = await Raw(client).again(asked, answer, **stated)
        replayed = await Raw(client).again(asked, answer, **stated)
    assert (done.structured_content["outcome"], stage.count("note")) == ("success", 1)
    assert replayed.structured_content["call_id"] == done.structured_content["call_id"]


async def test_who_drops_the_state_and_repeats_joins_the_same_call_and_is_asked_again(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_(more=RULE.format(wait=8))
    stated = await raw_arguments(app, "1")
    async with client_of(app, "auto", Person(says("approve"))) as client:
        first, second = await Raw(client).first(**stated), await Raw(client).first(**stated)
    assert first.request_state != second.request_state
    assert len(await app.runtime.approvals()) == 1
    assert stage.calls == []


async def test_a_state_without_an_answer_is_asked_again_and_is_no_wrong_code(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more=RULE.format(wait=8))
    stated = await raw_arguments(app, "1")
    async with client_of(app, "auto", Person(says("approve"))) as client:
        asked = await Raw(client).first(**stated)
        for _ in range(4):
            asked = await Raw(client).again(asked, None, **stated)
            (message,) = [request.params.message for request in asked.input_requests.values()]
            assert "another one" not in message
    assert stage.calls == []


@pytest.mark.parametrize("how", ["tampered", "other arguments", "another principal"])
async def test_a_state_is_good_for_its_own_request_alone(open_: OpenApp, stage: Stage, how: str) -> None:
    app = await open_(more=RULE.format(wait=8))
    stated = await raw_arguments(app, "1")
    async with client_of(app, "auto", Person(says("approve"))) as client:
        asked = await Raw(client).first(**stated)
        (message,) = [request.params.message for request in asked.input_requests.values()]
        answer = ElicitResult(action="accept", content={"decision": "approve", "code": code_in(message)})
        if how == "tampered":
            asked = asked.model_copy(update={"request_state": asked.request_state[:-2] + "xx"})
        elif how == "another principal":
            app.local = replace(app.local, subject="somebody else")
        else:
            stated = await raw_arguments(app, "2")
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await Raw(client).again(asked, answer, **stated)
    assert stage.calls == []
    assert len(await app.runtime.approvals()) == 1
