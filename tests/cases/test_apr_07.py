"""APR-07: who asks never allows; who allowed is on record, with how they were known, when, and what exactly it was."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from mcp import Client

from tests.kit.bench import furnish
from tests.kit.people import Person
from tests.kit.served import view_of
from tests.kit.web import web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
TOKENS: Final = {name: f"{name}-" * 6 for name in ("ALICE", "BOB", "CAROL")}
SCOPES: Final = {"ALICE": '["*", "approve"]', "BOB": '["*"]', "CAROL": '["approve"]'}
PEOPLE: Final = (
    '[auth]\nmode = "tokens"\n'
    + "".join(
        f'[[auth.tokens]]\ntoken = "env:{name}"\nsubject = "{name.lower()}"\ntenant = "a"\nscopes = {scopes}\n'
        for name, scopes in SCOPES.items()
    )
    + '[[policy]]\nid = "eyes"\ntool = "kit_delete"\nverdict = "approve"\n'
    + 'assurance = "second_person"\nover_mcp = true\n'
)


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    return view_of(await client.call_tool(tool, arguments))


@pytest.mark.promise("APR-07")
async def test_neither_who_asks_nor_who_may_not_decides_and_the_record_says_who_did(shop: Workshop) -> None:
    furnish(shop, PEOPLE)
    person = Person.quick()
    async with (
        web(shop, env=TOKENS) as (_, place),
        place.client(TOKENS["ALICE"], person=person) as alice,
        place.client(TOKENS["BOB"], person=person) as bob,
        place.client(TOKENS["CAROL"], person=person) as carol,
    ):
        digest = (await ask(alice, "tool_search", names=["kit_delete"]))["matches"][0]["schema_digest"]
        waiting = await ask(alice, "tool_call", name="kit_delete", arguments={"ref": "r"}, schema_digest=digest)
        assert waiting["approval"]["assurance"] == "second_person"
        named = waiting["approval"]["approval_id"]
        for client, code in ((alice, "denied"), (bob, "not_found")):
            refused = await ask(client, "confirm", approval_id=named, decision="approve")
            assert refused["error"]["code"] == code
        assert (person.read, shop.world.count("r")) == ([], 0)
        await ask(carol, "confirm", approval_id=named, decision="approve")
        done = await ask(alice, "status", call_id=waiting["call_id"], after_seq=0, wait_s=20)
    assert (done["outcome"], shop.world.count("r"), len(person.read)) == ("success", 1, 1)
    (decided,) = [event for event in done["events"] if event["type"] == "decided"]
    said = decided["data"]
    assert (said["by"], said["strength"], said["via"], said["decision"]) == ("carol", "token", "mcp", "approve")
    assert (said["approval_id"], said["digest"]) == (named, waiting["approval"]["digest"])
    assert said["expires_at"] > 0 < said["execute_until"]
    shown = (await shop.command("approvals", "show", named)).answer
    assert shown["decided"] | {"at": None} == {
        "by": "carol",
        "at": None,
        "strength": "token",
        "via": "mcp",
        "note": None,
    }
    assert (shown["requester"], shown["decided"]["at"] is not None, shown["digest"]) == ("alice", True, said["digest"])
    refusals = [
        json.loads(row["body"])["data"] for row in shop.book.rows("SELECT body FROM events WHERE type = 'refused'")
    ]
    assert [(one["subject"], one["code"]) for one in refusals] == [("alice", "denied"), ("bob", "not_found")]


@pytest.mark.promise("APR-07")
async def test_no_approval_is_kept_as_a_bare_yes(shop: Workshop) -> None:
    furnish(shop)
    async with shop.open(role="cli") as app:
        waiting = (await app.call("kit_delete", {"ref": "r"}, wait_s=0)).wire()["approval"]
        assert isinstance(waiting, dict)
    ran = await shop.command("approvals", "approve", str(waiting["approval_id"]), "--digest", str(waiting["digest"]))
    assert ran.code == 0, ran.stderr
    (row,) = shop.book.rows("SELECT * FROM approvals")
    assert row["state"] == "approved"
    for name in ("decided_by", "decided_at", "strength", "via", "digest", "expires_at", "execute_until"):
        assert row[name], name
    assert (row["strength"], row["via"]) == ("same_user", "automation")
