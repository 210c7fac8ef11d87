"""What speaks HTTP with a server: a real MCP client with a token, and requests that no SDK would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation

from tests.kit.process import Started
from tests.kit.rules import strictly
from tests.kit.workshop import Workshop

LIMIT_S: Final = 20.0
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "web", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT: Final = "application/json, text/event-stream"
_LOOK_S: Final = 0.01


@dataclass
class Stop:
    """A stop that the test asks for."""

    grace_s: float = 5.0
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        """Until it is asked for."""
        await self.asked.wait()


@dataclass(frozen=True, slots=True)
class Web:
    """One server, by its address."""

    url: str
    token: str = ""

    @asynccontextmanager
    async def http(self, token: str | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
        """Plain HTTP with a token; an empty one is none."""
        shown = self.token if token is None else token
        headers = {"Accept": ACCEPT} | ({"Authorization": f"Bearer {shown}"} if shown else {})
        async with httpx2.AsyncClient(headers=headers, timeout=LIMIT_S, trust_env=False) as http:
            yield http

    async def post(
        self, http: httpx2.AsyncClient, method: str, request_id: int | str = 1, **params: Any
    ) -> httpx2.Response:
        """One request of the 2026 protocol."""
        body, headers = modern(method, request_id, **params)
        return await http.post(self.url, content=body, headers=headers)

    @asynccontextmanager
    async def client(
        self,
        token: str | None = None,
        mode: Literal["auto", "legacy"] = "auto",
        hear: Any = None,
        person: ElicitationFnT | None = None,
    ) -> AsyncGenerator[Client]:
        """A real client in a task of its own, so that what fails a test comes out of it as it is.

        With a `person` it shows forms, which that person answers.
        """
        connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        over = asyncio.Event()

        async def hold() -> None:
            info = Implementation(name="web-client", version="9")
            async with self.http(token) as http:
                transport = streamable_http_client(self.url, http_client=http)
                async with Client(
                    transport, mode=mode, message_handler=hear, client_info=info, elicitation_callback=person
                ) as client:
                    connected.set_result(client)
                    await over.wait()

        holding = asyncio.create_task(hold())
        either: set[asyncio.Future[Any]] = {holding, connected}
        try:
            await asyncio.wait(either, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
            if holding.done():
                holding.result()
            yield connected.result()
        finally:
            over.set()
            await asyncio.wait_for(holding, LIMIT_S)


def modern(method: str, request_id: int | str | None = 1, **params: Any) -> tuple[bytes, dict[str, str]]:
    """A request of the 2026 protocol: its body and its headers."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": META}}
    if request_id is not None:
        body["id"] = request_id
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Content-Type": "application/json"}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return json.dumps(body).encode(), headers


def legacy(
    method: str, request_id: int | str | None = 1, session: str = "", **params: Any
) -> tuple[bytes, dict[str, str]]:
    """A message of the older protocols."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if request_id is not None:
        body["id"] = request_id
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": LEGACY}
    return json.dumps(body).encode(), headers | ({"Mcp-Session-Id": session} if session else {})


def answer_of(response: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC answer of a response, in strict JSON, whichever way it travelled; the last one of a stream."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line for line in response.text.splitlines() if line.startswith("data: {")]
        found: dict[str, Any] = strictly(lines[-1].removeprefix("data: "))
    else:
        found = strictly(response.text)
    return found


def shown(response: httpx2.Response) -> dict[str, Any]:
    """The structured content of an answer, which its text block repeats."""
    result = answer_of(response)["result"]
    body: dict[str, Any] = result["structuredContent"]
    assert strictly(result["content"][0]["text"]) == body
    return body


async def open_session(http: httpx2.AsyncClient, url: str) -> str:
    """Shake hands as older clients do; the session's id."""
    info = {"name": "old", "version": "1"}
    body, headers = legacy("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=info)
    response = await http.post(url, content=body, headers=headers)
    assert response.status_code == 200, response.text
    session: str = response.headers["mcp-session-id"]
    body, headers = legacy("notifications/initialized", None, session)
    assert (await http.post(url, content=body, headers=headers)).status_code == 202
    return session


@asynccontextmanager
async def web(
    shop: Workshop, *arguments: str, port: int = 0, env: dict[str, str] | None = None
) -> AsyncGenerator[tuple[Started, Web]]:
    """A server process over HTTP; it is killed at the end if it still lives."""
    log = shop.folder / "http.log"
    log.unlink(missing_ok=True)
    line = ("serve", "--config", str(shop.config), "--transport", "http", "--port", str(port), *arguments)
    async with shop.started(*line, log=log, env=env) as process:
        url = await _greeting(process, log, "serving MCP at ")
        made = "[auth]" not in shop.config.read_text()
        place = await _greeting(process, log, "the token of this start is in ") if made else ""
        yield process, Web(url, Path(place).read_text() if made else "")


async def _greeting(process: Started, log: Path, words: str) -> str:
    ends = asyncio.get_running_loop().time() + LIMIT_S
    while True:
        said = log.read_text() if log.exists() else ""
        for line in said.splitlines(keepends=True):
            if words in line and line.endswith("\n"):
                return line.split(words)[1].split(", ")[0].split("; clients")[0].strip()
        assert process.returncode is None, said
        assert asyncio.get_running_loop().time() < ends, said
        await asyncio.sleep(_LOOK_S)
