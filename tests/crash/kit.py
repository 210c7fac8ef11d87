"""What the crash tests share: stages (a folder with a configuration and a world), servers, and the invariants."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from counterfoil.ledger.check import check
from counterfoil.ledger.verify import verify_database

from .world import World

ROOT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 20.0
STEP_S: Final = 0.005
READS: Final = frozenset({"open_read", "closed_read"})
HAPPENED: Final = frozenset({"success", "partial", "no_result"})

CONFIGURATION: Final = """\
[server]
name = "crash"
grace_s = 1

[ledger]
url = "sqlite+aiosqlite:///ledger/crash.db"
durability = "normal"
lease_s = {lease_s}

[principals.local]
subject = "me"
tenant = "local"
scopes = ["*"]

[policy_defaults]
read = "allow"
write = "allow"
destructive = "allow"

[python]
modules = ["{hands}"]
"""


class GoneError(Exception):
    """The server's process has ended."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A folder: the configuration, the ledger, the world."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, lease_s: float = 30, hands: str = "tests.crash.hands") -> Stage:
        """A new one, with the tools of a module."""
        (folder / "world").mkdir(parents=True)
        (folder / "counterfoil.toml").write_text(CONFIGURATION.format(lease_s=lease_s, hands=hands))
        return cls(folder)

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.folder / "counterfoil.toml"

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.folder / "ledger" / "crash.db"

    @property
    def world(self) -> World:
        """The far side."""
        return World(self.folder / "world")

    def copy(self, to: Path) -> Stage:
        """The same at this moment, where no process works on it."""
        shutil.copytree(self.folder, to)
        return Stage(to)

    def calls(self, tool: str | None = None) -> list[dict[str, Any]]:
        """The calls of the ledger as its rows have them, probes left out."""
        if not self.ledger.exists():
            return []
        rows = self.rows("SELECT * FROM calls WHERE route != 'probe' ORDER BY created_at")
        return [row for row in rows if tool is None or row["tool"] == tool]

    def call(self) -> dict[str, Any]:
        """The only call."""
        (row,) = self.calls()
        return row

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of the ledger's file."""
        with closing(sqlite3.connect(self.ledger)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]

    def picture(self) -> list[tuple[Any, ...]]:
        """What a restart alone must not change: each call's state and all that it says, and the world."""
        calls = [(row["call_id"], row["state"], row["outcome"], row["sent"], row["generation"]) for row in self.calls()]
        return [*calls, ("effects", len(self.world.effects()))]


@dataclass
class Server:
    """One forked server. Every wait has a limit; a process that is gone raises `GoneError`."""

    process_id: int
    _channel: socket.socket
    _answers: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    _buffer: bytes = b""
    _number: int = 0
    owner: str = ""

    def ready(self) -> Server:
        """Wait until it is open."""
        self.owner = self._line()["owner"]
        return self

    def ask(self, do: str, **order: Any) -> int:
        """Send an order; `answer` waits for what comes of it."""
        self._number += 1
        try:
            self._channel.sendall(json.dumps({"id": self._number, "do": do, **order}).encode() + b"\n")
        except OSError as error:
            raise GoneError(str(error)) from None
        return self._number

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to an order."""
        while number not in self._answers:
            line = self._line()
            self._answers[line["id"]] = line
        found = self._answers.pop(number)
        assert "raised" not in found, found["raised"]
        return found

    def do(self, do: str, **order: Any) -> dict[str, Any]:
        """Send an order and wait."""
        return self.answer(self.ask(do, **order))

    def call(self, tool: str, note: str = "n", **more: Any) -> dict[str, Any]:
        """Call one of the tools that take a note."""
        return self.do("call", tool=tool, arguments={"note": note}, **more)

    def stop(self) -> None:
        """End it in order."""
        self.ask("stop")
        while not self._line().get("ended"):
            pass
        self.gone()

    def rest(self) -> Server:
        """Wait until it does nothing more by itself."""
        self.do("rest")
        return self

    def kill(self) -> None:
        """SIGKILL it, and wait until it is gone."""
        os.kill(self.process_id, signal.SIGKILL)
        self.gone()

    def pause(self, stage: Stage) -> None:
        """SIGSTOP it, and wait until it stands; never within a transaction, which would keep everybody else waiting."""
        eventually(lambda: self._stands_aside(stage))

    def _stands_aside(self, stage: Stage) -> bool:
        os.kill(self.process_id, signal.SIGSTOP)
        stat = Path(f"/proc/{self.process_id}/stat")
        eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        with closing(sqlite3.connect(stage.ledger, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.OperationalError:
                self.go_on()
                return False
        return True

    def go_on(self) -> None:
        """SIGCONT it."""
        os.kill(self.process_id, signal.SIGCONT)

    def gone(self) -> None:
        """Wait until its process has ended."""
        try:
            while True:
                self._line()
        except GoneError:
            pass
        eventually(lambda: not Path(f"/proc/{self.process_id}").exists())

    def end(self) -> None:
        """Whatever state it is in: away with it."""
        with suppress(ProcessLookupError):
            os.kill(self.process_id, signal.SIGKILL)
        self._channel.close()

    def _line(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            try:
                data = self._channel.recv(65_536)
            except TimeoutError:
                raise AssertionError(f"server {self.process_id} did not answer within {LIMIT_S} s") from None
            except OSError as error:
                raise GoneError(str(error)) from None
            if not data:
                raise GoneError(f"server {self.process_id} is gone")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Forge:
    """Makes servers by forking a warm parent; safe to use from several threads."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._made: list[Server] = []

    def fork(self, stage: Stage, **more: Any) -> Server:
        """A server on this stage, not waited for."""
        ours, theirs = socket.socketpair()
        ours.settimeout(LIMIT_S)
        request = {
            "config": str(stage.config),
            "world": str(stage.world.folder),
            "log": str(stage.folder / "log"),
            **more,
        }
        with self._lock, theirs:
            socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno()])
            server = Server(json.loads(self._control.recv(1_000))["pid"], ours)
            self._made.append(server)
        return server

    def start(self, stage: Stage, **more: Any) -> Server:
        """A server on this stage, open."""
        return self.fork(stage, **more).ready()

    def end_all(self) -> None:
        """End what a test has left."""
        for server in self._made:
            server.end()
        self._made.clear()


@contextmanager
def zygote(folder: Path) -> Generator[Forge]:
    """A warm parent for as long as the block runs."""
    ours, theirs = socket.socketpair()
    ours.settimeout(LIMIT_S * 2)
    with ours:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote", str(theirs.fileno()), str(Stage.make(folder).config)],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        theirs.close()
        forge = Forge(ours)
        try:
            yield forge
        finally:
            forge.end_all()
            ours.close()
            process.wait(LIMIT_S)


def recover(forge: Forge, stage: Stage) -> None:
    """A restart, with time for what it does by itself, and an orderly end."""
    forge.start(stage).rest().stop()


def eventually(holds: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait until it holds."""
    ends = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < ends, f"did not come true within {limit_s} s"
        threading.Event().wait(STEP_S)


def assert_whole(stage: Stage) -> None:
    """The chain is whole and the tables agree."""
    report = verify_database(stage.ledger)
    assert report.ok, report.problems
    found = check(stage.ledger)
    assert found.ok, found.breaches


def assert_sound(stage: Stage) -> None:
    """It is whole, and the ledger contradicts the world nowhere."""
    assert_whole(stage)
    for row in stage.calls():
        assert_true(stage, row)


def assert_true(stage: Stage, row: dict[str, Any]) -> None:
    """What the ledger says of one call does not contradict the world."""
    effects = [line for line in stage.world.effects() if line["action_id"] == row["action_id"]]
    if row["tool"] in READS:
        return
    most = row["generation"] if row["tool"] == "natural" else 1  # its author says that repeating it changes nothing
    assert len(effects) <= most, f"{len(effects)} effects of one call: {effects}"
    told = (row["state"], row["outcome"], row["sent"], row["code"])
    if row["state"] in {"refused", "settled"} and row["outcome"] not in HAPPENED:
        unknown = "unknown" in (json.loads(row["details"] or "{}").get("effect"), row["outcome"])
        assert unknown or not effects, f"said not to have happened, and it has: {told}"
    if row["outcome"] in HAPPENED:
        assert effects, f"said to have happened, and it has not: {told}"
    if row["state"] == "queued" and row["generation"] and effects:
        assert row["sent"] == "unknown", f"said not to have been sent, and it has: {told}"
