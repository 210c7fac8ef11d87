"""A real server in a process of its own asks the person at a real client: both eras, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of POSIX"),
]
LIMIT_S = 40.0
ROOT = Path(__file__).parents[2]
TOOLS = '''
from counterfoil import tool


@tool(effect="write")
async def note(text: str) -> dict[str, str]:
    """Leave a note."""
    return {"left": text}
'''
CONFIG = """
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
[python]
modules = ["forms_note"]
path = ["."]
[approvals]
client_wait_s = 0.5
"""
Era = Literal["auto", "legacy"]
View = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "forms_note.py").write_text(TOOLS)
    (tmp_path / "counterfoil.toml").write_text(CONFIG)
    return tmp_path


class Person:
    """Approves what it reads, once it may."""

    def __init__(self, *, thinks: bool) -> None:
        self.may = asyncio.Event()
        if not thinks:
            self.may.set()

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        await self.may.wait()
        code = re.search(r"the code ([0-9a-f]{6})", params.message)
        assert code is not None
        return ElicitResult(action="accept", content={"decision": "approve", "code": code[1]})


LOSES = '''
from counterfoil import tool


@tool(effect="write")
async def pay(to: str) -> dict[str, str]:
    """Pay somebody."""
    raise ConnectionError("the reply was lost")
'''
TWO_PEOPLE = """
[server]
transport = "http"
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
[python]
modules = ["forms_pay"]
path = ["."]
[policy_defaults]
write = "allow"
[auth]
mode = "tokens"
[[auth.tokens]]
token = "env:ALICE_TOKEN"
subject = "alice"
tenant = "shop"
client = "desk"
scopes = ["*"]
[[auth.tokens]]
token = "env:CAROL_TOKEN"
subject = "carol"
tenant = "shop"
client = "desk"
scopes = ["reconcile"]
"""


@asynccontextmanager
async def serving(folder: Path, last: str, **env: str) -> AsyncGenerator[str]:
    """A server on a free port of the loopback, and what it said up to the `last` of it."""
    command = [sys.executable, "-m", "counterfoil", "serve", "--transport", "http", "--port", "0"]
    server = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)} | env, stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    try:
        said = ""
        async with asyncio.timeout(LIMIT_S):
            while last not in said:
                said += (await server.stderr.readline()).decode()
        yield said
    finally:
        server.terminate()
        await server.communicate()


@asynccontextmanager
async def by_token(said: str, token: str) -> AsyncGenerator[Any]:
    """The transport to a server that said where it is."""
    url = re.search(r"http://\S+/mcp", said)
    assert url is not None
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=LIMIT_S) as client:
        yield streamable_http_client(url[0], http_client=client)


@asynccontextmanager
async def over_http(folder: Path) -> AsyncGenerator[Any]:
    async with serving(folder, "the token of this start") as said:
        file = re.search(r"is in (\S+);", said)
        assert file is not None
        async with by_token(said, Path(file[1]).read_text()) as transport:
            yield transport


@asynccontextmanager
async def over_stdio(folder: Path) -> AsyncGenerator[Any]:
    yield StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil", "serve"],
        cwd=str(folder),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


async def ask(client: Client, tool: str, **arguments: Any) -> View:
    async with asyncio.timeout(LIMIT_S):
        result = await client.call_tool(tool, arguments)
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


@pytest.mark.parametrize("over", [over_stdio, over_http])
@pytest.mark.parametrize(("era", "thinks"), [("auto", False), ("legacy", False), ("legacy", True)])
async def test_the_person_decides_in_the_clients_own_dialog(folder: Path, over: Any, era: Era, *, thinks: bool) -> None:
    person = Person(thinks=thinks)
    async with over(folder) as target, Client(target, mode=era, elicitation_callback=person) as client:
        digest = (await ask(client, "tool_search", names=["note"]))["matches"][0]["schema_digest"]
        view = await ask(client, "tool_call", name="note", arguments={"text": "hello"}, schema_digest=digest)
        if thinks:  # longer than the request waits: it has its answer, and the form is still open
            assert view["state"] == "awaiting_approval"
            person.may.set()
            view = await ask(client, "status", call_id=view["call_id"], wait_s=20)
    assert (view["state"], view["outcome"], view["output"]) == ("settled", "success", {"left": "hello"})


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_how_to_on_four_eyes_has_another_person_decide_and_never_the_requester(
    tmp_path: Path, era: Era
) -> None:
    page = (ROOT / "docs/how-to/four-eyes-for-a-team.md").read_text()
    stated = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert stated is not None
    here = [sys.executable, "-m", "counterfoil", "init", "--example"]
    made = await asyncio.create_subprocess_exec(*here, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert await made.wait() == 0
    (tmp_path / "counterfoil.toml").write_text(f'{stated[1]}\n[ledger]\nurl = "sqlite+aiosqlite:///ledger.db"\n')
    tokens = {"ALICE_TOKEN": "alice-" * 5, "CAROL_TOKEN": "carol-" * 5}
    person = Person(thinks=False)
    async with (
        serving(tmp_path, "serving MCP", **tokens) as said,
        by_token(said, tokens["ALICE_TOKEN"]) as hers,
        by_token(said, tokens["CAROL_TOKEN"]) as another,
        Client(hers, mode=era, elicitation_callback=person) as alice,
        Client(another, mode=era, elicitation_callback=person) as carol,
    ):
        digest = (await ask(alice, "tool_search", names=["shop_refund"]))["matches"][0]["schema_digest"]
        refund = {"order_id": "ord_1", "amount": 150}
        view = await ask(alice, "tool_call", name="shop_refund", arguments=refund, schema_digest=digest)
        named = view["approval"]["approval_id"]
        own = await ask(alice, "confirm", approval_id=named, decision="approve")
        assert (view["state"], own["error"]["code"]) == ("awaiting_approval", "denied")
        (seen,) = (await ask(carol, "status"))["pending"]
        decided = await ask(carol, "confirm", approval_id=seen["approval_id"], decision="approve")
        assert (decided["decided"]["by"], decided["decided"]["strength"]) == ("carol", "token")
        assert (await ask(alice, "status", call_id=view["call_id"], wait_s=20))["outcome"] == "success"


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_another_person_says_what_became_of_a_call_in_a_form_and_never_the_requester(
    tmp_path: Path, era: Era
) -> None:
    (tmp_path / "forms_pay.py").write_text(LOSES)
    (tmp_path / "counterfoil.toml").write_text(TWO_PEOPLE)
    tokens = {"ALICE_TOKEN": "alice-" * 5, "CAROL_TOKEN": "carol-" * 5}
    person = Person(thinks=False)
    async with (
        serving(tmp_path, "serving MCP", **tokens) as said,
        by_token(said, tokens["ALICE_TOKEN"]) as hers,
        by_token(said, tokens["CAROL_TOKEN"]) as another,
        Client(hers, mode=era, elicitation_callback=person) as alice,
        Client(another, mode=era, elicitation_callback=person) as carol,
    ):
        digest = (await ask(alice, "tool_search", names=["pay"]))["matches"][0]["schema_digest"]
        view = await ask(alice, "tool_call", name="pay", arguments={"to": "bob"}, schema_digest=digest)
        assert view["state"] == "awaiting_reconciliation"
        word = {"resolution": "happened", "evidence": "in the bank's list", "external_reference": "tx_7"}
        own = await ask(alice, "reconcile", call_id=view["call_id"], **word)
        assert own["error"]["code"] == "insufficient_scope"
        (unknown,) = (await ask(carol, "status"))["unresolved"]
        assert (await ask(carol, "reconcile", call_id=unknown["call_id"], **word))["state"] == "settled"
        settled = await ask(alice, "status", call_id=view["call_id"])
    assert (settled["outcome"], settled["evidence"]["external_reference"]) == ("success", "tx_7")
    (recorded,) = [event["data"] for event in settled["events"] if event["data"].get("resolution")]
    assert (recorded["by"], recorded["strength"], recorded["via"]) == ("carol", "token", "mcp")
