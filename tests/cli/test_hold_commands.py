"""`hold` and `release` at the command line: what is held is named, and a slip of the pen holds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("shop")


def test_an_unknown_tool_is_not_held_and_the_nearest_is_named(command: Command) -> None:
    ran = command("hold", "tool", "shop_refnud", "--json")
    assert ran.exit_code == 1
    assert (ran.answer["error"]["code"], ran.answer["error"]["details"]) == ("unknown_tool", {"nearest": "shop_refund"})
    assert "did you mean shop_refund?" in ran.answer["error"]["message"]
    assert command("hold", "--json").answer["holds"] == []


def test_a_tool_that_is_like_none_is_not_held_either(command: Command) -> None:
    ran = command("hold", "tool", "xyzzy", "--json")
    assert (ran.exit_code, ran.answer["error"]["details"]) == (1, {"nearest": None})
    assert "counterfoil tools list" in ran.answer["error"]["message"]


def test_what_is_held_is_listed_and_found_by_doctor_until_it_is_released(command: Command) -> None:
    assert command("hold", "tool", "shop_refund", "--reason", "wrong prices").exit_code == 0
    (held,) = command("hold", "--json").answer["holds"]
    assert (held["kind"], held["name"], held["reason"]) == ("tool", "shop_refund", "wrong prices")
    (finding,) = [one for one in command("doctor", "--json").answer["findings"] if one["check"] == "holds"]
    assert f"tool shop_refund is held by {held['by']} since {held['since']}: wrong prices" in finding["what"]
    assert "counterfoil release tool shop_refund" in finding["do"]
    assert command("release", "tool", "shop_refund").exit_code == 0
    (finding,) = [one for one in command("doctor", "--json").answer["findings"] if one["check"] == "holds"]
    assert (finding["level"], finding["what"]) == ("ok", "nothing is held")
