"""A tool that a person performs takes the one path, is never sent by a program, and is settled by their word alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.bench import Bench, bench
from tests.kit.chains import Ask, becomes, of, plan, ran, settle, started, states, step
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio

MODULES: Final = 'modules = ["tests.kit.tools", "tests.kit.person_tools"]'
PACKED: Final = json.dumps({"parcel": "p1", "kilos": 3})
ORDER: Final = {"order_id": "o1", "kilos": 3}
TOML: Final = """
[tools.toml_pack]
title = "Pack it"
description = "Pack an order."
effect = "write"
manual = true
resources = ["order:{order_id}"]
input = { order_id = "string" }
output = { parcel = "string" }
"""
View = dict[str, Any]


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop.new(tmp_path)


def opened(shop: Workshop, more: str = "") -> Any:
    return bench(shop, more, python=MODULES)


async def said(shop: Workshop, call_id: str, resolution: str, *more: str) -> Any:
    """What the person types in a terminal, beside the server."""
    words = ("--resolution", resolution, "--evidence", "seen on the shelf")
    return await shop.command("reconcile", call_id, *words, *more)


async def test_it_waits_for_the_word_of_a_person_who_is_told_what_to_do(shop: Workshop) -> None:
    async with opened(shop) as at:
        view = await at.seat.call("hand_pack", ORDER)
        assert (view["state"], view["outcome"], view["sent"], view["attempts"]) == (
            "awaiting_reconciliation",
            "ambiguous",
            "unknown",
            1,
        )
        assert (view["error"]["code"], view["error"]["details"]["reason"]) == ("ambiguous", "manual")
        told = view["next"]["text"]
        for part in ("Pack the parcel", '"order_id": "o1"', f"counterfoil reconcile {view['call_id']}", "--output"):
            assert part in told
        done = await said(shop, view["call_id"], "happened", "--output", PACKED)
        assert (done.code, done.answer["outcome"]) == (0, "success"), done.stderr
        after = await at.seat.ask("status", call_id=view["call_id"])
        assert (after["state"], after["output"], after["sent"]) == ("settled", {"parcel": "p1", "kilos": 3}, "yes")
        assert [event["type"] for event in after["events"]] == ["dispatched", "lost", "resolved", "resolved"]


async def test_no_program_follows_it_up_or_sends_it_again(shop: Workshop) -> None:
    async with opened(shop) as at:
        view = await at.seat.call("hand_pack", ORDER)
        asked = await at.seat.ask("reconcile", call_id=view["call_id"])
        assert (asked["state"], asked["attempts"]) == ("awaiting_reconciliation", 1)
        assert await at.attempts(view["call_id"]) == 1


async def test_it_waits_across_a_restart_and_holds_what_it_holds(shop: Workshop) -> None:
    async with opened(shop) as at:
        view = await at.seat.call("hand_pack", ORDER)
        other = await at.seat.call("hand_label", {"order_id": "o1", "parcel": "p1"})
        assert (other["state"], other["error"]["code"]) == ("refused", "ambiguous")
    async with opened(shop) as at:
        again = await at.seat.ask("status", call_id=view["call_id"])
        assert (again["state"], again["attempts"]) == ("awaiting_reconciliation", 1)
        assert "Pack the parcel" in again["next"]["text"]
        assert (await at.seat.call("hand_label", {"order_id": "o1", "parcel": "p1"}))["state"] == "refused"
        assert (await at.seat.call("hand_label", {"order_id": "o2", "parcel": "p2"}))["outcome"] == "success"
        assert (await said(shop, view["call_id"], "happened", "--output", PACKED)).code == 0
        assert (await at.seat.call("hand_label", {"order_id": "o1", "parcel": "p1"}))["outcome"] == "success"
        assert at.world.count("o1") == 1


async def test_a_server_that_died_before_it_could_say_so_leaves_the_same_wait(shop: Workshop) -> None:
    async with opened(shop) as at:
        call_id = (await at.seat.call("hand_pack", ORDER))["call_id"]
    shop.book.change(
        "UPDATE attempts SET outcome = NULL, settled_at = NULL, handler_ended_at = NULL WHERE call_id = ?", call_id
    )
    shop.book.change(
        "UPDATE calls SET state = 'dispatched', outcome = NULL, code = NULL, message = NULL, details = NULL "
        "WHERE call_id = ?",
        call_id,
    )
    async with opened(shop) as at:
        view = await at.seat.ask("status", call_id=call_id)
        assert (view["state"], view["error"]["code"], view["attempts"]) == ("awaiting_reconciliation", "ambiguous", 1)
        assert "Pack the parcel" in view["next"]["text"]
        assert (await settle(at.app, call_id, "not_happened"))["state"] == "settled"


@pytest.mark.parametrize("output", ["{}", '{"parcel": "p1", "kilos": "three"}', None])
async def test_a_word_whose_output_does_not_fit_settles_nothing(shop: Workshop, output: str | None) -> None:
    async with opened(shop) as at:
        call_id = (await at.seat.call("hand_pack", ORDER))["call_id"]
        given = () if output is None else ("--output", output)
        refused = await said(shop, call_id, "happened", *given)
        assert refused.code == 1
        assert refused.answer["error"]["code"] == "invalid_arguments"
        assert "output" in refused.answer["error"]["message"]
        assert (await at.seat.ask("status", call_id=call_id))["state"] == "awaiting_reconciliation"
        assert (await said(shop, call_id, "happened", "--output", PACKED)).code == 0


async def test_a_person_may_say_at_once_that_it_was_not_done_and_ask_for_it_again(shop: Workshop) -> None:
    async with opened(shop) as at:
        call_id = (await at.seat.call("hand_pack", ORDER))["call_id"]
        again = (await settle(at.app, call_id, "not_happened", "retry"))["state"]
        assert (again, await at.attempts(call_id)) == ("awaiting_reconciliation", 2)
        ended = await settle(at.app, call_id, "not_happened", "fail")
        assert (ended["state"], ended["error"]["code"]) == ("settled", "tool_failed")
        assert ended["error"]["details"]["effect"] == "none"


async def test_it_is_decided_about_before_anybody_starts(shop: Workshop) -> None:
    async with opened(shop) as at:
        view = await at.seat.call("hand_scrap", {"order_id": "o1"})
        assert (view["state"], view["sent"], view["attempts"]) == ("awaiting_approval", "no", 0)
        after = await at.approve(view)
        assert (after["state"], after["sent"]) == ("awaiting_reconciliation", "unknown")
        assert (await said(shop, view["call_id"], "happened")).code == 0


async def test_asked_for_again_after_a_word_it_is_decided_about_again(shop: Workshop) -> None:
    async with opened(shop) as at:
        view = await at.seat.call("hand_scrap", {"order_id": "o1"})
        await at.approve(view)
        again = await settle(at.app, view["call_id"], "not_happened", "retry")
        assert (again["state"], again["attempts"]) == ("awaiting_approval", 1)


async def test_arguments_scopes_and_keys_are_those_of_any_call(shop: Workshop) -> None:
    async with opened(shop) as at:
        wrong = await at.seat.call("hand_pack", {"order_id": "o1", "kilos": "three"})
        assert (wrong["state"], wrong["error"]["code"]) == ("refused", "invalid_arguments")
        first = await at.seat.call("hand_pack", ORDER, idempotency_key="k1")
        second = await at.seat.call("hand_pack", ORDER, idempotency_key="k1")
        assert second["call_id"] == first["call_id"] or second["error"]["details"]["call_id"] == first["call_id"]


async def test_in_a_run_its_step_waits_while_other_branches_go_on(shop: Workshop) -> None:
    document = plan(
        step("pack", "hand_pack", ORDER),
        step("label", "hand_label", {"order_id": "o1", "parcel": "${pack.parcel}"}),
        step("other", "hand_label", {"order_id": "o2", "parcel": "p2"}),
    )
    async with opened(shop) as at:
        view = await ran(at.seat.ask, document, "awaiting_reconciliation")
        assert states(view) == {"pack": "awaiting_reconciliation", "label": "waiting", "other": "succeeded"}
        (waits,) = view["unresolved"]
        assert waits["step"] == "pack"
        assert "Pack the parcel" in waits["how"]
    async with opened(shop) as at:
        done = await said(shop, waits["call_id"], "happened", "--output", PACKED)
        assert done.code == 0, done.stderr
        ended = await becomes(at.seat.ask, view["run_id"])
        assert (ended["status"], ended["outputs"]["label"]) == ("succeeded", "o1/p1")
        assert [at.world.count(order) for order in ("o1", "o2")] == [1, 1]


async def test_a_deadline_stands_still_while_a_run_waits_for_that_person(shop: Workshop) -> None:
    document = plan(step("pack", "hand_pack", ORDER), deadline_s=600)
    async with opened(shop) as at:
        await ran(at.seat.ask, document, "awaiting_reconciliation")
        (row,) = shop.book.rows("SELECT paused_at FROM runs")
        assert row["paused_at"] is not None


async def test_each_item_of_a_for_each_waits_for_its_own_word(shop: Workshop) -> None:
    notes = step("notes", "hand_note", {"text": "${item}"}, for_each=["a", "b"])
    async with opened(shop) as at:
        run_id = (await started(at.seat.ask, plan(notes)))["run_id"]
        view = await becomes(at.seat.ask, run_id, "awaiting_reconciliation")
        calls = [item["call_id"] for item in of(view, "notes")["items"]]
        assert [item["state"] for item in of(view, "notes")["items"]] == ["awaiting_reconciliation"] * 2
        for call_id, word in zip(calls, ("left", "right"), strict=True):
            assert (await said(shop, call_id, "happened", "--output", json.dumps(word))).code == 0
        assert (await becomes(at.seat.ask, run_id))["outputs"]["notes"] == ["left", "right"]


async def test_one_of_the_configuration_needs_no_request(shop: Workshop) -> None:
    async with opened(shop, TOML) as at:
        view = await at.seat.call("toml_pack", {"order_id": "o1"})
        assert view["state"] == "awaiting_reconciliation"
        assert (await said(shop, view["call_id"], "happened", "--output", '{"kilos": 1}')).code == 1
        assert (await said(shop, view["call_id"], "happened", "--output", '{"parcel": "p"}')).code == 0


async def test_the_search_and_the_card_say_that_a_person_performs_it(shop: Workshop) -> None:
    async with opened(shop) as at:
        await _searches(at.seat.ask)
        await _cards(shop, at)


async def _searches(ask: Ask) -> None:
    found = (await ask("tool_search", names=["hand_pack", "hand_label"]))["matches"]
    by_name = {match["name"]: match for match in found}
    assert (by_name["hand_pack"]["manual"], by_name["hand_pack"]["recovery"]) == (True, "person")
    assert "manual" not in by_name["hand_label"]


async def _cards(shop: Workshop, at: Bench) -> None:
    shown = await shop.run("tools", "show", "hand_pack", "--config", str(shop.config))
    assert "a person, outside" in shown.stdout.decode()
    assert at.app.catalogue.get("hand_pack") is not None
