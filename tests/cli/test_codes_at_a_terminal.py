"""Codes that a person types at a real terminal: one for each proposal, after that proposal, and for taking back too."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
View = dict[str, Any]
LENGTH = 6


@pytest.fixture
def two(command: Command, shop: Path) -> list[View]:
    """Two proposals that wait, no automation allowed."""
    assert shop.exists()
    found: list[View] = []
    for order in ("ord_1", "ord_2"):
        ran = command("call", "shop_refund", json.dumps({"order_id": order, "amount": 20}), "--json")
        assert ran.exit_code == 3, ran
        found.append(ran.answer["approval"])
    return found


def ids(two: list[View]) -> list[str]:
    return [one["approval_id"] for one in two]


def typed(*approvals: View) -> str:
    return "".join(f"{one['digest'][:LENGTH]}\n" for one in approvals)


def rows(shop: Path, two: list[View]) -> list[tuple[str, str | None, str | None]]:
    """State, way and strength of each, as the ledger has them."""
    with closing(sqlite3.connect(shop / "ledger" / "test.db")) as book:
        found = dict[str, tuple[str, str | None, str | None]]()
        for named, *row in book.execute("SELECT approval_id, state, via, strength FROM approvals"):
            found[named] = (row[0], row[1], row[2])
    return [found[one] for one in ids(two)]


def test_each_of_several_is_shown_and_decided_by_its_own_code(
    shop: Path, at_terminal: Command, two: list[View]
) -> None:
    ran = at_terminal("approvals", "approve", *ids(two), typed=typed(*two))
    assert ran.exit_code == 0, ran
    places = [ran.out.index(text) for n, one in enumerate(two, 1) for text in (f"ord_{n}", one["digest"][:LENGTH])]
    assert places == sorted(places), ran.out
    assert ran.out.count("To approve exactly this") == len(two)
    assert rows(shop, two) == [("approved", "cli", "same_user")] * 2


def test_the_code_of_one_is_no_code_of_another_and_what_was_decided_before_stays_decided(
    shop: Path, at_terminal: Command, two: list[View]
) -> None:
    ran = at_terminal("approvals", "reject", *ids(two), typed=typed(two[0], two[0]))
    assert ran.exit_code == 1, ran
    assert "these are other characters; nothing was decided" in ran.err
    assert ids(two)[0] in ran.err
    assert [state for state, *_ in rows(shop, two)] == ["rejected", "pending"]


def test_it_is_taken_back_by_its_code_alone(shop: Path, at_terminal: Command, two: list[View]) -> None:
    wrong = at_terminal("approvals", "revoke", *ids(two), typed="yes\n")
    assert (wrong.exit_code, "To revoke exactly this" in wrong.out) == (1, True), wrong
    assert [state for state, *_ in rows(shop, two)] == ["pending", "pending"]
    ran = at_terminal("approvals", "revoke", *ids(two), typed=typed(*two))
    assert ran.exit_code == 0, ran
    assert ran.out.count("Taken back. It will not be sent.") == len(two)
    assert [state for state, *_ in rows(shop, two)] == ["revoked", "revoked"]
