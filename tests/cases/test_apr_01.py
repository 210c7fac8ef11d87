"""APR-01: what a person is shown is what is sent: every field, with its defaults, under one digest."""

from __future__ import annotations

import hashlib

import pytest

from counterfoil.canonical import JsonObject, canonical
from tests.kit.bench import OPERATOR, bench
from tests.kit.seat import View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
EFFECTIVE: JsonObject = {"ref": "r", "amount": 100, "notify": True}


@pytest.mark.promise("APR-01")
async def test_the_proposal_the_record_and_the_tool_have_the_same_arguments_under_one_digest(shop: Workshop) -> None:
    async with bench(shop) as at:
        waiting = await at.seat.call("more_pay", {"amount": 100, "ref": "r"})
        assert (waiting["state"], waiting["sent"]) == ("awaiting_approval", "no")
        shown = await at.seat.ask("confirm", approval_id=waiting["approval"]["approval_id"])
        assert shown["arguments"] == EFFECTIVE
        assert shown["digest"] == waiting["approval"]["digest"]
        assert (await at.approve(waiting))["output"] == {"amount": 100, "notify": True}
        assert at.world.effects("r") == [{"amount": 100, "notify": True}]
        events = {event["type"]: event for event in await at.events(waiting["call_id"])}
        digest = hashlib.sha256(canonical(EFFECTIVE)).hexdigest()
        assert events["proposed"]["args_digest"] == events["dispatched"]["args_digest"] == digest
        assert events["proposed"]["arguments"] == EFFECTIVE
        assert events["proposed"]["digest"] == events["decided"]["digest"] == shown["digest"]
        assert events["dispatched"]["approval_id"] == shown["approval_id"]
        used = await at.seat.ask("confirm", approval_id=shown["approval_id"])
        assert (used["state"], used["decided"]["by"]) == ("consumed", OPERATOR.by)


@pytest.mark.promise("APR-01")
async def test_a_decision_about_other_arguments_is_none(shop: Workshop) -> None:
    async with bench(shop) as at:
        first = await at.seat.call("more_pay", {"ref": "r", "amount": 100})
        other = await at.seat.call("more_pay", {"ref": "r", "amount": 1})
        assert other["approval"]["digest"] != first["approval"]["digest"]
        named, digest = first["approval"]["approval_id"], other["approval"]["digest"]
        decided: View = (await at.app.runtime.decide(named, "approve", decider=OPERATOR, digest=digest)).wire()
        assert decided["error"]["code"] == "approval_invalid"
        altered = await at.seat.ask("confirm", approval_id=first["approval"]["approval_id"], arguments={"amount": 1})
        assert altered["error"]["code"] == "invalid_arguments"
        for view in (first, other):
            still = await at.seat.ask("status", call_id=view["call_id"])
            assert (still["state"], still["sent"]) == ("awaiting_approval", "no")
        assert at.world.count("r") == 0


@pytest.mark.promise("APR-01")
async def test_changing_an_object_after_it_was_proposed_changes_nothing(shop: Workshop) -> None:
    async with bench(shop) as at:
        arguments: JsonObject = {"ref": "r", "amount": 100}
        view = (await at.app.call("more_pay", arguments)).wire()
        arguments["amount"] = 1
        assert (await at.approve(view))["output"]["amount"] == 100


@pytest.mark.promise("APR-01")
async def test_stated_defaults_and_none_are_one_proposal(shop: Workshop) -> None:
    async with bench(shop) as at:
        implied = await at.seat.call("more_pay", {"ref": "r", "amount": 100})
        stated = await at.seat.call("more_pay", EFFECTIVE)
        assert stated["approval"] == implied["approval"]
        assert stated["call_id"] == implied["call_id"]


@pytest.mark.promise("APR-01")
async def test_a_long_argument_is_shown_whole_or_its_cut_is_marked(shop: Workshop) -> None:
    async with bench(shop) as at:
        text = "a" * 100_000
        waiting = await at.seat.call("more_typed_purge", {"ref": "r", "text": text})
        shown = await at.seat.ask("confirm", approval_id=waiting["approval"]["approval_id"])
        assert set(shown["arguments"]) == {"ref", "text", "number", "flag", "members"}
        cut = shown["arguments"]["text"]
        assert (cut["cut"], cut["length"]) == (True, len(text))
        assert text.startswith(cut["start"])


@pytest.mark.promise("APR-01")
@pytest.mark.parametrize(("amount", "paid"), [(40, 40), (100, None)])
async def test_what_a_tools_own_code_would_change_is_refused_before_anybody_is_asked(
    shop: Workshop, amount: int, paid: int | None
) -> None:
    async with bench(shop) as at:
        asked = await at.seat.call("more_pay_clamped", {"ref": "r", "amount": amount})
        if paid is not None:
            done = await at.seat.ask("status", call_id=(await at.approve(asked))["call_id"])
            assert done["output"] == {"amount": paid}
            return
        assert (asked["state"], asked["error"]["code"], asked["approval"]) == ("refused", "invalid_arguments", None)
        assert (asked["sent"], at.world.count("r")) == ("no", 0)
        assert "amount" in asked["error"]["message"]
