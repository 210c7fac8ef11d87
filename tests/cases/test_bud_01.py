"""BUD-01: what failed again and again in the same way is refused with a reason, for a while; nothing else is."""

from __future__ import annotations

import pytest

from tests.kit.bench import bench
from tests.kit.clock import SetClock
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
LIMIT = 5


@pytest.mark.promise("BUD-01")
async def test_the_sixth_identical_failure_is_refused_with_what_to_change_and_when_it_ends(shop: Workshop) -> None:
    shop.world.arm("r", status=400)
    async with bench(shop) as at:
        views = [await at.seat.read("retry_look", {"ref": "r"}) for _ in range(50)]
        assert [view["error"]["code"] for view in views] == ["tool_failed"] * LIMIT + ["repeated_failure"] * 45
        assert at.world.marks("r").count("asked") == LIMIT
        last = views[-1]["error"]
        assert 0 < last["details"]["retry_after_s"] <= 600
        assert "Change" in last["message"]
        assert [row["code"] for row in await at.refusals()] == ["repeated_failure"] * 45
        other = await at.seat.read("retry_look", {"ref": "other"})
        assert other["outcome"] == "success"


@pytest.mark.promise("BUD-01")
async def test_successes_and_questions_are_never_counted(shop: Workshop) -> None:
    async with bench(shop) as at:
        for _ in range(50):
            assert (await at.seat.read("retry_look", {"ref": "r"}))["outcome"] == "success"
        waiting = await at.seat.call("kit_delete", {"ref": "r"})
        for _ in range(20):
            assert (await at.seat.ask("status", call_id=waiting["call_id"]))["state"] == "awaiting_approval"
            assert (await at.seat.call("kit_delete", {"ref": "r"}))["call_id"] == waiting["call_id"]
            assert (await at.seat.ask("status", call_id="call_0"))["error"]["code"] == "not_found"


@pytest.mark.promise("BUD-01")
async def test_calls_that_fail_in_turn_are_each_counted(shop: Workshop) -> None:
    for ref in ("a", "b"):
        shop.world.arm(ref, status=400)
    async with bench(shop) as at:
        codes = [(await at.seat.read("retry_look", {"ref": "ab"[n % 2]}))["error"]["code"] for n in range(14)]
        assert codes == ["tool_failed"] * 2 * LIMIT + ["repeated_failure"] * 4


@pytest.mark.promise("BUD-01")
@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("scoped_write", {"ref": "r"}, "insufficient_scope"),
        ("kit_write", {"reff": "r"}, "invalid_arguments"),
        ("kit_nothing", {}, "unknown_tool"),
    ],
)
async def test_a_refusal_that_is_asked_for_again_and_again_is_counted_too(
    shop: Workshop, tool: str, arguments: dict[str, str], code: str
) -> None:
    async with bench(shop, principals_local='scopes = ["kit:read"]') as at:
        views = [await at.seat.call(tool, arguments) for _ in range(20)]
        assert [view["error"]["code"] for view in views] == [code] * LIMIT + ["repeated_failure"] * 15
        assert views[-1]["error"]["details"]["last_code"] == code
        assert [row["code"] for row in await at.refusals()] == [view["error"]["code"] for view in views]


@pytest.mark.promise("BUD-01")
async def test_the_block_ends_after_ten_minutes_or_with_a_success_of_the_tool(shop: Workshop) -> None:
    shop.world.arm("r", status=400)
    clock = SetClock()
    async with bench(shop, clock=clock) as at:

        async def code(ref: str) -> str | None:
            error = (await at.seat.read("retry_look", {"ref": ref}))["error"]
            return error and error["code"]

        assert [await code("r") for _ in range(6)] == ["tool_failed"] * 5 + ["repeated_failure"]
        clock.ahead_s += 595
        assert await code("r") == "repeated_failure"
        clock.ahead_s += 10
        assert await code("r") == "tool_failed"
        assert [await code("r") for _ in range(5)][-1] == "repeated_failure"
        assert await code("fine") is None
        assert await code("r") == "tool_failed"
