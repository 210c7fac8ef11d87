"""`policy explain` for a person and a program: the verdict with its reasons, and nothing recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


def refund(amount: object) -> str:
    return f'{{"order_id": "ord_1", "amount": {amount}}}'


@pytest.mark.parametrize(
    ("amount", "verdict", "rule"), [(150, "deny", "no-large-refunds"), (20, "approve", "default:destructive")]
)
def test_any_verdict_is_done_and_names_the_rule_that_decided(
    shop: Path, command: Command, amount: int, verdict: str, rule: str
) -> None:
    ran = command("policy", "explain", "shop_refund", refund(amount), "--json")
    assert (ran.exit_code, ran.answer["verdict"], ran.answer["rule_id"]) == (0, verdict, rule)
    (said,) = ran.answer["rules"]
    (clause,) = said["clauses"]
    assert (clause["path"], clause["expected"], clause["got"]) == ("/amount", "gt 100", str(amount))
    assert clause["answer"] is said["matches"] is (amount > 100)
    assert not (shop / "ledger").exists()


@pytest.mark.usefixtures("shop")
def test_without_arguments_it_says_what_it_depends_on(command: Command) -> None:
    answer = command("policy", "explain", "shop_refund", "--json").answer
    assert (answer["verdict"], answer["standing"], answer["rules"][0]["matches"]) == (None, "depends", None)
    assert "if /amount gt 100" in command("policy", "explain", "shop_refund").out


@pytest.mark.usefixtures("shop")
def test_a_person_is_told_which_condition_failed_and_on_what(command: Command) -> None:
    shown = command("policy", "explain", "shop_refund", refund(20)).out
    assert "/amount gt 100: fails, got 20" in " ".join(shown.split())


def test_another_principal_can_be_asked_for(shop: Path, command: Command) -> None:
    with (shop / "counterfoil.toml").open("a") as configuration:
        configuration.write('\n[[policy]]\nid = "not-bob"\nsubject = "bob"\nverdict = "deny"\n')
    own = command("policy", "explain", "shop_order", '{"order_id": "ord_1"}', "--json").answer
    line = ("--subject", "bob", "--tenant", "b", "--scope", "one", "--scope", "two", "--json")
    bobs = command("policy", "explain", "shop_order", '{"order_id": "ord_1"}', *line).answer
    assert (own["verdict"], bobs["verdict"]) == ("allow", "deny")
    assert bobs["principal"] == {"tenant": "b", "subject": "bob", "scopes": ["one", "two"]}
    (obstacle,) = own["rules"][1]["obstacles"]
    assert (obstacle["field"], obstacle["expected"]) == ("subject", "bob")


@pytest.mark.usefixtures("shop")
def test_an_unknown_tool_is_a_no_and_a_close_name_is_told(command: Command) -> None:
    ran = command("policy", "explain", "shop_refnd", "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (1, "unknown_tool")
    assert "shop_refund" in ran.answer["error"]["message"]


@pytest.mark.usefixtures("shop")
def test_arguments_that_do_not_fit_never_reach_policy(command: Command) -> None:
    ran = command("policy", "explain", "shop_refund", '{"order_id": 5}', "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (1, "invalid_arguments")
    assert command("policy", "explain", "shop_refund", "{", "--json").exit_code == 2
    ran = command("policy", "explain", "shop_refund", "null", "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (1, "invalid_arguments")
