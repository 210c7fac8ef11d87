"""W, the outside world: an append-only list of effects in an SQLite file of its own, counted only there.

Every process that knows its path may use it: the test, the server's tools, their children. Switches per `ref` say how
the far side behaves; marks say how far somebody came, so that a test waits for a fact and never for a time.
Nothing here imports the product.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "KIT_WORLD"
LIMIT_S: Final = 20.0
"""How long anybody waits for something that must come."""
_LOOK_S: Final = 0.01

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS effects (n INTEGER PRIMARY KEY, ref TEXT NOT NULL, key TEXT, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS marks (n INTEGER PRIMARY KEY, ref TEXT NOT NULL, what TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS switches (ref TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
                                     PRIMARY KEY (ref, name));
"""


@dataclass(frozen=True, slots=True)
class World:
    """One outside world. Switches that the kit's tools know:

    `hold` ("before" | "after" the effect: wait until `release`), `drop` ("before" | "after": lose the connection),
    `refuse` (a message: a normal error of the far side, no effect), `ignores_keys` (true: a key is not honoured).
    """

    path: Path

    @classmethod
    def new(cls, folder: Path) -> World:
        """A fresh world in a folder."""
        world = cls(folder / "world.sqlite")
        with closing(sqlite3.connect(world.path)) as connection:
            connection.executescript(_TABLES)
        return world

    @classmethod
    def here(cls) -> World:
        """The world that the environment names."""
        return cls(Path(os.environ[VARIABLE]))

    # The far side.

    def append(self, ref: str, key: str | None = None, **data: object) -> int:
        """Make one effect, in one transaction; a key that was seen before makes none. The effect's number."""
        honours = not self.switches(ref).get("ignores_keys", False)
        with self._changing() as connection:
            if key is not None and honours:
                found = connection.execute("SELECT n FROM effects WHERE ref = ? AND key = ?", (ref, key)).fetchone()
                if found is not None:
                    return int(found[0])
            made = connection.execute(
                "INSERT INTO effects (ref, key, data) VALUES (?, ?, ?)", (ref, key, json.dumps(data))
            ).lastrowid
        assert made is not None
        return made

    def mark(self, ref: str, what: str) -> None:
        """Say that somebody came this far."""
        with self._changing() as connection:
            connection.execute("INSERT INTO marks (ref, what) VALUES (?, ?)", (ref, what))

    def switches(self, ref: str) -> dict[str, Any]:
        """How the far side behaves for this reference."""
        rows = self._rows("SELECT name, value FROM switches WHERE ref = ?", ref)
        return {name: json.loads(value) for name, value in rows}

    async def opened(self, ref: str, place: str) -> None:
        """Wait while this reference is held at this place."""
        await self.until(lambda: self.switches(ref).get("hold") != place, f"{ref} stays held {place}")

    # The test.

    def count(self, ref: str) -> int:
        """How many effects there are."""
        return int(self._rows("SELECT count(*) FROM effects WHERE ref = ?", ref)[0][0])

    def keys(self, ref: str) -> list[str | None]:
        """The keys that came with the effects, in order."""
        return [row[0] for row in self._rows("SELECT key FROM effects WHERE ref = ? ORDER BY n", ref)]

    def effects(self, ref: str) -> list[dict[str, Any]]:
        """What the effects were, in order."""
        return [json.loads(row[0]) for row in self._rows("SELECT data FROM effects WHERE ref = ? ORDER BY n", ref)]

    def marks(self, ref: str) -> list[str]:
        """How far anybody came, in order."""
        return [row[0] for row in self._rows("SELECT what FROM marks WHERE ref = ? ORDER BY n", ref)]

    def arm(self, ref: str, **switches: object) -> None:
        """Set switches; those not named stay."""
        with self._changing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO switches VALUES (?, ?, ?)",
                [(ref, name, json.dumps(value)) for name, value in switches.items()],
            )

    def disarm(self, ref: str) -> None:
        """It behaves as it does by itself again."""
        with self._changing() as connection:
            connection.execute("DELETE FROM switches WHERE ref = ?", (ref,))

    def release(self, ref: str) -> None:
        """Let go of whoever is held."""
        with self._changing() as connection:
            connection.execute("DELETE FROM switches WHERE ref = ? AND name = 'hold'", (ref,))

    async def reached(self, ref: str, what: str, times: int = 1, limit_s: float = LIMIT_S) -> None:
        """Wait until somebody came this far, so many times."""
        await self.until(
            lambda: self.marks(ref).count(what) >= times, f"nobody reached {what!r} of {ref} {times} times", limit_s
        )

    async def until(self, holds: Callable[[], bool], otherwise: str, limit_s: float = LIMIT_S) -> None:
        """Wait until something holds that anybody in any process may bring about."""
        ends = asyncio.get_running_loop().time() + limit_s
        while not holds():
            if asyncio.get_running_loop().time() > ends:
                raise TimeoutError(otherwise)
            await asyncio.sleep(_LOOK_S)

    def _rows(self, statement: str, *values: str) -> list[Any]:
        with closing(self._connect()) as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _changing(self) -> Generator[sqlite3.Connection]:
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=LIMIT_S, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        return connection
