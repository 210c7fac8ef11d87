"""Several proposals at once, and taking back: each is bound to its own digest, and what was decided stays decided."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
View = dict[str, Any]


@pytest.fixture
def automated(shop: Path) -> Path:
    with (shop / "counterfoil.toml").open("a") as configuration:
        configuration.write("\n[approvals]\nautomation = true\n")
    return shop


def proposed(command: Command, order: str = "ord_1") -> View:
    ran = command("call", "shop_refund", json.dumps({"order_id": order, "amount": 20}), "--json")
    assert ran.exit_code == 3, ran
    answer: View = ran.answer
    return answer


@pytest.fixture
def two(command: Command, automated: Path) -> list[View]:
    return [proposed(command)["approval"], proposed(command, order="ord_2")["approval"]] if automated else []


@pytest.mark.usefixtures("automated")
def test_several_are_decided_each_by_its_own_digest(command: Command, two: list[View]) -> None:
    ids, digests = [one["approval_id"] for one in two], [one["digest"] for one in two]
    ran = command("approvals", "reject", *ids, "--digest", digests[0], "--digest", digests[1], "--json")
    assert ran.exit_code == 0, ran
    assert [(one["approval_id"], one["state"]) for one in ran.answer["decided"]] == [(id_, "rejected") for id_ in ids]


@pytest.mark.usefixtures("automated")
def test_one_digest_too_few_is_wrong_usage_and_decides_nothing(command: Command, two: list[View]) -> None:
    ids = [one["approval_id"] for one in two]
    ran = command("approvals", "approve", *ids, "--digest", two[0]["digest"], "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (2, "usage")
    assert len(command("approvals", "list", "--json").answer["approvals"]) == 2


@pytest.mark.usefixtures("automated")
def test_what_was_decided_before_one_that_fails_stays_decided_and_is_named(command: Command, two: list[View]) -> None:
    ids = [one["approval_id"] for one in two]
    ran = command("approvals", "reject", *ids, "--digest", two[0]["digest"], "--digest", "0" * 64, "--json")
    assert (ran.exit_code, ran.answer["error"]["details"]["decided"]) == (1, ids[:1])
    states = [command("approvals", "show", one, "--json").answer["state"] for one in ids]
    assert states == ["rejected", "pending"]


@pytest.mark.usefixtures("automated")
@pytest.mark.parametrize("approved", [False, True])
def test_what_was_proposed_or_approved_is_taken_back(command: Command, approved: bool) -> None:
    view = proposed(command)
    approval, digest = view["approval"]["approval_id"], view["approval"]["digest"]
    if approved:
        assert command("approvals", "approve", approval, "--digest", digest, "--json").exit_code == 0
    ran = command("approvals", "revoke", approval, "--digest", digest, "--note", "changed my mind", "--json")
    assert (ran.exit_code, ran.answer["state"]) == (0, "revoked")
    call = command("status", view["call_id"], "--json").answer
    assert (call["state"], call["sent"], call["error"]["code"]) == ("refused", "no", "approval_invalid")
    again = command("approvals", "approve", approval, "--digest", digest, "--json")
    assert (again.exit_code, again.answer["error"]["code"]) == (1, "approval_invalid")


@pytest.mark.usefixtures("shop")
def test_what_is_held_is_refused_shown_and_released(command: Command) -> None:
    assert command("hold", "tool", "shop_refund", "--reason", "wrong prices", "--json").exit_code == 0
    refused = command("call", "shop_refund", json.dumps({"order_id": "ord_1", "amount": 20}), "--json")
    assert (refused.exit_code, refused.answer["error"]["code"]) == (1, "held")
    (held,) = command("hold", "--json").answer["holds"]
    assert (held["kind"], held["name"], held["reason"]) == ("tool", "shop_refund", "wrong prices")
    assert command("release", "tool", "shop_refund", "--json").exit_code == 0
    assert command("hold", "--json").answer == {"holds": []}
    assert proposed(command)["state"] == "awaiting_approval"
    assert command("release", "tool", "shop_refund", "--json").exit_code == 1
    for line in (["hold", "tool"], ["hold", "all", "x"], ["hold", "world", "x"]):
        assert command(*line, "--json").exit_code == 2
