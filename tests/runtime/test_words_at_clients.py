"""Real clients of both eras put a word to their person: what fills in the form, what does not, and what comes late."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.types import ElicitRequestParams, ElicitResult

from counterfoil.registry.principal import Principal
from counterfoil.server.app import App
from counterfoil.server.serve import surface_of
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import LIMIT_S, until

pytestmark = pytest.mark.anyio

ALICE = Principal("a", "alice", "desk", frozenset({"*"}), "token")
CAROLS = '[principals.local]\ntenant = "a"\nsubject = "carol"\nscopes = ["reconcile"]\n'
WAITS = "[approvals]\nclient_wait_s = {}\n"
WORD: dict[str, Any] = {"resolution": "happened", "evidence": "ref_88 in their list", "output": {"ref": "88"}}
Era = Literal["auto", "legacy"]
ERAS: list[Era] = ["auto", "legacy"]
View = dict[str, Any]


async def lost(app: App, stage: Stage) -> str:
    stage.then("note", lose)
    call_id = (await app.call("note", {"ref": "1"}, principal=ALICE)).call_id
    assert call_id is not None
    return call_id


async def ask(client: Client, tool: str, **arguments: Any) -> View:
    async with asyncio.timeout(LIMIT_S):
        result = await client.call_tool(tool, arguments)
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


def client_of(app: App, era: Era, reply: ElicitationFnT | None) -> Client:
    return Client(surface_of(app).server, mode=era, elicitation_callback=reply)


def filled_in(message: str) -> ElicitResult:
    code = re.search(r"the code ([0-9a-f]{6})", message)
    assert code is not None, message
    return ElicitResult(action="accept", content={"decision": "approve", "code": code[1]})


async def reads_and_says_yes(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return filled_in(params.message)


async def words_of(app: App, call_id: str) -> list[View]:
    shown: View = (await app.runtime.status(ALICE, call_id=call_id)).wire()
    return [event["data"] for event in shown["events"] if event["data"].get("resolution")]


@pytest.mark.parametrize("era", ERAS)
async def test_the_person_at_the_client_gives_their_word(open_: OpenApp, stage: Stage, era: Era) -> None:
    app = await open_(more=CAROLS)
    call_id = await lost(app, stage)
    async with client_of(app, era, reads_and_says_yes) as client:
        view = await ask(client, "reconcile", call_id=call_id, **WORD)
    assert (view["state"], view["outcome"], view["output"]) == ("settled", "success", None)
    (word,) = await words_of(app, call_id)
    assert (word["by"], word["strength"], word["via"]) == ("carol", "client_attested", "mcp")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("content", [{}, {"decision": "approve", "code": "zzzzzz"}])
async def test_a_client_that_accepts_without_the_code_says_nothing_however_often(
    open_: OpenApp, stage: Stage, era: Era, content: dict[str, str | int | float | bool | list[str] | None]
) -> None:
    app = await open_(more=CAROLS)
    call_id = await lost(app, stage)
    asked: list[str] = []

    async def accept(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content=content)

    async with client_of(app, era, accept) as client:
        view = await ask(client, "reconcile", call_id=call_id, **WORD)
    assert view["error"]["code"] == "approval_invalid"
    assert len(asked) == 3
    assert await words_of(app, call_id) == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_decline_says_so_and_records_no_word(open_: OpenApp, stage: Stage, era: Era) -> None:
    app = await open_(more=CAROLS)
    call_id = await lost(app, stage)

    async def decline(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="decline")

    async with client_of(app, era, decline) as client:
        view = await ask(client, "reconcile", call_id=call_id, **WORD)
    assert view["error"]["code"] == "denied"
    assert "No word was recorded" in view["error"]["message"]
    assert await words_of(app, call_id) == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_without_forms_is_told_where_a_person_says_it(open_: OpenApp, stage: Stage, era: Era) -> None:
    app = await open_(more=CAROLS)
    call_id = await lost(app, stage)
    async with client_of(app, era, None) as client:
        view = await ask(client, "reconcile", call_id=call_id, **WORD)
    assert view["error"]["code"] == "denied"
    assert f"counterfoil reconcile {call_id}" in view["error"]["message"]


async def test_a_word_that_an_older_clients_person_gives_late_still_counts(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more=CAROLS + WAITS.format(0.05))
    call_id = await lost(app, stage)
    may = asyncio.Event()

    async def thinks(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        await may.wait()
        return filled_in(params.message)

    async with client_of(app, "legacy", thinks) as client:
        view = await ask(client, "reconcile", call_id=call_id, **WORD)
        assert (view["state"], view["next"]["tool"]) == ("awaiting_reconciliation", "reconcile")
        assert "nothing is recorded" in view["next"]["text"]
        assert await words_of(app, call_id) == []
        may.set()
        done = await until(replace(app, local=ALICE), call_id, "settled")
    assert (done.outcome, done.output) == ("success", {"ref": "88"})
    assert len(await words_of(app, call_id)) == 1
