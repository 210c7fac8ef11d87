"""Who sees a proposal and who may decide it over MCP: nobody their own, and only where a rule lets it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counterfoil.registry.principal import Principal
from counterfoil.registry.question import Said
from counterfoil.server.app import App
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage
from tests.runtime.talk import until

pytestmark = pytest.mark.anyio

RULE = """
[[policy]]
id = "both"
tool = "refund"
verdict = "approve"
assurance = "{assurance}"
over_mcp = {over_mcp}
approvers = {approvers}
"""
ALICE = Principal("a", "alice", "desk", frozenset({"*"}), "token")
BOB = Principal("a", "bob", "desk", frozenset({"*"}), "token")
CAROL = Principal("a", "carol", "desk", frozenset({"approve"}), "token")
FAR = Principal("b", "carol", "desk", frozenset({"approve"}), "token")
View = dict[str, Any]


async def opened(open_: OpenApp, *, assurance: str = "operator", over_mcp: bool = True, approvers: str = "[]") -> App:
    return await open_(more=RULE.format(assurance=assurance, over_mcp=str(over_mcp).lower(), approvers=approvers))


async def asked(app: App, principal: Principal = ALICE) -> str:
    view: View = (await app.call("refund", {"ref": "1"}, principal=principal)).wire()
    return str(view["approval"]["approval_id"])


async def confirm(app: App, principal: Principal, approval_id: str, **more: Any) -> Any:
    return await app.runtime.confirm(principal, approval_id=approval_id, decision="approve", asks=True, **more)


def code(view: Any) -> str | None:
    found: View = view.wire()
    return found["error"]["code"] if found.get("error") else None


async def test_another_person_is_asked_at_their_client_and_decides_with_the_strength_of_their_token(
    open_: OpenApp, stage: Stage
) -> None:
    app = await opened(open_)
    approval_id = await asked(app)
    question = (await confirm(app, CAROL, approval_id)).question
    assert question is not None
    assert stage.calls == []
    done: View = (await app.runtime.answer(CAROL, Said(question.key, "accept", "approve", question.code))).wire()
    assert (done["decided"]["by"], done["decided"]["strength"], done["decided"]["via"]) == ("carol", "token", "mcp")
    await until(replace(app, local=ALICE), done["call_id"], "settled")
    assert stage.count("refund") == 1


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (ALICE, "denied"),
        (replace(ALICE, scopes=frozenset({"*", "approve"})), "denied"),
        (replace(ALICE, client="another", scopes=frozenset({"*", "approve"})), "denied"),
        (BOB, "not_found"),
        (FAR, "not_found"),
    ],
)
async def test_nobody_else_is_even_asked(open_: OpenApp, stage: Stage, who: Principal, expected: str) -> None:
    app = await opened(open_)
    approval_id = await asked(app)
    assert code(await confirm(app, who, approval_id)) == expected
    digest = (await app.runtime.approval(approval_id)).wire()["digest"]
    said = await app.runtime.answer(who, Said(approval_id, "accept", "approve", str(digest)[:6]))
    assert code(said) == expected
    assert (await app.runtime.approval(approval_id)).wire()["state"] == "pending"
    assert stage.calls == []


async def test_without_over_mcp_a_person_decides_elsewhere(open_: OpenApp) -> None:
    app = await opened(open_, over_mcp=False)
    view = await confirm(app, CAROL, await asked(app))
    assert (code(view), view.question) == ("denied", None)
    assert "over_mcp" in view.error.message
    assert "counterfoil approvals approve" in view.error.message


async def test_a_second_person_needs_two_proven_identities(open_: OpenApp) -> None:
    app = await opened(open_, assurance="second_person")
    alone = await asked(app, replace(ALICE, proof=None))
    assert code(await confirm(app, CAROL, alone)) == "denied"
    shown: View = (await app.runtime.approval(alone)).wire()
    assert "it waits" in shown["how"]
    both = await asked(app, replace(ALICE, subject="anna"))
    assert code(await confirm(app, replace(CAROL, proof=None), both)) == "denied"
    question = (await confirm(app, CAROL, both)).question
    assert question is not None
    done: View = (await app.runtime.answer(CAROL, Said(question.key, "accept", "approve", question.code))).wire()
    assert done["state"] in {"approved", "consumed"}


async def test_whom_a_rule_names_sees_it_and_a_scope_alone_does_not(open_: OpenApp) -> None:
    app = await opened(open_, approvers='["dora"]')
    approval_id = await asked(app)
    dora = Principal("a", "dora", "desk", frozenset(), "token")
    assert code(await app.runtime.confirm(CAROL, approval_id=approval_id)) == "not_found"
    assert code(await app.runtime.confirm(dora, approval_id=approval_id)) is None
    refused = (await confirm(app, dora, approval_id)).wire()
    assert refused["error"]["details"]["missing_scopes"] == ["approve"]
    assert (await confirm(app, replace(dora, scopes=frozenset({"approve"})), approval_id)).question is not None
    seen = [(await app.runtime.status(who)).wire()["pending"] for who in (dora, CAROL)]
    assert [len(pending) for pending in seen if isinstance(pending, list)] == [1, 0]


async def test_what_is_decided_already_or_named_by_another_digest_is_no_question(open_: OpenApp) -> None:
    app = await opened(open_)
    approval_id = await asked(app)
    wrong = (await confirm(app, CAROL, approval_id, digest="0" * 64)).wire()
    assert (wrong["error"]["code"], wrong["error"]["details"]["approval"]["approval_id"]) == (
        "approval_invalid", approval_id,
    )  # fmt: skip
    question = (await confirm(app, CAROL, approval_id)).question
    assert question is not None
    await app.runtime.answer(CAROL, Said(question.key, "accept", "reject", question.code))
    assert code(await confirm(app, CAROL, approval_id)) == "approval_invalid"
    late = await app.runtime.answer(CAROL, Said(question.key, "accept", "approve", question.code))
    assert code(late) == "approval_invalid"


async def test_whoever_declined_to_be_asked_is_not_asked_again_and_another_is(open_: OpenApp) -> None:
    app = await opened(open_)
    approval_id = await asked(app)
    await app.runtime.answer(CAROL, Said(approval_id, "decline"))
    assert code(await confirm(app, CAROL, approval_id)) == "denied"
    dan = replace(CAROL, subject="dan")
    assert (await confirm(app, dan, approval_id)).question is not None


async def test_a_decline_counts_from_whoever_was_asked_and_before_the_decision(open_: OpenApp) -> None:
    app = await opened(open_)
    approval_id = await asked(app)
    assert code(await app.runtime.answer(ALICE, Said(approval_id, "decline"))) == "denied"
    question = (await confirm(app, CAROL, approval_id)).question
    assert question is not None
    await app.runtime.answer(CAROL, Said(question.key, "accept", "reject", question.code))
    assert code(await app.runtime.answer(CAROL, Said(approval_id, "decline"))) == "approval_invalid"
    call_id = str((await app.runtime.approval(approval_id)).wire()["call_id"])
    view: View = (await app.runtime.status(ALICE, call_id=call_id)).wire()
    assert [event["type"] for event in view["events"]] == ["proposed", "decided"]


async def test_the_user_of_a_client_is_not_asked_where_a_rule_names_others(open_: OpenApp) -> None:
    rule = '[[policy]]\nid = "named"\ntool = "note"\nverdict = "approve"\napprovers = ["carol"]\n'
    app = await open_(more=rule)
    view: View = (await app.call("note", {"ref": "1"}, principal=ALICE)).wire()
    assert view["approval"]["assurance"] == "client"
    assert await app.runtime.question(ALICE, [view["approval"]["approval_id"]]) is None
