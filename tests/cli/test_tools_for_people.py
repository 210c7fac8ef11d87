"""What a person reads of a tool before letting a model use it, and of what a search found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("shop")


def said(command: Command, *line: str) -> str:
    return " ".join(command(*line).out.split())


def test_a_tool_is_shown_with_effect_recovery_undo_limits_and_schemas(command: Command) -> None:
    shown = said(command, "tools", "show", "shop_refund")
    for fact in (
        "Pays money back to the customer.",
        "destructive, open world",
        "counterfoil policy explain shop_refund",
        "order:{order_id}",
        "its probe is asked what happened (shop_refund__probe)",
        "its key is honoured for 86400 s",
        "undone by shop_refund__undo",
        "one attempt of at most 30 s",
        "input_schema",
        "output_schema",
        '"exclusiveMinimum": 0',
    ):
        assert fact in shown, fact


def test_a_read_is_not_said_to_need_an_undo(command: Command) -> None:
    shown = said(command, "tools", "show", "shop_order")
    assert "undone by" not in shown
    assert "read, closed world" in shown
    assert "3 attempts of at most 30 s, 0.5 s between them" in shown


def test_the_facts_of_a_tool_are_there_for_a_program_too(command: Command) -> None:
    shown = command("tools", "show", "shop_refund", "--json").answer
    assert set(shown["retry"]) == {"attempts", "backoff_s", "least_s"}
    assert (shown["contract_approval"], shown["visibility"], shown["key_retention_s"]) == ("none", "deferred", 86400)
    assert (shown["pool"], shown["rate"], shown["concurrency"]) == (None, None, None)


def test_a_search_shows_each_match_with_its_summary_and_names_the_words_that_no_tool_knows(command: Command) -> None:
    shown = said(command, "tools", "search", "refund an order zebra")
    assert "shop_refund effect destructive approval depends recovery probe digest" in shown
    assert "Refund an order, in full or in part." in shown
    assert "No tool knows: zebra" in shown
    assert said(command, "tools", "search", "refund order", "--limit", "1").endswith("and 1 more; --limit shows them")


def test_a_search_without_a_match_says_so(command: Command) -> None:
    ran = command("tools", "search", "zebra")
    assert (ran.exit_code, ran.out.splitlines()[0]) == (1, "Nothing fits.")


def test_a_name_that_is_nearly_right_is_told(command: Command) -> None:
    assert "did you mean shop_order?" in command("tools", "show", "shop_orde").err
