"""ARG-03: integers are exact at any size, from a tool's output to another tool's argument, record and export."""

from __future__ import annotations

import json

import pytest

from tests.kit.bench import bench, furnish
from tests.kit.lines import body_of, by_lines
from tests.kit.rules import strictly
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
EXACT = 725653563933458433


@pytest.mark.promise("ARG-03")
async def test_a_large_id_reaches_tool_record_digest_and_export_exactly(shop: Workshop) -> None:
    async with bench(shop) as at:
        result = await at.seat.result("tool_read", {"name": "more_row", "arguments": {}})
        assert str(EXACT) in result.content[0].text  # type: ignore[union-attr]  # a text block, as `result` checked
        row = (await at.seat.read("more_row"))["output"]
        assert row["id"] == EXACT
        waiting = await at.seat.call("more_delete", {"ref": "r", "id": row["id"]})
        other = await at.seat.call("more_delete", {"ref": "r", "id": row["id"] - 1})
        assert other["call_id"] != waiting["call_id"]
        assert (await at.approve(waiting))["output"] == EXACT
        assert at.world.effects("r") == [{"id": EXACT}]
        assert isinstance(waiting["call_id"], str)
    exported = await shop.run("ledger", "export", "--config", str(shop.config))
    assert exported.code == 0, exported.stderr
    bodies = [strictly(strictly(line)["body"]) for line in exported.stdout.splitlines()]
    ids = {body["data"]["arguments"]["id"] for body in bodies if body["data"].get("tool") == "more_delete"}
    assert ids == {EXACT, EXACT - 1}


@pytest.mark.promise("ARG-03")
async def test_a_number_that_no_double_holds_is_refused_under_its_id_and_the_connection_goes_on(shop: Workshop) -> None:
    async with by_lines(furnish(shop)) as lines:
        lines.request(1, "tool_read", name="more_typed", arguments={"number": 123456})
        assert body_of(await lines.answer(1))["output"]["number"] == 123456
        template = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "tool_read", "arguments": {"name": "more_typed", "arguments": {"size": "NUMBER"}}}})  # fmt: skip
        for written in ("1e400", "-1e400", "NaN", "Infinity"):
            lines.write(template.replace('"NUMBER"', written))
            refused = (await lines.answer(2))["error"]
            assert refused["code"] == -32602, written
            assert refused["data"]["code"] == "invalid_arguments"
            assert refused["data"]["path"] == "/params/arguments/arguments/size"
        lines.write(template.replace('"size": "NUMBER"', '"size": 1, "size": 2'))
        assert (await lines.answer(2))["error"]["data"]["got"] == "it twice"
        for exact in (9007199254740993, -(2**70), EXACT):
            view = await lines.ask(3, "tool_read", name="more_typed", arguments={"number": exact})
            assert view["output"]["number"] == exact
