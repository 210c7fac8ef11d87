"""SIGHUP: a real server reads its configuration again, over either transport and in both eras, and says what came."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from counterfoil.runtime.deciding import Decider
from counterfoil.server.app import open_app
from tests.kit.process import Started
from tests.kit.web import LIMIT_S, web
from tests.kit.workshop import Workshop

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this platform has none")]
Mode = Literal["auto", "legacy"]
MODES: list[Mode] = ["auto", "legacy"]
HOSTS = '[http]\nallow_hosts = ["127.0.0.1:9"]\n'
TAKEN = "the configuration was read again and is in force"
KEPT = "nothing was changed: the configuration of before stays in force"
TOKENS = """
[auth]
mode = "tokens"
[[auth.tokens]]
token = "env:ANN"
subject = "ann"
scopes = ["*"]
[[auth.tokens]]
token = "env:BOB"
subject = "bob"
scopes = [{bob}]
"""
ENV = {"ANN": "token-of-ann", "BOB": "token-of-bob", "CLEO": "token-of-cleo"}


def tool(name: str, *, path: str = "x", more: str = "") -> str:
    return (
        f'[tools.{name}]\ndescription = "Looks at something: {name}."\neffect = "read"\n{more}\n'
        f'[tools.{name}.http]\nmethod = "GET"\nurl = "http://127.0.0.1:9/{path}"\n'
    )


def denied(name: str) -> str:
    return f'[[policy]]\nid = "no-{name}"\ntool = "{name}"\nverdict = "deny"\nreason = "Not today."\n'


@dataclass
class Here:
    """A server, what it says, and a client's news."""

    shop: Workshop
    process: Started
    log: Path
    client: Client
    heard: list[str] = field(default_factory=list[str])

    async def reload(self, more: str, says: str = TAKEN, **head: str) -> str:
        """Write the file, ask for it to be read, and wait for the answer; what was said about it."""
        before = len(self.log.read_text())
        self.shop.configure(more, head=head or None)
        self.process.signal(signal.SIGHUP)
        await until(lambda: says in self.log.read_text()[before:], self.log.read_text)
        return self.log.read_text()[before:]

    async def names(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}


async def until(holds: Callable[[], bool], why: Callable[[], object] = lambda: None) -> None:
    """Look until it holds."""
    ends = asyncio.get_running_loop().time() + LIMIT_S
    while not holds():
        assert asyncio.get_running_loop().time() < ends, why()
        await asyncio.sleep(0.005)


@asynccontextmanager
async def news(client: Client, mode: Mode, heard: list[str]) -> AsyncGenerator[None]:
    """In the 2026 protocol news are asked for; in the older ones they come to the client's handler."""
    if mode == "legacy":
        yield
        return

    async def listen(begun: asyncio.Event) -> None:
        async with client.listen(tools_list_changed=True) as events:
            begun.set()
            async for event in events:
                heard.append(type(event).__name__)  # noqa: PERF401 (each at once, since it never ends)

    begun = asyncio.Event()
    listening = asyncio.create_task(listen(begun))
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    try:
        yield
    finally:
        listening.cancel()
        await asyncio.wait([listening], timeout=LIMIT_S)


def handler(heard: list[str]) -> Any:
    async def hear(message: object) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            heard.append("told")

    return hear


@asynccontextmanager
async def server(folder: Path, transport: str, mode: Mode, more: str) -> AsyncGenerator[Here]:
    """A server with these tables, behind a client that listens."""
    shop = Workshop.new(folder, more)
    heard: list[str] = []
    if transport == "http":
        async with (
            web(shop) as (process, there),
            there.client(mode=mode, hear=handler(heard)) as client,
            news(client, mode, heard),
        ):
            await client.list_tools()
            yield Here(shop, process, shop.folder / "http.log", client, heard)
        return
    async with shop.serve(mode=mode) as served, news(served.client, mode, heard):
        here = Here(shop, served.process, served.log, served.client, heard)
        watching = asyncio.create_task(_lines(served.lines, heard)) if mode == "legacy" else None
        yield here
        if watching is not None:
            watching.cancel()


async def _lines(lines: list[bytes], heard: list[str]) -> None:
    seen = 0
    while True:
        heard += ["told" for line in lines[seen:] if b"notifications/tools/list_changed" in line]
        seen = len(lines)
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_what_the_file_says_now_is_in_force_and_clients_hear_of_it(
    tmp_path: Path, transport: str, mode: Mode
) -> None:
    first = HOSTS + tool("old_one") + tool("same_one") + tool("moved_one")
    async with server(tmp_path, transport, mode, first) as here:
        assert {"old_one", "same_one", "moved_one"} <= await here.names()
        said = await here.reload(HOSTS + tool("same_one") + tool("moved_one", path="y") + tool("new_one"))
        assert "described tools: 1 came, 1 changed, 1 went" in said
        await until(lambda: bool(here.heard))
        names = await here.names()
        assert {"same_one", "moved_one", "new_one"} <= names
        assert "old_one" not in names
        with pytest.raises(MCPError, match="Unknown tool"):
            await here.client.call_tool("old_one", {})
        answer = await here.client.call_tool("new_one", {})
        assert answer.structured_content is not None
        assert "127.0.0.1" in answer.structured_content["error"]["message"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_file_that_cannot_be_used_changes_nothing_and_each_problem_has_its_line(
    tmp_path: Path, transport: str
) -> None:
    async with server(tmp_path, transport, "auto", HOSTS + tool("old_one")) as here:
        names = await here.names()
        wrong = tool("new_one") + tool("broken").replace('"read"', '"raed"') + denied("old_one").replace("deny", "dney")
        said = await here.reload(HOSTS + wrong, KEPT)
        assert "[tools.broken], tools.broken.effect" in said
        assert "did you mean read?" in said
        assert "did you mean deny?" in said
        said = await here.reload(tool("new_one") + denied("old_one"), KEPT)
        assert "the host '127.0.0.1:9' is not in allow_hosts" in said
        assert "not TOML" in await here.reload("not toml at all", KEPT)
        here.shop.config.unlink()
        here.process.signal(signal.SIGHUP)
        await until(lambda: "cannot be read" in here.log.read_text())
        assert await here.names() == names
        assert (await here.client.call_tool("old_one", {})).structured_content is not None
        assert here.heard == []


@pytest.mark.parametrize("mode", MODES)
async def test_stricter_rules_hold_for_the_next_call_and_whoever_sees_less_hears_of_it(
    tmp_path: Path, mode: Mode
) -> None:
    more = HOSTS + tool("old_one")
    async with server(tmp_path, "stdio", mode, more) as here:
        names = await here.names()
        await here.reload(more + denied("old_one"))
        with pytest.raises(MCPError, match="Unknown tool"):
            await here.client.call_tool("old_one", {})
        await until(lambda: bool(here.heard))
        assert await here.names() == names - {"old_one"}
        asks = denied("old_one").replace('"deny"', '"approve"')
        await here.reload(more + asks)
        answer = await here.client.call_tool("old_one", {})
        assert answer.structured_content is not None
        assert answer.structured_content["state"] == "awaiting_approval"


@pytest.mark.parametrize("mode", MODES)
async def test_only_those_who_may_see_the_new_tool_hear_of_it(tmp_path: Path, mode: Mode) -> None:
    bob = TOKENS.format(bob='"orders:see"')
    shop = Workshop.new(tmp_path, bob)
    hers: list[str] = []
    his: list[str] = []
    async with (
        web(shop, env=ENV) as (process, there),
        there.client("token-of-ann", mode, handler(hers)) as ann,
        there.client("token-of-bob", mode, handler(his)) as client,
        news(ann, mode, hers),
        news(client, mode, his),
    ):
        here = Here(shop, process, tmp_path / "http.log", client, his)
        await ann.list_tools()
        secret = tool("secret_one", more='scopes = ["orders:secret"]')
        await here.reload(HOSTS + secret + bob)
        await until(lambda: bool(hers))
        assert "secret_one" not in await here.names()
        assert his == []
        await here.reload(HOSTS + secret + TOKENS.format(bob='"orders:see", "orders:secret"'))
        await until(lambda: bool(his))
        assert "secret_one" in await here.names()
        await here.reload(HOSTS + secret + bob.replace("env:BOB", "env:CLEO"))
        async with there.http("token-of-bob") as http:
            assert (await there.post(http, "tools/list")).status_code == 401
        async with there.http("token-of-cleo") as http:
            assert (await there.post(http, "tools/list")).status_code == 200
        said = await here.reload(HOSTS + secret + bob.replace("env:BOB", "env:NOBODY"), KEPT)
        assert "auth.tokens[1].token: env:NOBODY: the variable is not set" in said
        assert "line " in said
        async with there.http("token-of-cleo") as http:
            assert (await there.post(http, "tools/list")).status_code == 200


async def test_what_needs_a_restart_is_named_and_stays(tmp_path: Path) -> None:
    async with server(tmp_path, "stdio", "auto", "") as here:
        said = await here.reload(
            HOSTS + tool("new_one"), server='wait_s = 3\nvisibility = "deferred"', python="modules = []"
        )
        for key in ("server.wait_s", "server.visibility", "python.modules"):
            assert f"{key}: a change of this needs a restart; what it was at the start stays in force" in said
        assert "new_one" in await here.names()


async def test_a_second_reading_tells_nothing_when_nothing_changed(tmp_path: Path) -> None:
    more = HOSTS + tool("same_one")
    async with server(tmp_path, "stdio", "auto", more) as here:
        said = await here.reload(more)
        assert "described tools: 0 came, 0 changed, 0 went" in said
        await here.reload(more + tool("new_one"))
        await until(lambda: bool(here.heard))
        assert len(here.heard) == 1


async def test_other_scopes_of_the_local_principal_hold_for_the_next_call(tmp_path: Path) -> None:
    more = HOSTS + tool("old_one", more='scopes = ["orders:see"]')
    async with server(tmp_path, "stdio", "legacy", more) as here:
        names = await here.names()
        await here.reload(more, **{"principals.local": 'scopes = ["other"]'})
        await until(lambda: bool(here.heard))
        assert "old_one" in names - await here.names()
        answer = await here.client.call_tool("old_one", {})
        assert answer.structured_content is not None
        assert answer.structured_content["error"]["code"] == "insufficient_scope"


async def test_a_decided_call_of_somebody_whose_token_was_removed_is_not_sent(tmp_path: Path) -> None:
    asks = HOSTS + tool("old_one") + denied("old_one").replace('"deny"', '"approve"')
    entries = TOKENS.format(bob='"orders:see"')
    shop = Workshop.new(tmp_path, asks + entries)
    async with web(shop, env=ENV) as (process, there), there.client("token-of-ann") as client:
        here = Here(shop, process, tmp_path / "http.log", client)
        answer = (await client.call_tool("old_one", {})).structured_content
        assert answer is not None
        await here.reload(asks + entries.replace('"ann"', '"anna"'))
        async with open_app(shop.config, role="cli") as app:
            decider = Decider("os:carol", "same_user", "cli")
            await app.runtime.decide(answer["approval"]["approval_id"], "approve", decider=decider)
        row = await asyncio.to_thread(ended, shop, str(answer["call_id"]))
        assert (row["state"], row["code"], row["dispatched_at"]) == ("refused", "authority_expired", None)


def ended(shop: Workshop, call_id: str) -> dict[str, Any]:
    """A call's row once it has ended."""
    ends = time.monotonic() + LIMIT_S
    while True:
        row = shop.book.call(call_id)
        if row["state"] in {"refused", "settled"}:
            return row
        assert time.monotonic() < ends, row["state"]
        time.sleep(0.05)


async def test_where_the_terminal_has_gone_the_signal_asks_for_an_orderly_stop(tmp_path: Path) -> None:
    shop = Workshop.new(tmp_path)
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "counterfoil", "serve", "--config", str(shop.config),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=theirs, env=os.environ | shop.environment,
    )  # fmt: skip
    try:
        os.close(theirs)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        await asyncio.wait_for(process.stdout.readline(), LIMIT_S)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
