"""The client's side: a real MCP client over stdio that gives up too early, asks again, asks fifty times at once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from .kit import LIMIT_S, ROOT, Stage, assert_sound, eventually

pytestmark = pytest.mark.anyio

KEY = "counterfoil/idempotency_key"
GIVES_UP_S = 0.4
ALL_LISTED = '[server]\nvisibility = "all"\n'


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage.make(tmp_path / "stage")
    stage.config.write_text(stage.config.read_text().replace("[server]\n", ALL_LISTED, 1))
    return stage


@asynccontextmanager
async def connected(stage: Stage) -> AsyncGenerator[Client]:
    """A client whose server is its child over stdio."""

    @asynccontextmanager
    async def transport() -> AsyncGenerator[Any]:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "counterfoil", "serve", "--config", str(stage.config)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "WORLD": str(stage.world.folder)},
            cwd=str(stage.folder),
        )
        with (stage.folder / "log").open("a") as log:
            async with stdio_client(parameters, errlog=log) as streams:
                yield streams

    async with Client(transport(), read_timeout_seconds=LIMIT_S) as client:
        yield client


async def call(
    client: Client, tool: str, note: str = "n", *, key: str | None = None, gives_up_s: float | None = None
) -> dict[str, Any]:
    """The call view of one direct call."""
    meta: Any = {KEY: key} if key is not None else None
    result = await client.call_tool(tool, {"note": note}, gives_up_s, meta=meta)
    view = (result.meta or {}).get("counterfoil/call") or result.structured_content
    assert isinstance(view, dict)
    return view


async def comes_true(stage: Stage, effects: int) -> None:
    """Wait for that many effects."""
    await anyio.to_thread.run_sync(lambda: eventually(lambda: len(stage.world.effects()) == effects))


async def test_a_client_that_gives_up_before_the_effect_and_asks_again_after_it_gets_the_first_outcome(
    stage: Stage,
) -> None:
    stage.world.set("hold-effect")
    async with connected(stage) as client:
        with pytest.raises(MCPError, match="(?i)timed out"):
            await call(client, "plain", gives_up_s=GIVES_UP_S)
        assert stage.world.effects() == []
        stage.world.take("hold-effect")
        await comes_true(stage, 1)

        again = await call(client, "plain")
        fresh = await call(client, "plain")

    assert (again["replayed"], again["outcome"], again["call_id"]) == (True, "success", stage.calls()[0]["call_id"])
    assert fresh["replayed"] is False  # the first one was delivered by then: this is another intent
    assert len(stage.world.effects()) == 2
    assert_sound(stage)


async def test_a_client_that_asks_again_while_its_first_call_still_runs_joins_it(stage: Stage) -> None:
    stage.world.set("hold-effect")
    async with connected(stage) as client:
        for _ in range(3):
            with pytest.raises(MCPError, match="(?i)timed out"):
                await call(client, "plain", gives_up_s=GIVES_UP_S)
        stage.world.take("hold-effect")
        again = await call(client, "plain")

    assert (again["replayed"], again["outcome"]) == (True, "success")
    assert len(stage.world.effects()) == len(stage.calls()) == 1
    assert_sound(stage)


async def test_fifty_duplicates_of_one_keyed_write_have_one_effect(stage: Stage) -> None:
    async with connected(stage) as one, connected(stage) as other:
        views = await asyncio.gather(*(call((one, other)[n % 2], "keyed", key="k") for n in range(50)))
        conflict = await call(other, "keyed", "another note", key="k")
        late = await call(other, "keyed", key="k")

    (row,) = stage.calls()
    assert len(stage.world.effects()) == 1
    assert {view["call_id"] for view in [*views, late]} == {row["call_id"]}
    kinds = Counter(kind(view) for view in views)
    assert kinds["first"] <= 1
    assert set(kinds) <= {"first", "replayed", "in_progress"}
    assert (kind(late), late["output"]) == ("replayed", {"reference": "keyed-1"})
    assert conflict["error"]["code"] == "key_conflict"
    assert conflict["error"]["details"]["call_id"] == row["call_id"]
    assert_sound(stage)


def kind(view: dict[str, Any]) -> str:
    """What an answer to a duplicate is."""
    if view["error"] is not None:
        return str(view["error"]["code"])
    assert view["output"] == {"reference": "keyed-1"}
    return "replayed" if view["replayed"] else "first"
