"""The same few calls through each client: the SDK's in both eras, FastMCP's, and the inspector's command line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from scripts import install_clients as installed
from tests.kit.process import ROOT

LIMIT_S: Final = 50.0
Call = tuple[str | None, dict[str, Any]]
LIST: Final[Call] = (None, {})


@dataclass(frozen=True, slots=True)
class Target:
    """A server to reach: by a command that starts it in a folder, or by a URL and a token."""

    command: Sequence[str] = ()
    folder: Path = ROOT
    env: dict[str, str] | None = None
    url: str = ""
    token: str = ""


Driver = Callable[[Target, Sequence[Call]], Awaitable[list[Any]]]
"""Gives, for each call, the names of the listed tools, or `{"body": structured content, "error": isError}`."""


async def by_sdk(target: Target, calls: Sequence[Call], mode: str = "auto") -> list[Any]:
    """The Python SDK's own client."""
    answers: list[Any] = []
    async with asyncio.timeout(LIMIT_S), httpx2.AsyncClient(headers=_bearer(target)) as http:
        if target.url:
            transport: Any = streamable_http_client(target.url, http_client=http)
        else:
            command, *arguments = target.command
            parameters = StdioServerParameters(command=command, args=arguments, env=target.env, cwd=target.folder)
            transport = stdio_client(parameters)
        async with Client(transport, mode=mode) as client:
            for name, arguments_ in calls:
                if name is None:
                    answers.append([tool.name for tool in (await client.list_tools()).tools])
                else:
                    result = await client.call_tool(name, arguments_)
                    answers.append({"body": result.structured_content, "error": bool(result.is_error)})
    return answers


async def by_legacy_sdk(target: Target, calls: Sequence[Call]) -> list[Any]:
    """The same, with the older protocol."""
    return await by_sdk(target, calls, "legacy")


async def by_fastmcp(target: Target, calls: Sequence[Call]) -> list[Any]:
    """FastMCP's client, in a Python that has it."""
    folder = installed.fastmcp()
    if folder is None:
        pytest.skip("FastMCP's client is not installed: `python -m scripts.install_clients`")
    where = {"url": target.url, "token": target.token} if target.url else _started(target)
    script = str(Path(__file__).with_name("by_fastmcp.py"))
    asked = [json.dumps(where), json.dumps(list(calls))]
    said = await _run([sys.executable, script, *asked], ROOT, {"PYTHONPATH": str(folder)})
    return [json.loads(line) for line in said.splitlines()]


async def by_inspector(target: Target, calls: Sequence[Call]) -> list[Any]:
    """The inspector's command line: a new connection, and over stdio a new server, for each call."""
    script, node = installed.inspector(), installed.node()
    if script is None or node is None:
        pytest.skip("the MCP inspector is not installed: `python -m scripts.install_clients`")
    reach = _started_by_inspector(target) if not target.url else [target.url, "--transport", "http"]
    headers = ["--header", f"Authorization: Bearer {target.token}"] if target.url else []
    answers: list[Any] = []
    for name, arguments in calls:
        said = await _run([node, str(script), "--cli", *reach, *_asked(name, arguments), *headers], target.folder, {
            **(target.env or {}), "PATH": os.pathsep.join([str(Path(node).parent), os.environ["PATH"]]),
        })  # fmt: skip
        result = json.loads(said)
        answers.append(
            [tool["name"] for tool in result["tools"]]
            if name is None
            else {"body": result["structuredContent"], "error": bool(result.get("isError"))}
        )
    return answers


def _asked(name: str | None, arguments: dict[str, Any]) -> list[str]:
    if name is None:
        return ["--method", "tools/list"]
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    given = [part for key, value in values.items() for part in ("--tool-arg", f"{key}={value}")]
    return ["--method", "tools/call", "--tool-name", name, *given]


def _started(target: Target) -> dict[str, Any]:
    return {"command": list(target.command), "cwd": str(target.folder), "env": target.env}


def _started_by_inspector(target: Target) -> list[str]:
    """Its own `--config` would swallow ours; the server finds the configuration in its working folder."""
    assert "--config" not in target.command
    return list(target.command)


def _bearer(target: Target) -> dict[str, str]:
    return {"Authorization": f"Bearer {target.token}"} if target.token else {}


async def _run(command: Sequence[str], folder: Path, env: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env={**os.environ, **env}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT_S):
            out, error = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{command[:3]}: {out.decode()[-500:]} {error.decode()[-1500:]}"
    return out.decode()
