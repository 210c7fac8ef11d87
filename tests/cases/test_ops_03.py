"""OPS-03, for calls: a restart loses sessions and nothing else; who asked before asks again and finds everything."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.kit.bench import furnish
from tests.kit.web import legacy, modern, open_session, shown, web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


@pytest.mark.promise("OPS-03")
async def test_after_a_kill_the_old_session_is_gone_and_every_call_is_found_by_its_id(shop: Workshop) -> None:
    shop = furnish(shop, server='visibility = "all"')
    async with web(shop) as (process, there), there.http() as http:
        session = await open_session(http, there.url)

        async def call(request_id: int, name: str, **arguments: Any) -> Any:
            body, headers = legacy("tools/call", request_id, session, name=name, arguments=arguments)
            return await http.post(there.url, content=body, headers=headers)

        done = (await call(2, "status")) and shown(await call(3, "kit_write", ref="done"))
        pending = shown(await call(4, "kit_delete", ref="pending"))
        shop.world.arm("open", hold="before")
        asking = asyncio.create_task(call(5, "kit_write", ref="open"))
        await shop.world.reached("open", "asked")
        process.signal(signal.SIGKILL)
        await process.ended()
        await asyncio.wait({asking})
        assert asking.exception() is not None
        port = int(there.url.rsplit(":", 1)[1].split("/")[0])
    assert done["number"] == 1
    shop.world.release("open")
    async with web(shop, port=port) as (_, there), there.http() as http:
        body, headers = legacy("tools/call", 6, session, name="status", arguments={})
        assert (await http.post(there.url, content=body, headers=headers)).status_code == 404
        calls = {row["tool"]: row["call_id"] for row in shop.book.calls() if row["call_id"] != pending["call_id"]}
        again = await open_session(http, there.url)
        body, headers = legacy("tools/call", 7, again, name="status", arguments={"call_id": pending["call_id"]})
        found = shown(await http.post(there.url, content=body, headers=headers))
        assert (found["state"], found["approval"]["approval_id"]) == (
            "awaiting_approval",
            pending["approval"]["approval_id"],
        )
        body, headers = modern("tools/call", 8, name="status", arguments={})
        overview = shown(await http.post(there.url, content=body, headers=headers))
        (unresolved,) = overview["unresolved"]
        assert unresolved["call_id"] in calls.values()
        states: dict[str, str] = {}
        for row in shop.book.calls():
            body, headers = modern("tools/call", 9, name="status", arguments={"call_id": row["call_id"]})
            states[row["call_id"]] = shown(await http.post(there.url, content=body, headers=headers))["state"]
        assert sorted(states.values()) == ["awaiting_approval", "awaiting_reconciliation", "settled"]
    assert [shop.world.count(ref) for ref in ("done", "pending", "open")] == [1, 0, 0]
