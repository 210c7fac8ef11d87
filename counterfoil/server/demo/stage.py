"""The parts of the play: a folder, the order service, our server behind a real MCP client, and our command line.

Everything that is started here is ended here, by its own id, whatever happens in between; every wait has its limit.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from .order_facts import ORDERS_URL
from .order_store import OrderStore

START_LIMIT_S: Final = 30.0
COMMAND_LIMIT_S: Final = 30.0
END_LIMIT_S: Final = 5.0
ANSWER_LIMIT_S: Final = 60.0
LEASE_S: Final = 2

CONFIGURATION: Final = f"""\
# Made by `counterfoil demo`.
[server]
name = "counterfoil-demo"

[ledger]
url = "sqlite+aiosqlite:///ledger/demo.db"
lease_s = {LEASE_S}                          # short, so that the restart waits little for the killed server

[principals.local]
subject = "demo"
tenant = "local"
scopes = ["*"]

[approvals]
automation = true                    # the demo decides in the person's place, and says so; leave this out of your own

[[policy]]
id = "messages"
verdict = "allow"                    # the default for writes asks a person
tool = "notify_send"
reason = "Telling a customer needs nobody's word."

[[policy]]
id = "replacements"
verdict = "allow"
tool = "orders_replace"
reason = "Sending an article again needs nobody's word."

[python]
modules = ["counterfoil.server.demo.tools"]
"""

_PACKAGE_PARENT: Final = Path(__file__).parents[3]


class PlayError(Exception):
    """Something did not go as the play needs it; the message says what."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A play's folder and the address of its order service."""

    folder: Path
    orders_url: str

    @property
    def config(self) -> Path:
        """The generated configuration."""
        return self.folder / "counterfoil.toml"

    @property
    def orders(self) -> OrderStore:
        """The order service's own database."""
        return OrderStore(self.folder / "orders.db")

    @property
    def _environment(self) -> dict[str, str]:
        return {ORDERS_URL: self.orders_url, "PYTHONPATH": str(_PACKAGE_PARENT)}

    async def misbehave(self, fault: str, seconds: float = 0, times: int = 1) -> None:
        """Make the next refunds or messages go wrong."""
        order = {"kind": fault, "seconds": seconds, "times": times}
        async with httpx2.AsyncClient(base_url=self.orders_url, trust_env=False, timeout=ANSWER_LIMIT_S) as client:
            (await client.post("/faults", json=order)).raise_for_status()

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client, None]:
        """A real MCP client, which starts our server as its child over stdio."""
        try:
            async with Client(self._transport(), read_timeout_seconds=ANSWER_LIMIT_S) as client:
                yield client
        except ExceptionGroup as group:  # the client's task groups wrap what a scene raised
            raise _leaf(group) from group

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any, None]:
        arguments = ["-m", "counterfoil.server.demo.served", str(self._pid_file), "--config", str(self.config)]
        parameters = StdioServerParameters(
            command=sys.executable, args=arguments, env=self._environment, cwd=str(self.folder)
        )
        with (self.folder / "server.log").open("a", encoding="utf-8") as log:
            async with stdio_client(parameters, errlog=log) as streams:
                yield streams

    @property
    def _pid_file(self) -> Path:
        return self.folder / "server.pid"

    def server_id(self) -> int:
        """The process id of the server that was started last."""
        return int(self._pid_file.read_text(encoding="ascii"))

    def server_since(self) -> datetime:
        """When the server that was started last began."""
        return datetime.fromtimestamp(self._pid_file.stat().st_mtime, UTC)

    def kill_server(self) -> None:
        """SIGKILL our server: no handler runs, nothing is flushed."""
        os.kill(self.server_id(), getattr(signal, "SIGKILL", signal.SIGTERM))

    @staticmethod
    def is_alive(process_id: int) -> bool:
        """True if there is such a process."""
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return False
        return True

    async def command(self, *arguments: str) -> Any:  # noqa: ANN401 (any JSON value)
        """Run one `counterfoil` command in a process of its own; its JSON answer.

        Raises:
            PlayError: it did not end in time, or said no.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "counterfoil", *arguments, "--config", str(self.config), "--json",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=self.folder, env=os.environ | self._environment,
        )  # fmt: skip
        said = f"counterfoil {' '.join(arguments[:2])}"
        try:
            output, log = await asyncio.wait_for(process.communicate(), COMMAND_LIMIT_S)
        except TimeoutError as error:
            raise PlayError(f"{said} did not end within {COMMAND_LIMIT_S:.0f} s") from error
        finally:
            await _end(process)
        if process.returncode != 0:
            raise PlayError(f"{said} ended with {process.returncode}: {output.decode()}{log.decode()}")
        return json.loads(output)


def _leaf(error: Exception) -> Exception:
    if isinstance(error, ExceptionGroup):
        return _leaf(cast("ExceptionGroup[Exception]", error).exceptions[0])
    return error


@asynccontextmanager
async def set_stage(keep: Path | None) -> AsyncGenerator[Stage, None]:
    """A stage in a temporary folder that goes away, or in `keep`, which stays.

    Raises:
        PlayError: `keep` has something in it, or the order service does not start.
    """
    folder = _folder(keep)
    try:
        (folder / "ledger").mkdir(mode=0o700)
        async with _order_service(folder) as url:
            stage = Stage(folder, url)
            stage.config.write_text(CONFIGURATION, encoding="utf-8")
            yield stage
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="counterfoil-demo-"))
    if keep.exists() and any(keep.iterdir()):
        raise PlayError(f"{keep} is not empty; the demo needs a new or an empty folder")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


@asynccontextmanager
async def _order_service(folder: Path) -> AsyncGenerator[str, None]:
    with (folder / "orders.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "counterfoil.server.demo.orders", str(folder / "orders.db"),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
            cwd=folder, env=os.environ | {"PYTHONPATH": str(_PACKAGE_PARENT)},
        )  # fmt: skip
    try:
        stdout = cast("asyncio.StreamReader", process.stdout)
        try:
            port = json.loads(await asyncio.wait_for(stdout.readline(), START_LIMIT_S))["port"]
        except (TimeoutError, ValueError) as error:
            raise PlayError(f"the order service did not start: {(folder / 'orders.log').read_text()}") from error
        yield f"http://127.0.0.1:{port}"
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let a child end by the end of its stdin; kill it by its id if it does not."""
    if process.returncode is not None:
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), END_LIMIT_S if process.stdin is not None else 0)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
