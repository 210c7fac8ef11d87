"""DUP-04: a key is bound to the tool and the canonical arguments that it came with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio

FIRST: dict[str, Any] = {"ref": "r", "amount": 10}


async def first_and_second(shop: Workshop, arguments: dict[str, Any], tool: str = "kit_write") -> tuple[Any, Any]:
    """The wire of a call with a key, and of another one with the same key."""
    async with shop.open() as app:
        first = await app.call("kit_write", FIRST, idempotency_key="k")
        second = await app.call(tool, arguments, idempotency_key="k")
        return first.wire(), second.wire()


@pytest.mark.promise("DUP-04")
async def test_a_key_that_comes_again_with_other_arguments_is_a_conflict_that_names_the_first_call(
    shop: Workshop,
) -> None:
    first, second = await first_and_second(shop, {"ref": "r", "amount": 11})
    assert second["error"]["code"] == "key_conflict"
    assert second["error"]["details"]["call_id"] == first["call_id"]
    assert second["output"] is None
    assert (second["state"], second["outcome"], second["sent"]) == ("refused", "invalid_request", "no")
    assert shop.world.effects("r") == [{"amount": 10, "note": None}]


@pytest.mark.promise("DUP-04")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"amount": 10, "ref": "r"}, id="another order"),
        pytest.param({"ref": "r", "amount": 10, "note": None}, id="a default that is stated"),
        pytest.param({"ref": "r"}, id="a default that is left out"),
        pytest.param({"ref": "r", "amount": 10.0}, id="a whole number with a point"),
    ],
)
async def test_a_key_that_comes_again_with_the_same_arguments_in_other_words_is_a_replay(
    shop: Workshop, arguments: dict[str, Any]
) -> None:
    first, second = await first_and_second(shop, arguments)
    assert second["replayed"]
    assert (second["call_id"], second["output"]) == (first["call_id"], first["output"])
    assert shop.world.count("r") == 1


@pytest.mark.promise("DUP-04")
async def test_a_key_is_one_tools_own_so_another_tool_with_it_makes_a_call_of_its_own(shop: Workshop) -> None:
    first, second = await first_and_second(shop, FIRST, tool="kit_write_on")
    assert not second["replayed"]
    assert second["call_id"] != first["call_id"]
    assert second["output"] == {"ref": "r", "number": 2}
    assert shop.world.count("r") == 2


@pytest.mark.promise("DUP-04")
async def test_over_the_wire_and_after_a_restart_a_key_replays_its_call_and_conflicts_with_another(
    shop: Workshop,
) -> None:
    async with shop.serve() as served:
        first = await served.call("kit_write", FIRST, idempotency_key="k")
        again = await served.call("kit_write", {"amount": 10, "ref": "r"}, idempotency_key="k")
        other = await served.call("kit_write", FIRST | {"amount": 11}, idempotency_key="k")
    assert (again["replayed"], again["call_id"]) == (True, first["call_id"])
    assert other["error"]["code"] == "key_conflict"
    async with shop.open() as app:
        still = await app.call("kit_write", FIRST, idempotency_key="k")
    assert (still.replayed, still.call_id) == (True, first["call_id"])
    assert shop.world.count("r") == 1
