"""AUT-03, over stdio: an answer goes to the request that it belongs to, however many share a connection or an id."""

from __future__ import annotations

import random

import pytest

from tests.kit.bench import furnish
from tests.kit.lines import body_of, by_lines
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CALLS = 50


@pytest.mark.promise("AUT-03")
async def test_fifty_calls_at_once_get_their_own_answers_and_ids_that_look_alike_are_different(shop: Workshop) -> None:
    order = random.Random(3)
    async with by_lines(furnish(shop, server='visibility = "all"')) as lines:
        for number in range(CALLS):
            arguments = {"tag": f"tag{number}", "wait_s": round(order.random() * 0.3, 3)}
            if number % 2:
                lines.request(f"id{number}", "tool_read", name="more_tag", arguments=arguments, wait_s=20)
            else:
                lines.request(number, "more_tag", **arguments)
        for number in range(CALLS):
            name = f"id{number}" if number % 2 else number
            body = body_of(await lines.answer(name))
            assert body["output" if number % 2 else "result"] == f"tag{number}"
        assert lines.early == []
        for name in (1, "1"):
            arguments = {"tag": repr(name), "wait_s": 0.2 if name == 1 else 0.0}
            lines.request(name, "tool_read", name="more_tag", arguments=arguments, wait_s=20)
        assert body_of(await lines.answer("1"))["output"] == "'1'"
        assert body_of(await lines.answer(1))["output"] == "1"


@pytest.mark.promise("AUT-03")
async def test_two_requests_under_one_id_are_both_answered_with_their_own_content(shop: Workshop) -> None:
    async with by_lines(furnish(shop)) as lines:
        lines.request(5, "tool_read", name="more_tag", arguments={"tag": "slow", "wait_s": 0.4}, wait_s=20)
        lines.request(5, "tool_read", name="more_tag", arguments={"tag": "quick"}, wait_s=20)
        answers = [await lines.next(), await lines.next()]
        assert [answer["id"] for answer in answers] == [5, 5]
        bodies = [body_of(answer) for answer in answers]
        assert [body["output"] for body in bodies] == ["quick", "slow"]
        assert len({body["call_id"] for body in bodies}) == 2
        for body in bodies:
            recorded = await lines.ask(6, "status", call_id=body["call_id"], after_seq=0)
            assert recorded["output"] == body["output"]
            assert recorded["events"][0]["data"]["arguments"]["tag"] == body["output"]


@pytest.mark.promise("AUT-03")
async def test_a_write_that_is_sent_again_under_its_id_and_key_is_done_once(shop: Workshop) -> None:
    async with by_lines(furnish(shop, server='visibility = "all"')) as lines:
        said = {"name": "kit_write", "arguments": {"ref": "r"}, "idempotency_key": "K", "wait_s": 20}
        (found,) = (await lines.ask(1, "tool_search", names=["kit_write"]))["matches"]
        said["schema_digest"] = found["schema_digest"]
        lines.request(2, "tool_call", **said)
        lines.request(2, "tool_call", **said)
        bodies = [body_of(await lines.answer(2)), body_of(await lines.answer(2))]
        assert len({body["call_id"] for body in bodies}) == 1
        again = await lines.ask(2, "tool_call", **said)
        assert (again["replayed"], again["outcome"], shop.world.count("r")) == (True, "success", 1)


@pytest.mark.promise("AUT-03")
async def test_an_unanswered_write_sent_again_without_a_key_joins_the_first(shop: Workshop) -> None:
    """An answer that never left (here: its request was cancelled) is lost, and the same words are the same wish."""
    async with by_lines(furnish(shop, server='visibility = "all"')) as lines:
        shop.world.arm("r", hold="before")
        lines.request(1, "kit_write", ref="r")
        await shop.world.reached("r", "asked")
        lines.cancel(1)
        await lines.ask("s", "status")
        lines.request(1, "kit_write", ref="r")
        shop.world.release("r")
        assert body_of(await lines.answer(1))["number"] == 1
        assert shop.world.count("r") == 1
