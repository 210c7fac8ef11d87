"""RES-02: a figure that is no number is written by a documented rule or refused with its place, and never lost."""

from __future__ import annotations

import pytest

from tests.kit.bench import bench
from tests.kit.rules import strictly
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
PAYLOAD = '{"mean": NaN, "max": Infinity, "min": -Infinity, "n": 3}'
WRITTEN = {
    "mean": {"$number": "NaN"},
    "max": {"$number": "Infinity"},
    "min": {"$number": "-Infinity"},
    "n": 3,
}


@pytest.mark.promise("RES-02")
async def test_an_untyped_figure_is_marked_and_a_typed_one_is_refused_with_its_path(shop: Workshop) -> None:
    shop.world.arm("r", payload=PAYLOAD)
    async with bench(shop) as at:
        assert (await at.seat.read("kit_emit", {"ref": "r"}))["output"] == WRITTEN
        assert (await at.seat.direct("kit_emit", {"ref": "r"}))[0] == WRITTEN
        assert (await at.seat.read("more_figure"))["output"] == {"$number": "-Infinity"}
        typed = await at.seat.read("more_statistics")
        assert (typed["outcome"], typed["error"]["code"]) == ("success", "output_invalid")
        assert "/mean" in typed["error"]["message"]
        assert "/most" in typed["error"]["message"]
        raw = (await at.seat.client.read_resource(typed["error"]["details"]["uri"])).contents[0]
        assert strictly(raw.text) == {"mean": {"$number": "NaN"}, "most": {"$number": "Infinity"}}  # type: ignore[union-attr]


@pytest.mark.promise("RES-02")
async def test_an_effect_whose_output_has_such_a_figure_is_done_and_not_done_again(shop: Workshop) -> None:
    shop.world.arm("w", payload=PAYLOAD)
    async with bench(shop) as at:
        first = await at.seat.call("kit_emit_write", {"ref": "w"}, idempotency_key="K")
        again = await at.seat.call("kit_emit_write", {"ref": "w"}, idempotency_key="K")
        assert (first["outcome"], first["sent"], first["output"]) == ("success", "yes", WRITTEN)
        assert (again["replayed"], again["call_id"], again["output"]) == (True, first["call_id"], WRITTEN)
        assert at.world.count("w") == 1
    exported = await shop.run("ledger", "export", "--config", str(shop.config))
    types = [strictly(strictly(line)["body"])["type"] for line in exported.stdout.splitlines()]
    assert "settled" in types
    async with bench(shop) as at:
        status = await at.seat.ask("status", call_id=first["call_id"], after_seq=0)
        assert (status["output"], at.world.count("w")) == (WRITTEN, 1)
