"""A folder with a configuration, and the product opened on it: as a real server behind a real client, in process, or
once at the command line. Whatever is started here is ended here, by its own id; every wait has its limit.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mcp.client.session import ElicitationFnT

from counterfoil.runtime.clock import Clock
from counterfoil.server.app import App, open_app
from tests.kit.book import Book
from tests.kit.process import ROOT, Started, start
from tests.kit.served import Mode, Served, serving
from tests.kit.world import VARIABLE, World

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

    async def overview(self, app: App) -> dict[str, Any]:
        """`status` without an id, as the configuration's principal sees it."""
        return (await app.runtime.status(app.local)).wire()

    @property
    def book(self) -> Book:
        """The ledger's file, from outside."""
        return Book(self.ledger)

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
        program: Sequence[str] = (),
        person: ElicitationFnT | None = None,
    ) -> AsyncGenerator[Served, None]:
        """A real server as a child, and a real MCP client of it. `program` starts it from nothing, not as a fork.

        With a `person` the client shows forms, which that person answers.
        """
        arguments = ("serve", "--config", str(self.config))
        async with (
            self.started(*arguments, env=env, program=program) as process,
            serving(process, self.log, mode=mode, person=person) as served,
        ):
            yield served

    @asynccontextmanager
    async def started(
        self, *arguments: str, env: dict[str, str] | None = None, program: Sequence[str] = (), log: Path | None = None
    ) -> AsyncGenerator[Started, None]:
        """`counterfoil ARGUMENTS` in a process of its own, which is killed at the end if it still lives."""
        surroundings = os.environ | self.environment | (env or {})
        process = await start(arguments, surroundings, self.folder, log or self.log, program=program)
        try:
            yield process
        finally:
            process.signal(signal.SIGKILL)
            await process.ended()
            process.close()

    @property
    def log(self) -> Path:
        """What servers write to stderr."""
        return self.folder / "server.log"

    @asynccontextmanager
    async def open(self, *, clock: Clock | None = None, role: str = "embedded") -> AsyncGenerator[App, None]:
        """The application in this process, at a time that the test owns if it likes."""
        with self._named_world():
            async with open_app(self.config, clock=clock, role=role) as app:
                yield app

    async def command(self, *arguments: str, env: dict[str, str] | None = None) -> Commanded:
        """Run one `counterfoil` command with `--json` in a process of its own."""
        return await self.run(*arguments, "--config", str(self.config), "--json", env=env)

    async def run(
        self, *arguments: str, env: dict[str, str] | None = None, program: Sequence[str] = ()
    ) -> Commanded:  # fmt: skip
        """Run `counterfoil ARGUMENTS` to its end, with nothing on its stdin."""
        log = self.folder / f"command-{secrets.token_hex(4)}.log"
        async with self.started(*arguments, env=env, program=program, log=log) as process:
            process.stdin.close()
            stdout = await asyncio.wait_for(process.stdout.read(), COMMAND_LIMIT_S)
            code = await process.ended()
        return Commanded(code, stdout, log.read_text(encoding="utf-8", errors="replace"))

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
    def answer(self) -> Any:
        """Its JSON."""
        return json.loads(self.stdout)
