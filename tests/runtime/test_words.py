"""A person's word about an unknown outcome, from their own client: who may say it, what binds it, what it leads to."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from counterfoil.ledger.queries import EVENTS
from counterfoil.registry.principal import Principal
from counterfoil.registry.question import Question, Said
from counterfoil.runtime.deciding import Decider
from counterfoil.server.app import App
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, lose
from tests.runtime.talk import approve, until

pytestmark = pytest.mark.anyio

ALICE = Principal("a", "alice", "desk", frozenset({"*"}), "token")
BOB = Principal("a", "bob", "desk", frozenset({"*"}), "token")
CAROL = Principal("a", "carol", "desk", frozenset({"reconcile"}), "token")
FAR = Principal("b", "carol", "desk", frozenset({"reconcile"}), "token")
HAPPENED: dict[str, Any] = {"resolution": "happened", "evidence": "ref_88 in their list"}
SECOND = '[[policy]]\nid = "two"\ntool = "refund"\nverdict = "approve"\nassurance = "second_person"'
View = dict[str, Any]


async def lost(app: App, stage: Stage, tool: str = "note", principal: Principal = ALICE) -> str:
    stage.then(tool, lose)
    view = await app.call(tool, {"ref": "1"}, principal=principal)
    assert view.call_id is not None
    if view.state == "awaiting_approval":
        await approve(app, view, decider=Decider("dora", "token", "http"))
        await until(replace(app, local=principal), view.call_id, "awaiting_reconciliation")
    return view.call_id


async def lost_before(open_: OpenApp, stage: Stage, tool: str, more: str = "") -> tuple[App, str]:
    """One whose server has ended since, so that somebody may say that it did not happen; and the next server."""
    first = await open_(more=more)
    call_id = await lost(first, stage, tool)
    await first.runtime.stop(1.0)
    await first.ledger.close()
    return await open_(more=more), call_id


async def word(app: App, who: Principal, call_id: str | None, said: Said | None = None, **stated: Any) -> Any:
    return await app.runtime.reconcile(
        who, call_id=call_id, said=said, **{"asks": True, "wait_s": 5.0} | HAPPENED | stated
    )


async def asked(app: App, who: Principal, call_id: str, **stated: Any) -> Question:
    view = await word(app, who, call_id, **stated)
    assert view.question is not None, view.wire()
    assert isinstance(view.question, Question)
    return view.question


def yes(question: Question) -> Said:
    return Said(question.key, "accept", "approve", question.code)


def code(view: Any) -> str | None:
    found: View = view.wire()
    return found["error"]["code"] if found.get("error") else None


async def words_of(app: App, call_id: str) -> list[View]:
    shown: View = (await app.runtime.status(ALICE, call_id=call_id)).wire()
    return [event["data"] for event in shown["events"] if event["type"] == "resolved" and "resolution" in event["data"]]


async def state_of(app: App, call_id: str) -> str:
    shown: View = (await app.runtime.status(ALICE, call_id=call_id)).wire()
    return str(shown["state"])


async def test_another_person_is_asked_and_their_word_settles_it_under_their_name(app: App, stage: Stage) -> None:
    call_id = await lost(app, stage)
    stated: dict[str, Any] = {"output": {"ref": "88"}, "external_reference": "ref_88"}
    question = await asked(app, CAROL, call_id, **stated)
    assert await words_of(app, call_id) == []
    done = await word(app, CAROL, call_id, yes(question), **stated)
    assert (done.state, done.outcome, done.delivers, done.output) == ("settled", "success", (), None)
    said: View = {
        "resolution": "happened", "evidence": "ref_88 in their list", "by": "carol", "strength": "token",
        "via": "mcp", "then": None, "external_reference": "ref_88",
    }  # fmt: skip
    assert (await words_of(app, call_id))[0] == said
    own = await app.runtime.status(ALICE, call_id=call_id)
    assert own.wire()["output"] == {"ref": "88"}
    assert own.delivers == (call_id,)
    assert stage.count("note") == 1


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (ALICE, "insufficient_scope"),
        (replace(ALICE, scopes=frozenset({"*", "reconcile"})), "denied"),
        (replace(ALICE, client="another", scopes=frozenset({"reconcile"})), "denied"),
        (BOB, "not_found"),
        (FAR, "not_found"),
    ],
)
async def test_nobody_else_is_even_asked(app: App, stage: Stage, who: Principal, expected: str) -> None:
    call_id = await lost(app, stage)
    refused = await word(app, who, call_id)
    assert (code(refused), refused.question) == (expected, None)
    question = await asked(app, CAROL, call_id)
    assert code(await word(app, who, call_id, yes(question))) == expected
    assert await words_of(app, call_id) == []
    assert await state_of(app, call_id) == "awaiting_reconciliation"


async def test_a_requester_with_the_scope_is_told_who_says_it(app: App, stage: Stage) -> None:
    call_id = await lost(app, stage)
    refused = await word(app, replace(ALICE, scopes=frozenset({"reconcile"})), call_id)
    assert "Another person with the scope reconcile" in refused.error.message
    assert f"counterfoil reconcile {call_id}" in refused.error.message


async def test_a_holder_of_the_scope_finds_what_is_unknown_in_the_tenant_and_nobody_else_does(
    app: App, stage: Stage
) -> None:
    call_id = await lost(app, stage)
    found: dict[str, View] = {}
    for name, who in {"carol": CAROL, "bob": BOB, "far": FAR}.items():
        found[name] = (await app.runtime.status(who)).wire()
    assert [view["call_id"] for view in found["carol"]["unresolved"]] == [call_id]
    assert (found["bob"]["unresolved"], found["far"]["unresolved"]) == ([], [])


async def test_what_came_back_of_anothers_call_is_not_shown_to_whoever_may_settle_it(app: App) -> None:
    view = await app.call("note", {"ref": "1"}, principal=ALICE)
    shown = await app.runtime.reconcile(CAROL, call_id=view.call_id)
    assert (shown.wire()["output"], shown.delivers, view.output) == (None, (), {"ref": "1"})
    assert code(await word(app, CAROL, view.call_id)) == "version_conflict"


async def test_without_evidence_or_a_form_nobody_is_asked(app: App, stage: Stage) -> None:
    call_id = await lost(app, stage)
    assert code(await word(app, CAROL, call_id, evidence="  ")) == "invalid_arguments"
    assert code(await word(app, CAROL, call_id, evidence=None)) == "invalid_arguments"
    refused = await word(app, CAROL, call_id, asks=False)
    assert code(refused) == "denied"
    assert f"counterfoil reconcile {call_id}" in refused.error.message


@pytest.mark.parametrize("requester", [ALICE, replace(ALICE, proof=None)])
async def test_where_a_second_person_had_to_decide_the_word_needs_two_proven_identities(
    open_: OpenApp, stage: Stage, requester: Principal
) -> None:
    app = await open_(more=SECOND if requester.proof else "")
    call_id = await lost(app, stage, "refund", requester)
    at_the_prompt = Decider("os:carol", "same_user", "cli")
    if requester.proof is None:  # an operator's decision was enough, and so is anybody's word
        assert (await asked(app, replace(CAROL, proof=None), call_id)).code
        return
    assert code(await word(app, replace(CAROL, proof=None), call_id)) == "denied"
    refused = await app.runtime.reconcile(ALICE, call_id=call_id, person=at_the_prompt, **HAPPENED)
    assert code(refused) == "denied"
    done = await word(app, CAROL, call_id, yes(await asked(app, CAROL, call_id)))
    assert (done.state, done.outcome) == ("settled", "success")


@pytest.mark.parametrize("tool", ["note", "refund"])
async def test_where_the_policy_of_now_asks_for_a_second_person_the_word_does_too(
    open_: OpenApp, stage: Stage, tool: str
) -> None:
    first = await open_()
    call_id = await lost(first, stage, tool)
    await first.runtime.stop(1.0)
    app = await open_(more=SECOND.replace('"refund"', f'"{tool}"'))
    assert code(await word(app, replace(CAROL, proof=None), call_id)) == "denied"
    at_the_prompt = Decider("os:carol", "same_user", "cli")
    refused = await app.runtime.reconcile(ALICE, call_id=call_id, person=at_the_prompt, **HAPPENED)
    assert code(refused) == "denied"
    done = await word(app, CAROL, call_id, yes(await asked(app, CAROL, call_id)))
    assert (done.state, done.outcome) == ("settled", "success")


async def test_an_unproven_word_is_recorded_as_no_more_than_the_client_attests(app: App, stage: Stage) -> None:
    call_id = await lost(app, stage)
    carol = replace(CAROL, proof=None)
    await word(app, carol, call_id, yes(await asked(app, carol, call_id)))
    assert (await words_of(app, call_id))[0]["strength"] == "client_attested"


async def test_every_part_of_a_word_and_who_says_it_makes_it_another_one(open_: OpenApp, stage: Stage) -> None:
    app, call_id = await lost_before(open_, stage, "note")
    others: list[tuple[Principal, dict[str, Any]]] = [
        (CAROL, {}),
        (CAROL, {"resolution": "still_unknown"}),
        (CAROL, {"resolution": "not_happened"}),
        (CAROL, {"resolution": "not_happened", "then": "retry"}),
        (CAROL, {"evidence": "something else"}),
        (CAROL, {"external_reference": "x"}),
        (CAROL, {"output": {"ref": "1"}}),
        (CAROL, {"output": {"ref": "2"}}),
        (replace(CAROL, client="another"), {}),
        (replace(CAROL, subject="dan"), {}),
    ]
    keys = [(await asked(app, who, call_id, **stated)).key for who, stated in others]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(f"word:{call_id}:") for key in keys)
    question = await asked(app, CAROL, call_id)
    for who, stated in others[1:]:  # an answer to one of them is none to another, which is asked about in its turn
        assert (await word(app, who, call_id, yes(question), **stated)).question.key != question.key
        right_code = (await asked(app, who, call_id, **stated)).code
        assert (await word(app, who, call_id, replace(yes(question), code=right_code), **stated)).question is not None
    assert await words_of(app, call_id) == []


async def test_another_attempt_makes_it_another_word(open_: OpenApp, stage: Stage) -> None:
    app, call_id = await lost_before(open_, stage, "note")
    first = await asked(app, CAROL, call_id)
    stage.then("note", lose)
    again: dict[str, Any] = {"resolution": "not_happened", "then": "retry"}
    await word(app, CAROL, call_id, yes(await asked(app, CAROL, call_id, **again)), **again)
    view = await until(replace(app, local=ALICE), call_id, "awaiting_reconciliation")
    assert (view.attempts, stage.count("note")) == (2, 2)
    assert (await word(app, CAROL, call_id, yes(first))).question.key != first.key


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Said("", "accept", "approve", "zzzzzz"), "approval_invalid"),
        (Said("", "accept", "approve", None), "approval_invalid"),
        (Said("", "accept", None, None), "approval_invalid"),
        (Said("", "decline"), "denied"),
        (Said("", "cancel"), "denied"),
    ],
)
async def test_a_form_that_was_not_filled_in_is_no_word(app: App, stage: Stage, said: Said, expected: str) -> None:
    call_id = await lost(app, stage)
    question = await asked(app, CAROL, call_id)
    refused = await word(app, CAROL, call_id, replace(said, key=question.key))
    assert (code(refused), refused.is_error) == (expected, True)
    assert "No word was recorded" in refused.error.message
    assert (refused.question is not None) == (expected == "approval_invalid")
    assert await words_of(app, call_id) == []
    assert await state_of(app, call_id) == "awaiting_reconciliation"


async def test_a_no_is_recorded_and_that_client_is_not_asked_for_this_word_again(app: App, stage: Stage) -> None:
    call_id = await lost(app, stage)
    question = await asked(app, CAROL, call_id)
    assert code(await word(app, CAROL, call_id, Said(question.key, "accept", "reject", question.code))) == "denied"
    again = await word(app, CAROL, call_id)
    assert (code(again), again.question) == ("denied", None)
    assert code(await word(app, CAROL, call_id, yes(question))) == "denied"
    (row,) = [event for event in await events(app, call_id) if event[0] == "declined"]
    assert "carol" in row[1]
    assert await asked(app, CAROL, call_id, evidence="another look")
    assert await asked(app, replace(CAROL, subject="dan"), call_id)


async def events(app: App, call_id: str) -> list[tuple[str, str]]:
    return [(row.type, row.body) for row in await app.ledger.reads.fetch(EVENTS, run_id=call_id, after_seq=0)]


async def test_the_same_answer_again_says_nothing_a_second_time(app: App, stage: Stage) -> None:
    call_id = await lost(app, stage)
    unsure: dict[str, Any] = {"resolution": "still_unknown"}
    question = await asked(app, CAROL, call_id, **unsure)
    await word(app, CAROL, call_id, yes(question), **unsure)
    replayed = await word(app, CAROL, call_id, yes(question), **unsure)
    assert replayed.question.key != question.key
    assert len(await words_of(app, call_id)) == 1
    question = await asked(app, CAROL, call_id)
    await word(app, CAROL, call_id, yes(question))
    assert code(await word(app, CAROL, call_id, yes(question))) == "version_conflict"
    assert len(await words_of(app, call_id)) == 2


async def test_of_two_words_at_once_one_settles_it(app: App, stage: Stage) -> None:
    call_id = await lost(app, stage)
    people = [replace(CAROL, subject=f"carol{n}") for n in range(4)]
    questions = [await asked(app, who, call_id) for who in people]
    said = zip(people, questions, strict=True)
    views = await asyncio.gather(*(word(app, who, call_id, yes(question)) for who, question in said))
    assert sorted(code(view) or "" for view in views) == ["", *["version_conflict"] * 3]
    assert len(await words_of(app, call_id)) == 1


async def test_the_form_says_what_was_sent_what_is_said_of_it_and_what_follows(open_: OpenApp, stage: Stage) -> None:
    app, call_id = await lost_before(open_, stage, "note")
    evidence = "their list\u202e, 14:02"
    question = await asked(app, CAROL, call_id, resolution="not_happened", then="retry", evidence=evidence)
    for part in ("alice asked for note (effect: write)", '"ref": "1"', "it did not happen", "SENT AGAIN at once"):
        assert part in question.message
    assert "their list<U+202E>, 14:02" in question.message
    assert f"Type the code {question.code}" in question.message
    fails = await asked(app, CAROL, call_id, resolution="not_happened")
    assert "settled as failed" in fails.message
    happened = await asked(app, CAROL, call_id, output={"ref": "88"}, external_reference="ref_88")
    for part in ("it happened", '"ref": "88"', "reference: ref_88", "Nothing is sent again"):
        assert part in happened.message


async def test_it_cannot_be_said_that_it_did_not_happen_while_it_may_still_act(app: App, stage: Stage) -> None:
    early = await word(app, CAROL, await lost(app, stage), resolution="not_happened")
    assert (code(early), early.question) == ("in_progress", None)


async def test_sending_it_again_on_a_word_needs_the_decision_anew(open_: OpenApp, stage: Stage) -> None:
    app, call_id = await lost_before(open_, stage, "refund")
    again: dict[str, Any] = {"resolution": "not_happened", "then": "retry"}
    question = await asked(app, CAROL, call_id, **again)
    assert "after a fresh decision" in question.message
    done = await word(app, CAROL, call_id, yes(question), **again)
    assert (done.state, stage.count("refund")) == ("awaiting_approval", 1)


async def test_a_call_that_moved_since_it_was_looked_at_takes_no_word(app: App, stage: Stage) -> None:
    assert code(await word(app, CAROL, await lost(app, stage), expected_version=77)) == "version_conflict"


@pytest.mark.parametrize("told", [{"evidence": "their list"}, {"then": "retry"}, {"output": {"ref": "a"}}])
async def test_what_belongs_to_a_word_is_never_dropped_in_silence(app: App, stage: Stage, told: View) -> None:
    call_id = await lost(app, stage, "book")
    view = await app.runtime.reconcile(ALICE, call_id=call_id, **told)
    assert code(view) == "invalid_arguments"
    assert (await words_of(app, call_id)) == []
