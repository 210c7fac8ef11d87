"""ARG-02: nothing that a model sends is converted, apart from the one number rule; a refusal says what was expected."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.bench import bench
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio

WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"members": '{"a": 1}'}, "an object or null", 'the string "{\\"a\\": 1}"'),
    ({"text": 123}, "a string", "the number 123"),
    ({"number": True}, "an integer", "true"),
    ({"number": "7"}, "an integer", 'the string "7"'),
    ({"number": 1.5}, "an integer", "the number 1.5"),
    ({"flag": "no"}, "true or false", 'the string "no"'),
    ({"flag": 0}, "true or false", "the number 0"),
]


@pytest.mark.promise("ARG-02")
@pytest.mark.parametrize(("arguments", "expected", "got"), WRONG)
async def test_a_value_of_another_type_is_refused_with_a_correct_example(
    shop: Workshop, arguments: dict[str, Any], expected: str, got: str
) -> None:
    async with bench(shop) as at:
        for view in (
            await at.seat.read("more_typed", arguments),
            await at.seat.call("more_typed_purge", {"ref": "r", **arguments}),
        ):
            assert (view["state"], view["error"]["code"]) == ("refused", "invalid_arguments")
            (problem,) = view["error"]["details"]["problems"]
            assert (problem["expected"], problem["got"]) == (expected, got)
            assert expected in view["error"]["message"]
            assert got in view["error"]["message"]
        assert at.world.count("r") == 0
        example = view["error"]["details"]["example"]
        assert (await at.seat.call("more_typed_purge", {"ref": "r", **example}))["state"] == "awaiting_approval"


@pytest.mark.promise("ARG-02")
async def test_a_string_arrives_as_it_was_sent_whatever_it_looks_like(shop: Workshop) -> None:
    async with bench(shop) as at:
        for text in ('{"a":1}', "7", "true", "null", " 007 ", "[]"):
            assert (await at.seat.read("more_typed", {"text": text}))["output"]["text"] == text


@pytest.mark.promise("ARG-02")
async def test_a_whole_number_in_an_integer_field_is_shown_and_recorded_as_that_integer(shop: Workshop) -> None:
    async with bench(shop) as at:
        waiting = await at.seat.call("more_typed_purge", {"ref": "r", "number": 10.0})
        proposal = await at.seat.ask("confirm", approval_id=waiting["approval"]["approval_id"])
        assert repr(proposal["arguments"]["number"]) == "10"
        (proposed,) = await at.events(waiting["call_id"])
        assert repr(proposed["arguments"]["number"]) == "10"
        again = await at.seat.call("more_typed_purge", {"ref": "r", "number": 10})
        assert again["call_id"] == waiting["call_id"]
        assert (await at.approve(waiting))["outcome"] == "success"
        assert repr(at.world.effects("r")[0]["number"]) == "10"
