"""A folder with a configuration, and the product opened on it: as a real server behind a real client, in process, or
once at the command line. Whatever is started here is ended here, by its own id; every wait has its limit.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from counterfoil.runtime.clock import Clock
from counterfoil.server.app import App, open_app
from tests.kit.served import Mode, Served, serving
from tests.kit.world import VARIABLE, World

ROOT: Final = Path(__file__).parents[2]
COMMAND_LIMIT_S: Final = 30.0
LEASE_S: Final = 2
"""Short, so that a restart waits little for a killed server."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """One folder: `counterfoil.toml`, the ledger and W."""

    folder: Path
    world: World

    @classmethod
    def new(cls, folder: Path, more: str = "", *, head: dict[str, str] | None = None) -> Workshop:
        """A configuration in which everything but the destructive is allowed.

        Args:
            folder: an empty folder.
            more: further tables, as TOML.
            head: lines that replace or add keys of the tables here, by table: `{"server": "grace_s = 1"}`.
        """
        shop = cls(folder, World.new(folder))
        shop.configure(more, head=head)
        return shop

    def configure(self, more: str = "", *, head: dict[str, str] | None = None) -> None:
        """Write the configuration anew."""
        tables: dict[str, dict[str, str]] = {
            "server": {"name": '"kit"', "visibility": '"all"'},
            "ledger": {"url": '"sqlite+aiosqlite:///ledger/kit.db"', "lease_s": str(LEASE_S)},
            "principals.local": {"subject": '"alice"', "tenant": '"a"', "scopes": '["*"]'},
            "policy_defaults": {"write": '"allow"'},
            "approvals": {"automation": "true"},
            "python": {"modules": '["tests.kit.tools"]', "path": "[]"},
        }
        for table, lines in (head or {}).items():
            stated = (line.partition("=") for line in lines.splitlines() if line.strip())
            tables.setdefault(table, {}).update({key.strip(): value.strip() for key, _, value in stated})
        text = "".join(
            f"[{table}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) + "\n"
            for table, keys in tables.items()
        )
        self.config.write_text(text + more, encoding="utf-8")

    @property
    def config(self) -> Path:
        """The configuration's file."""
        return self.folder / "counterfoil.toml"

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.folder / "ledger" / "kit.db"

    @property
    def environment(self) -> dict[str, str]:
        """What a process that uses the kit needs; bytecode is kept, or each start compiles everything anew."""
        return {VARIABLE: str(self.world.path), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}

    @asynccontextmanager
    async def serve(
        self,
        *,
        mode: Mode = "auto",
        env: dict[str, str] | None = None,
        command: list[str] | None = None,
    ) -> AsyncGenerator[Served, None]:
        """A real server as a child, and a real MCP client of it."""
        program = command or [sys.executable, "-m", "counterfoil", "serve", "--config", str(self.config)]
        surroundings = os.environ | self.environment | (env or {})
        async with serving(program, surroundings, self.folder, mode=mode) as served:
            yield served

    @asynccontextmanager
    async def open(self, *, clock: Clock | None = None, role: str = "embedded") -> AsyncGenerator[App, None]:
        """The application in this process, at a time that the test owns if it likes."""
        with self._named_world():
            async with open_app(self.config, clock=clock, role=role) as app:
                yield app

    async def command(self, *arguments: str, env: dict[str, str] | None = None) -> Commanded:
        """Run one `counterfoil` command with `--json` in a process of its own."""
        return await self.run("-m", "counterfoil", *arguments, "--config", str(self.config), "--json", env=env)

    async def run(self, *arguments: str, env: dict[str, str] | None = None) -> Commanded:
        """Run Python in a process of its own."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=self.folder, env=os.environ | self.environment | (env or {}),
        )  # fmt: skip
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(), COMMAND_LIMIT_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Commanded(process.returncode, stdout, stderr.decode())

    @contextmanager
    def _named_world(self) -> Generator[None]:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(self.world.path)
        try:
            yield
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before


@dataclass(frozen=True, slots=True)
class Commanded:
    """How a command ended."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def answer(self) -> Any:  # noqa: ANN401 (any JSON value)
        """Its JSON."""
        return json.loads(self.stdout)
