"""DUP-03: a client that stopped waiting is no evidence of failure; its next request with the key is the same call."""

from __future__ import annotations

import asyncio

import pytest
from mcp.shared.exceptions import MCPError

from tests.kit.served import Mode
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CALL = {"ref": "r"}


@pytest.mark.promise("DUP-03")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_after_a_client_gave_up_its_key_says_in_progress_and_then_replays(shop: Workshop, mode: Mode) -> None:
    shop.world.arm("r", hold="after")
    async with shop.serve(mode=mode) as served:
        await served.call("kit_echo", {"value": 1})
        impatient = asyncio.create_task(served.call("kit_write", CALL, idempotency_key="k", patience_s=3))
        await shop.world.reached("r", "done")
        with pytest.raises(MCPError):
            await impatient

        second = await served.call("kit_write", CALL, idempotency_key="k")
        assert second["error"]["code"] == "in_progress"
        first_id = second["error"]["details"]["call_id"]
        assert shop.book.history(first_id) == ["dispatched"]

        shop.world.release("r")
        settled = await served.base("status", call_id=first_id, wait_s=20)
        assert settled["outcome"] == "success"
        third = await served.call("kit_write", CALL, idempotency_key="k")
    assert (third["replayed"], third["call_id"]) == (True, first_id)
    assert third["output"] == {"ref": "r", "number": 1}
    assert shop.world.marks("r") == ["asked", "done"]
    assert shop.world.count("r") == 1
    assert shop.book.history(first_id).count("dispatched") == 1
