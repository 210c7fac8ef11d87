"""One server of the crash tests: an application opened by embedding, driven over a socket, killed where it is told to.

The kills are made here, around our own parts and never in them: before or after a given fact (`before`, `after`), or
before or after the writer's n-th commit (`commit`, `side`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
import logging
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from counterfoil.ledger import store
from counterfoil.ledger.errors import CannotRecordError, Reason
from counterfoil.ledger.store import Ledger
from counterfoil.runtime.clock import MICROSECOND, SystemClock
from counterfoil.runtime.deciding import Decider
from counterfoil.server.app import App, open_app
from counterfoil.tools.http import outbound
from tests.kit.http_hands import no_trust

from .world import die, here

if TYPE_CHECKING:
    import socket
    import sqlite3
    from collections.abc import Callable

    from counterfoil.registry.vocabulary import JsonObject

WARMING: Final[JsonObject] = {
    "goal": "Have every statement compiled before the forks",
    "steps": [
        {"id": "look", "tool": "open_read", "args": {"note": "n"}},
        {"id": "each", "tool": "keyed", "for_each": ["n"], "args": {"note": "${item} ${look.reference}"}},
        {"id": "last", "tool": "probed", "args": {"note": "${each[0].reference}"}},
    ],
}
PERSON = Decider("os:tester", "same_user", "cli")


class LateClock(SystemClock):
    """The machine's clock, set forward."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead = round(ahead_s * MICROSECOND)

    def now(self) -> int:
        """Microseconds since 1970 in UTC, so much later."""
        return super().now() + self._ahead


class Mortal:
    """The writer's connection, which dies with its process before or after its n-th commit."""

    def __init__(self, connection: sqlite3.Connection, number: int, side: str) -> None:
        self._connection = connection
        self._left = number
        self._side = side

    def execute(self, sql: str, *parameters: Any) -> Any:
        """As the driver's, apart from the end."""
        if sql != "COMMIT":
            return self._connection.execute(sql, *parameters)
        self._left -= 1
        if self._left == 0 and self._side == "before":
            die()
        done = self._connection.execute(sql)
        if self._left == 0:
            die()
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def warm_up(config: Path) -> None:
    """Do once, before the forks, what every first opening and every first request does.

    The far side has no TLS, so nobody needs the certificates of the system, which take long to load.
    """
    trust = no_trust()
    outbound._system_trust = lambda: trust  # pyright: ignore[reportPrivateUsage] (the seam)
    for name in ("counterfoil.tools.http.network", "tests.crash.chain_hands"):
        importlib.import_module(name)

    os.environ["WORLD"] = str(config.parent / "world")

    async def live_once() -> None:
        async with open_app(config) as app:
            await app.call("probed", {"note": "n"})
            await app.run(WARMING)
            await app.runtime.status(app.local)

    asyncio.run(live_once())


def live(channel: socket.socket, request: dict[str, Any]) -> None:
    """Be a server until told to stop."""
    logging.basicConfig(level=logging.WARNING)
    if "commit" in request:
        _die_at_commit(request["commit"], request["side"])
    _meddle(request)
    asyncio.run(_serve(channel, request))


def _die_at_commit(number: int, side: str) -> None:
    connect: Callable[..., Any] = store._connect  # pyright: ignore[reportPrivateUsage] (the seam)

    def mortal(*parts: Any) -> Any:
        return Mortal(connect(*parts), number, side)

    store._connect = mortal  # type: ignore[assignment] # pyright: ignore[reportPrivateUsage] (the seam)


def _meddle(request: dict[str, Any]) -> None:
    """Around each fact: die before or after it, refuse it as a locked ledger does, or keep its answer back."""
    record = Ledger.record

    async def meddled(self: Ledger, make: Callable[[], Any]) -> Any:
        code = getattr(make, "__code__", None)  # a partial has none
        names = code.co_names if code is not None else ()
        if request.get("before") in names:
            die()
        if request.get("refuse") in names:
            raise CannotRecordError(Reason.LOCKED, "refused by the test")
        answer = await record(self, make)
        if request.get("after") in names:
            die()
        if request.get("keep_back") in names:
            await here().passes("fact")
        return answer

    Ledger.record = meddled  # type: ignore[method-assign]


async def _serve(channel: socket.socket, request: dict[str, Any]) -> None:
    clock = LateClock(float(request.get("ahead_s", 0.0)))
    channel.setblocking(False)  # noqa: FBT003 (the standard library's)
    reader, writer = await asyncio.open_connection(sock=channel)
    async with open_app(Path(request["config"]), role=request.get("role", "embedded"), clock=clock) as app:
        _say(writer, {"ready": True, "owner": app.ledger.owner_id})
        tasks: dict[int, asyncio.Task[None]] = {}
        while line := await reader.readline():
            order = json.loads(line)
            if order["do"] == "stop":
                break
            if order["do"] == "abandon":
                tasks[order["number"]].cancel()
                _say(writer, {"id": order["id"]})
                continue
            tasks[order["id"]] = asyncio.create_task(_obey(app, writer, order))
    _say(writer, {"ended": True})
    await writer.drain()


async def _obey(app: App, writer: asyncio.StreamWriter, order: dict[str, Any]) -> None:
    try:
        answer = await _answer(app, order)
    except Exception:  # noqa: BLE001 (the test is told)
        answer = {"raised": traceback.format_exc()}
    _say(writer, answer | {"id": order["id"]})


async def _answer(app: App, order: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0911 (one for each order)
    runtime, me = app.runtime, app.local
    match order["do"]:
        case "call":
            more = {name: order[name] for name in ("idempotency_key", "wait_s") if name in order}
            return (await app.call(order["tool"], order["arguments"], **more)).wire()
        case "run":
            asked = {name: order[name] for name in ("run_id", "request_key", "wait_s") if name in order}
            return (await app.run(order.get("plan"), **asked)).wire()
        case "decide":
            return (await runtime.decide(order["approval_id"], order["decision"], decider=PERSON)).wire()
        case "status":
            return (await runtime.status(me, **_named(order), wait_s=order.get("wait_s", 0))).wire()
        case "reconcile":
            person = PERSON if "resolution" in order else None
            words = {name: order[name] for name in ("resolution", "evidence", "then") if name in order}
            return (await runtime.reconcile(me, **_named(order), person=person, **words)).wire()
        case "cancel":
            return (await runtime.cancel(me, **_named(order))).wire()
        case "owner":
            return {"owner": app.ledger.owner_id}
        case "rest":
            return await _at_rest(app)
        case other:
            raise ValueError(f"no such order: {other}")


def _named(order: dict[str, Any]) -> dict[str, Any]:
    """The call or the run that an order is about."""
    return {name: order[name] for name in ("call_id", "run_id") if name in order}


async def _at_rest(app: App) -> dict[str, Any]:
    """Wait until no task of the runtime is under way but its ticker."""
    tasks: set[asyncio.Task[None]] = app.runtime._tasks._tasks  # pyright: ignore[reportPrivateUsage] (to see rest)
    while len(tasks) > 1:
        await asyncio.sleep(0.002)
    return {}


def _say(writer: asyncio.StreamWriter, line: dict[str, Any]) -> None:
    writer.write(json.dumps(line, default=dataclasses.asdict).encode() + b"\n")
