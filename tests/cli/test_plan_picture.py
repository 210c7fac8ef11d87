"""What a person sees of a plan before anything runs: who waits for whom, what it does and needs; or every error."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from counterfoil.server.cli.documents import needs_of
from counterfoil.server.cli.plan_picture import commands, picture

Command = Callable[..., Any]
DOCUMENT: dict[str, Any] = {
    "goal": "Make good for a delayed order",
    "steps": [
        {"id": "order", "tool": "orders_get", "args": {"order_id": "${input.order_id}"}, "save_as": "it"},
        {"id": "policy", "tool": "policy_find", "args": {"topic": "a literal $${order.x}"}},
        {
            "id": "refund",
            "tool": "orders_refund",
            "args": {"amount": "${it.total}"},
            "depends_on": ["policy"],
            "when": {"ref": "${it.late}", "eq": True},
        },
        {
            "id": "tell",
            "tool": "notify_send",
            "for_each": "${order.contacts}",
            "args": {"text": "paid ${refund.amount}"},
        },
    ],
}


def step(name: str, effect: str = "read", approval: str = "none", cost: float = 0) -> dict[str, Any]:
    tool = f"tool_of_{name}"
    common = {"tool": tool, "version": "1", "recovery": "natural", "wave": 1}
    return {"id": name, "effect": effect, "approval": approval, "cost": cost, **common}


VIEW: dict[str, Any] = {
    "plan_id": "plan_1",
    "digest": "ab" * 32,
    "steps": [
        step("order"),
        step("policy"),
        step("refund", "destructive", "operator", 12.5),
        step("tell", "write", "depends"),
    ],
    "waves": [["order", "policy"], ["refund"], ["tell"]],
    "budget": {"calls": 4, "writes": 1, "destructive": 1, "cost": 12.5, "limits": {"calls": 20}},
    "approvals": [
        {"step": "refund", "tool": "t", "approval": "operator", "rule_id": "money", "reason": "It is paid."},
        {"step": "tell", "tool": "t", "approval": "depends", "rule_id": "many", "reason": "Too many are told."},
    ],
    "warnings": ["tell: nobody knows yet how many items there are"],
}


def drawn(shown: RenderableType, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False, emoji=False).print(shown)
    return out.getvalue()


def test_a_reference_makes_the_same_arrow_as_a_stated_dependency() -> None:
    assert needs_of(DOCUMENT) == {
        "order": [],
        "policy": [],
        "refund": ["order", "policy"],
        "tell": ["order", "refund"],
    }


def test_the_picture_has_waves_arrows_effects_approvals_and_cost() -> None:
    lines = [line.strip("│├└─ ") for line in drawn(picture(VIEW, DOCUMENT, needs_of(DOCUMENT))).splitlines()]
    assert lines[0] == "Make good for a delayed order"
    wave = lines.index("wave 1: 1 step")
    assert lines[wave + 1 : wave + 5] == [
        "refund  tool_of_refund 1",
        "destructive, approval operator, recovery natural, cost 12.5",
        "after order, policy",
        'only when {"eq": true, "ref": "${it.late}"}',
    ]
    assert "once for each of ${order.contacts}" in lines
    assert "warning: tell: nobody knows yet how many items there are" in lines
    assert "approval: refund needs operator; money: It is paid." in lines
    assert "approval: tell depends on a value, at the strictest by many: Too many are told." in lines
    assert "budget  calls 4, writes 1, destructive 1, cost 12.5 (limits: calls 20)" in lines


def test_the_id_and_the_digest_can_be_copied_whole() -> None:
    assert commands(VIEW) == ["plan plan_1", f"digest {'ab' * 32}", "counterfoil run --plan-id plan_1"]


def test_a_wave_of_a_thousand_like_steps_is_told_in_one_line() -> None:
    names = [f"s{n}" for n in range(1000)]
    assert "approvals  none" in drawn(picture(VIEW | {"approvals": []}, {}, {}))
    steps = [step(name) | {"tool": "t"} for name in names]
    shown = drawn(picture(VIEW | {"steps": steps, "waves": [names]}, {}, {}))
    assert "s0 … s999 (1000)" in shown
    assert len(shown.splitlines()) < 15


def test_a_wave_of_a_thousand_unlike_steps_tells_the_first_and_counts_the_rest() -> None:
    names = [f"s{n}" for n in range(1000)]
    shown = drawn(picture(VIEW | {"steps": [step(name) for name in names], "waves": [names]}, {}, {}))
    assert "and 980 steps more" in shown
    assert len(shown.splitlines()) < 60


def test_each_error_has_its_step_field_code_and_message_visible() -> None:
    errors = [
        {"step": "refund", "field": "args.amount", "code": "invalid_arguments", "message": "not a number: \u202e"},
        {"step": None, "field": "steps", "code": "cycle", "message": "a, b, a"},
    ]
    view = {"error": {"code": "plan_invalid", "message": "It has 2 problems."}, "errors": errors}
    lines = [line.split() for line in drawn(picture(view, DOCUMENT, {})).splitlines()]
    assert lines == [
        ["plan_invalid:", "It", "has", "2", "problems."],
        ["step", "field", "code", "message"],
        ["refund", "args.amount", "invalid_arguments", "not", "a", "number:", "<U+202E>"],
        ["-", "steps", "cycle", "a,", "b,", "a"],
    ]
    assert commands(view) == []


def test_characters_that_hide_are_written_out_in_goal_and_references() -> None:
    document = DOCUMENT | {"goal": "pay \u200bnobody", "steps": [{"id": "order", "when": "\x1b[2J"}]}
    shown = drawn(picture(VIEW, document, {}))
    assert "pay <U+200B>nobody" in shown
    assert "<U+001B>[2J" in shown


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("verb", ["plan", "run"])
def test_a_file_that_is_not_there_is_wrong_usage(command: Command, verb: str) -> None:
    ran = command(verb, "absent.json")
    assert (ran.exit_code, ran.err) == (
        2,
        "counterfoil: the plan absent.json cannot be read: No such file or directory\n",
    )


@pytest.mark.usefixtures("shop")
def test_the_id_of_a_kept_plan_in_the_place_of_a_file_is_told_how_to_run(command: Command) -> None:
    assert "counterfoil run --plan-id plan_1\n" in command("run", "plan_1").err


def test_a_file_of_broken_json_is_told_where_it_breaks(shop: Path, command: Command) -> None:
    (shop / "broken.json").write_text('{"goal": "a", "goal": "b"}')
    ran = command("plan", "broken.json", "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (2, "invalid_arguments")
    assert "broken.json: at" in ran.answer["error"]["message"]
