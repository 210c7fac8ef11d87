"""RES-03: an invalid output is no failure of the effect, and an exception after an effect is no proof of none."""

from __future__ import annotations

import pytest

from tests.kit.bench import bench
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


@pytest.mark.promise("RES-03")
async def test_an_effect_with_an_invalid_output_is_recorded_as_done_with_its_raw_output(shop: Workshop) -> None:
    async with bench(shop) as at:
        first = await at.seat.call("more_write_invalid", {"ref": "r"}, idempotency_key="K")
        assert (first["state"], first["outcome"], first["sent"]) == ("settled", "success", "yes")
        assert (first["error"]["code"], first["error"]["retryable"]) == ("output_invalid", False)
        raw = (await at.seat.client.read_resource(first["error"]["details"]["uri"])).contents[0]
        assert raw.text == "1001"  # type: ignore[union-attr]  # text, or this fails
        again = await at.seat.call("more_write_invalid", {"ref": "r"}, idempotency_key="K")
        assert (again["replayed"], again["call_id"]) == (True, first["call_id"])
        assert again["error"]["code"] == "output_invalid"
        assert at.world.count("r") == 1
        assert await at.attempts(first["call_id"]) == 1


@pytest.mark.promise("RES-03")
async def test_an_exception_after_an_effect_is_an_outcome_that_nobody_knows(shop: Workshop) -> None:
    async with bench(shop) as at:
        first = await at.seat.call("kit_fail_write", {"ref": "r", "message": "boom"}, idempotency_key="K")
        assert (first["state"], first["outcome"], first["sent"]) == (
            "awaiting_reconciliation", "ambiguous", "unknown",
        )  # fmt: skip
        assert "boom" in first["error"]["message"]
        again = await at.seat.call("kit_fail_write", {"ref": "r", "message": "boom"}, idempotency_key="K")
        assert (again["replayed"], again["call_id"]) == (True, first["call_id"])
        reworded = await at.seat.call("kit_fail_write", {"ref": "r", "message": "Boom"})
        assert (reworded["state"], reworded["error"]["code"]) == ("refused", "ambiguous")
        assert reworded["error"]["details"]["call_id"] == first["call_id"]
        assert at.world.count("r") == 1
        assert await at.attempts(first["call_id"]) == 1
    async with bench(shop) as at:
        later = await at.seat.ask("status", call_id=first["call_id"])
        assert (later["state"], at.world.count("r")) == ("awaiting_reconciliation", 1)


@pytest.mark.promise("RES-03")
async def test_invalid_outputs_open_no_breaker(shop: Workshop) -> None:
    async with bench(shop) as at:
        for number in range(1, 8):
            view = await at.seat.read("more_read_invalid", {"ref": "r"})
            assert (view["error"]["code"], at.world.marks("r").count("asked")) == ("output_invalid", number)
        for number in range(1, 8):
            view = await at.seat.call("more_write_invalid", {"ref": "w"})
            assert (view["error"]["code"], at.world.count("w")) == ("output_invalid", number)
        assert (await at.seat.call("kit_write", {"ref": "w"}))["outcome"] == "success"
