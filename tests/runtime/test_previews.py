"""What an approver is shown beside a proposal: a governed read, as information, that never delays or decides much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil.registry.principal import Principal
from tests.kit.bench import Bench, bench
from tests.kit.chains import becomes, plan, settle, started, step, until
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio

MODULES: Final = 'modules = ["tests.kit.tools", "tests.kit.preview_tools"]'
TEMPLATED: Final = """
[tools.toml_drop]
description = "Drop an order."
effect = "destructive"
manual = true
input = { order = "string" }
preview = { tool = "peek", arguments = { order_id = "{arguments.order}" } }
"""
DROP: Final = {"order_id": "o1"}
View = dict[str, Any]


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop.new(tmp_path)


def opened(shop: Workshop, more: str = "", **head: str) -> Any:
    return bench(shop, more, clock=None, **{"python": MODULES} | head)


async def proposed(at: Bench, tool: str, arguments: View, **more: Any) -> tuple[View, View]:
    """A call that waits for a decision, and its proposal as anybody who may decide it sees it."""
    call = await at.seat.call(tool, arguments, **more)
    assert call["state"] == "awaiting_approval", call
    return call, await at.seat.ask("confirm", approval_id=call["approval"]["approval_id"])


async def test_an_approver_is_shown_what_a_read_showed_redacted_bounded_and_visible(shop: Workshop) -> None:
    async with opened(shop) as at:
        call, approval = await proposed(at, "drop", DROP | {"amount": 3})
        preview = approval["preview"]
        assert preview.keys() == {"tool", "output", "error", "at", "untrusted"}
        assert (preview["tool"], preview["error"], preview["untrusted"]) == ("peek", None, True)
        assert (preview["output"]["order_id"], preview["output"]["state"]) == ("o1", "paid<U+202E> in full")
        told = json.dumps(preview)
        assert "sk_live" not in told
        assert 1_000 < len(told) < 6_000
        (read,) = shop.book.calls("tool = 'peek'")
        assert (read["parent_call_id"], read["route"], read["subject"], read["outcome"]) == (
            call["call_id"],
            "preview",
            "alice",
            "success",
        )


async def test_it_is_read_once_and_never_when_it_is_carried_out(shop: Workshop) -> None:
    async with opened(shop) as at:
        call, _ = await proposed(at, "drop", DROP)
        assert (await at.seat.call("drop", DROP))["call_id"] == call["call_id"]
        assert (await at.approve(call))["outcome"] == "success"
        assert (len(shop.book.calls("tool = 'peek'")), at.world.count("o1")) == (1, 1)


async def test_the_configuration_may_say_what_a_preview_is_asked(shop: Workshop) -> None:
    async with opened(shop, TEMPLATED) as at:
        _, approval = await proposed(at, "toml_drop", {"order": "o9"})
        assert (approval["preview"]["tool"], approval["preview"]["output"]["order_id"]) == ("peek", "o9")


async def test_a_dry_run_reads_nothing(shop: Workshop) -> None:
    async with opened(shop) as at:
        assert (await at.seat.call("drop", DROP, dry_run=True))["verdict"] == "approve"
        assert shop.book.calls() == []


async def test_secrets_among_the_arguments_are_not_told_by_a_preview(shop: Workshop) -> None:
    async with opened(shop) as at:
        _, approval = await proposed(at, "drop_note", {"note": "the vault is at 7 North Lane"})
        assert approval["preview"]["error"] is None
        assert "North Lane" not in json.dumps(approval)


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("drop_slow", "It gave no answer within 0.3 s."),
        ("drop_broken", "no o1<U+200B> here"),
        ("drop_nothing", "found nothing"),
        ("drop_scoped", "peeking"),
        ("drop_decided", "A person would have to decide about the preview itself"),
    ],
)
async def test_without_a_preview_it_is_proposed_all_the_same_and_says_why(shop: Workshop, tool: str, why: str) -> None:
    async with opened(shop, principals_local='scopes = ["approve", "drops"]') as at:
        _, approval = await proposed(at, tool, DROP)
        assert approval["preview"]["output"] is None
        assert why in approval["preview"]["error"]
        assert shop.book.calls("tool = 'peek_decided'") == []
        assert [row["approval_id"] for row in shop.book.rows("SELECT * FROM approvals")] == [approval["approval_id"]]


async def test_whoever_asked_is_answered_in_time_however_long_a_preview_takes(shop: Workshop) -> None:
    async with opened(shop) as at:
        _, approval = await proposed(at, "drop_for_long", DROP, wait_s=0.2)
        assert "had to be answered" in approval["preview"]["error"]
        (read,) = shop.book.calls("tool = 'peek_for_long'")
        assert read["cancel_requested_at"] is not None


async def test_what_it_showed_is_no_part_of_the_digest(shop: Workshop) -> None:
    async with opened(shop) as at:
        call, approval = await proposed(at, "drop", DROP)
        shop.book.change("UPDATE approvals SET preview = NULL")
        again = await at.seat.ask("confirm", approval_id=approval["approval_id"])
        assert (again["preview"], again["digest"]) == (None, approval["digest"])
        assert (await at.approve(call))["outcome"] == "success"


async def test_the_items_of_a_for_each_are_previewed_up_to_a_few(shop: Workshop) -> None:
    orders = [f"o{n}" for n in range(7)]
    document = plan(step("drops", "drop", {"order_id": "${item}"}, for_each=orders))
    async with opened(shop) as at:
        run_id = (await started(at.seat.ask, document))["run_id"]
        view = await becomes(at.seat.ask, run_id, "awaiting_approval")
        approval = await at.seat.ask("confirm", approval_id=view["pending"][0]["approval_id"])
        preview = approval["preview"]
        assert [(item["n"], item["output"]["order_id"]) for item in preview["items"]] == list(enumerate(orders[:5]))
        assert (preview["output"], preview["error"]) == (None, "Previewed are 5 of its 7 items.")
        assert 1_000 < len(json.dumps(preview)) < 8_000
        assert len(shop.book.calls("tool = 'peek'")) == 5


async def test_a_call_that_is_proposed_again_is_previewed_again(shop: Workshop) -> None:
    async with opened(shop) as at:
        call, first = await proposed(at, "drop_by_hand", DROP)
        await at.approve(call)
        again = await settle(at.app, call["call_id"], "not_happened", "retry")
        assert again["state"] == "awaiting_approval"
        second = await at.seat.ask("confirm", approval_id=again["approval"]["approval_id"])
        assert second["approval_id"] != first["approval_id"]
        assert second["preview"]["output"]["order_id"] == "o1"
        assert len(shop.book.calls("tool = 'peek'")) == 2


async def test_the_panel_at_the_command_line_sets_it_apart(shop: Workshop) -> None:
    async with opened(shop) as at:
        call, _ = await proposed(at, "drop", DROP)
        shown = await shop.run("approvals", "show", call["approval"]["approval_id"], "--config", str(shop.config))
        text = " ".join(shown.stdout.decode().split())
        assert "for information, from peek" in text
        assert "the digest does not cover it" in text.replace("│ ", "").replace(" │", "")
        assert "paid<U+202E> in full" in text


async def test_the_form_sets_it_apart(shop: Workshop) -> None:
    more = '[[policy]]\nid = "ask"\ntool = "drop"\nverdict = "approve"\nassurance = "operator"\nover_mcp = true\n'
    async with opened(shop, more) as at:
        call, _ = await proposed(at, "drop", DROP)
        carol = Principal("a", "carol", "desk", frozenset({"approve"}), "token")
        view = await at.app.runtime.confirm(
            carol, approval_id=call["approval"]["approval_id"], decision="approve", asks=True
        )
        assert view.question is not None
        assert "For information, from peek at" in view.question.message
        assert "no part of what is decided" in view.question.message
        assert "paid<U+202E> in full" in view.question.message


async def test_nothing_is_read_for_what_is_held_by_itself_or_as_a_step(shop: Workshop) -> None:
    async with opened(shop) as at:
        await at.app.runtime.holding.hold("tool", "drop", by="os:carol")
        assert (await at.seat.call("drop", DROP))["error"]["code"] == "held"
        steps = plan(step("one", "drop", DROP), step("all", "drop", {"order_id": "${item}"}, for_each=["o2", "o3"]))
        run_id = (await started(at.seat.ask, steps))["run_id"]
        await until(at.seat.ask, run_id, lambda view: bool(view["reason"] == "held"))
        assert shop.book.calls() == []
        await at.app.runtime.holding.release("tool", "drop", by="os:carol")
        await until(at.seat.ask, run_id, lambda view: len(view["pending"]) == 2)
        assert len(shop.book.calls("tool = 'peek'")) == 3


async def test_nothing_is_read_for_what_a_call_stands_in_the_way_of_of_which_nobody_knows(shop: Workshop) -> None:
    async with opened(shop) as at:
        call, _ = await proposed(at, "drop_by_hand", DROP)
        assert (await at.approve(call))["state"] == "awaiting_reconciliation"
        refused = await at.seat.call("drop_by_hand", {"order_id": "o2"})
        assert (refused["error"]["code"], len(shop.book.calls("tool = 'peek'"))) == ("ambiguous", 1)
