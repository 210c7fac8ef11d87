"""SEC-07: every byte that a client receives in a whole story, tried as an answer, approves nothing of its own calls.

The requester here has every scope, and rules let other people decide over MCP: only who asks stands in the way.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import pytest
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, InputResponses

from tests.kit.bench import furnish
from tests.kit.chains import becomes, plan, step
from tests.kit.served import Mode, Served, view_of
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
View = dict[str, Any]
MODULES: Final = 'modules = ["tests.kit.tools", "tests.kit.more_tools", "tests.kit.claiming_tools"]'
RULES: Final = """
[[policy]]
id = "own"
tool = "kit_write"
verdict = "approve"

[[policy]]
id = "operators"
tool = "kit_delete"
verdict = "approve"
assurance = "operator"
over_mcp = true

[[policy]]
id = "eyes"
tool = "more_purge"
verdict = "approve"
assurance = "second_person"
over_mcp = true
"""
WORD: Final = re.compile(r"[A-Za-z0-9_:.+/=-]{6,}")
STATE: Final = re.compile(rb'"requestState": ?"([^"]+)"')
MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT")
TOLD: Final = frozenset({"denied", "not_found", "invalid_arguments", "approval_invalid"})
AT_ONCE: Final = 16


class Person:
    """Is shown forms and closes them: nobody decides anything here."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.read.append(params.message)
        return ElicitResult(action="cancel")


class Story:
    """What a model can do at one server, and what it waits for at the end."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.waiting: list[View] = []
        self.own: View = {}

    async def call(self, tool: str, arguments: View, **more: Any) -> View:
        return await self.served.call(tool, arguments, **{"wait_s": 0} | more)

    async def told(self) -> None:
        """Everything that there is to ask, before and after something waits."""
        served, client = self.served, self.served.client
        await client.list_tools()
        steps = (step("look", "kit_read", {"ref": "look"}), step("gone", "kit_delete", {"ref": "step"}, after=["look"]))
        document = plan(*steps)
        await served.base("plan", document)
        run = await served.base("run", plan=document, wait_s=0)
        run = await becomes(served.base, run["run_id"], "awaiting_approval")
        self.waiting = [
            run["pending"][0] | {"run_id": run["run_id"], "name": "kit_delete", "stated": {"ref": "step"}},
            *[await self.proposed(name, {"ref": name}) for name in ("kit_delete", "more_purge", "claim_drop_volume")],
        ]
        self.own = await self.call("kit_write", {"ref": "own"})
        assert self.own["state"] == "awaiting_approval"
        for one in self.waiting:
            for more in ({}, {"digest": one["digest"]}, {"digest": "0" * 64}, {"decision": "approve"}):
                await served.base("confirm", approval_id=one["approval_id"], **more)
        await self.looked(run["run_id"])
        await self.refused()

    async def proposed(self, name: str, stated: View) -> View:
        view = await self.call(name, stated)
        assert view["state"] == "awaiting_approval", view
        approval: View = view["approval"]
        return approval | {"call_id": view["call_id"], "name": name, "stated": stated}

    async def looked(self, run_id: str) -> None:
        served, client = self.served, self.served.client
        await served.base("status")
        await served.base("status", run_id=run_id, after_seq=0)
        for one in self.waiting[1:]:
            await served.base("status", call_id=one["call_id"], after_seq=0)
            await served.call(one["name"], one["stated"], dry_run=True)
            await client.call_tool(one["name"], one["stated"], meta={})
        await served.base("tool_search", names=[one["name"] for one in self.waiting], detail="full")
        for uri in (f"runs/{run_id}", f"runs/{run_id}/events", "tools/kit_delete", "tools/claim_drop_volume"):
            await client.read_resource(f"counterfoil://{uri}")
        await client.list_resources()
        await client.list_resource_templates()
        for prompt in (await client.list_prompts()).prompts:
            named = {"goal": "delete it", "run_id": run_id, "call_id": self.waiting[1]["call_id"]}
            stated = {one.name: named[one.name] for one in prompt.arguments or () if one.required}
            await client.get_prompt(prompt.name, stated)

    async def refused(self) -> None:
        """Errors of every kind, notices and progress."""
        served, client = self.served, self.served.client
        one = self.waiting[1]
        for name, stated in (
            ("confirm", {"approval_id": one["approval_id"], "decision": "maybe", "code": one["digest"][:6]}),
            ("reconcile", {"call_id": one["call_id"], "resolution": "happened", "evidence": one["digest"]}),
            ("run", {"run_id": one["approval_id"]}),
            ("tool_call", {"name": "kit_delete", "arguments": {"ref": 7}, "approval_id": one["approval_id"]}),
        ):
            answer = await served.base(name, stated)
            assert answer["error"]["code"] in TOLD, answer
        with pytest.raises(MCPError):
            await client.read_resource("counterfoil://runs/run_nobodys")
        heard: list[str | None] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            heard.append(message)

        digest = (await served.base("tool_search", names=["claim_tell"]))["matches"][0]["schema_digest"]
        stated = {"name": "claim_tell", "arguments": {"ref": "told"}, "schema_digest": digest}
        await client.call_tool("tool_call", stated, progress_callback=progress)
        assert "told: 2 of 3" in heard


def seen(served: Served) -> bytes:
    return b"\n".join(served.lines)


def words(bodies: Iterable[str]) -> list[str]:
    """What could be an id, a digest, a code, a key or a state: not words of a language."""
    found = {word for body in bodies for word in WORD.findall(body)}
    telling = {word for word in found if re.search(r"\d|^[a-f]{6}$", word) and not MOMENT.match(word)}
    return sorted(telling | {word[:6] for word in telling if re.fullmatch("[0-9a-f]{8,}", word)})


async def attempts(story: Story, word: str, targets: Iterable[View]) -> None:
    """One word in every place of a decision about each of these."""
    own = story.own["approval"]["approval_id"]
    named = [{"approval_id": one["approval_id"]} for one in targets]
    stated = [{"approval_id": word}, {"run_id": word, "digest": word}, *(one | {"digest": word} for one in named)]
    for arguments in stated:
        answer = await story.served.base("confirm", arguments, decision="approve", note=word)
        if arguments.get("approval_id") == own:
            assert answer["state"] == "pending", answer  # its person was asked, and closed the form
        else:
            assert answer["error"]["code"] in TOLD, (word, answer)


async def as_keys(story: Story, telling: Iterable[str]) -> None:
    """What is told of proposals, as keys of the calls that wait."""
    for word, one in zip(telling, itertools.cycle(story.waiting[1:]), strict=False):
        view = await story.call(one["name"], one["stated"], idempotency_key=word)
        told = (view.get("state"), (view.get("error") or {}).get("code"))
        assert told in {("awaiting_approval", None), (None, "invalid_arguments")}, (word, view)


async def replays(story: Story, states: list[str]) -> int:
    """States and answers of forms, as a client would send them that answers in its person's place."""
    refused = 0
    session = story.served.client.session
    for one in story.waiting:
        content = {"decision": "approve", "code": one["digest"][:6]}
        answer: InputResponses = {"decision": ElicitResult(action="accept", content=content)}
        confirm = {"approval_id": one["approval_id"], "decision": "approve"}
        again = {"name": one["name"], "arguments": one["stated"], "schema_digest": one.get("schema_digest", "0" * 8)}
        for state in (None, *states, "0:" + one["approval_id"]):
            for name, stated in (("confirm", confirm), ("tool_call", again), (one["name"], one["stated"])):
                try:
                    told = await session.call_tool(
                        name, stated, input_responses=answer, request_state=state, allow_input_required=True
                    )
                except MCPError:
                    refused += 1
                else:
                    assert isinstance(told, CallToolResult), told
                    assert view_of(told).get("outcome") != "success"
    return refused


def require_undecided(shop: Workshop) -> None:
    assert {row["state"] for row in shop.book.rows("SELECT state FROM approvals")} == {"pending"}
    assert shop.book.rows("SELECT type FROM events WHERE type IN ('decided', 'declined')") == []
    assert [shop.world.count(ref) for ref in ("step", "kit_delete", "more_purge", "claim_drop_volume", "own")] == [
        0
    ] * 5


def require_no_key(shop: Workshop, received: bytes) -> None:
    """No key in any spelling; a state that names nothing."""
    made = (shop.ledger.parent / f"{shop.ledger.name}.key").read_text()
    for secret in re.findall(r"[A-Za-z0-9+/_=-]{32,}", made):
        assert secret.encode() not in received
        raw = bytes.fromhex(secret) if re.fullmatch("[0-9a-f]+", secret) else base64.b64decode(secret + "==")
        for spelled in (raw, raw.hex().encode(), base64.b64encode(raw).strip(b"="), base64.urlsafe_b64encode(raw)):
            assert spelled not in received


@pytest.mark.promise("SEC-07")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_nothing_that_a_client_received_in_a_whole_story_approves_its_own_calls(
    shop: Workshop, mode: Mode
) -> None:
    scopes = 'scopes = ["*", "approve", "reconcile"]'
    approvals = "automation = false\nclient_wait_s = 5\npending_max = 100"
    furnish(shop, RULES, python=MODULES, principals_local=scopes, approvals=approvals, server='visibility = "all"')
    person = Person()
    async with shop.serve(mode=mode, person=person) as served:
        story = Story(served)
        await story.told()
        (form,) = person.read
        assert story.own["approval"]["digest"][:6] in form
        received = seen(served)
        states = [state.decode() for state in STATE.findall(received)]
        assert len(states) == (1 if mode == "auto" else 0)
        assert not any(story.own["approval"]["approval_id"] in state for state in states)
        tried = words([received.decode(), *states])
        digests = {one["digest"] for one in story.waiting}
        assert digests <= set(tried)
        telling = words([json.dumps([*story.waiting, story.own]), *states])
        for first in range(0, len(tried), AT_ONCE):
            some = tried[first : first + AT_ONCE]
            targets = [story.waiting if word in telling else [] for word in some]
            await asyncio.gather(*map(partial(attempts, story), some, targets))
        await as_keys(story, telling)
        refused = await replays(story, states)
        assert refused == len(story.waiting) * 3 * (1 + len(states))
        require_undecided(shop)
        require_no_key(shop, seen(served))
    assert json.loads(received.splitlines()[0])["jsonrpc"] == "2.0"
