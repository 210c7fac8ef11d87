"""A surface with a fake desk and a fake catalogue: functions that answer by the tool's name.

Run as a program it serves that surface over stdio: `kit.py GRACE_S`. What happens inside is told on stderr.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from counterfoil.canonical import JsonObject, JsonValue
from counterfoil.registry.contract import Contract, Gate, Schemas, Text
from counterfoil.registry.principal import Principal
from counterfoil.registry.question import Question, Said
from counterfoil.registry.request import CallRequest
from counterfoil.registry.strict_json import Bounds
from counterfoil.registry.vocabulary import Effect
from counterfoil.server.mcp import Surface
from counterfoil.server.surface import Asked

CANARY = "canary-77e1"
CALL_VIEW: JsonObject = {
    "type": "object",
    "properties": {"call_id": {"type": ["string", "null"]}},
    "required": ["state"],
}
ME = Principal("local", "me", "stdio", frozenset({"*"}))
ARTIFACT = "grüße ".encode() * 5


def say(*words: object) -> None:
    os.write(2, (" ".join(map(str, words)) + "\n").encode())


@dataclass(frozen=True)
class View:
    body: JsonObject
    is_error: bool = False
    delivers: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    question: None = None

    def wire(self) -> JsonObject:
        return self.body


def settled(request: CallRequest, output: JsonValue, **more: JsonValue) -> View:
    call_id = f"call_{request.idempotency_key or request.tool}"
    body: JsonObject = {
        "call_id": call_id,
        "tool": request.tool,
        "version": "1",
        "state": "settled",
        "outcome": "success",
        "sent": "yes",
        "output": output,
        "error": None,
        "truncated": None,
        **more,
    }
    return View(body, body["error"] is not None, (call_id,))


@dataclass
class Desk:
    requests: list[CallRequest] = field(default_factory=list[CallRequest])
    told: list[tuple[tuple[str, ...], Principal]] = field(default_factory=list[tuple[tuple[str, ...], Principal]])
    lost: list[tuple[tuple[str, ...], Principal]] = field(default_factory=list[tuple[tuple[str, ...], Principal]])
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, request: CallRequest) -> View:
        self.requests.append(request)
        tools: dict[str, Callable[[CallRequest], Awaitable[View]]] = {
            "echo": self._echo,
            "number": self._number,
            "refused": self._refused,
            "shy": self._shy,
            "boom": self._boom,
            "broken": self._broken,
            "hold": self._hold,
            "gate": self._gate,
            "noise": self._noise,
            "stuck": self._stuck,
            "freeze": self._freeze,
            "large": self._large,
            "progress": self._progress,
        }
        return await tools.get(request.tool, self._shy)(request)

    async def status(self, principal: Principal, **stated: Any) -> View:
        error: JsonObject = {"code": "not_found", "message": "no", "retryable": False, "details": {}}
        return View({"outcome": "invalid_request", "sent": "no", "error": error}, is_error=True)

    async def question(self, principal: Principal, approval_ids: Sequence[str]) -> Question | None:
        return None

    async def answer(self, principal: Principal, said: Said, note: str | None = None) -> View:
        raise AssertionError("nobody was asked")

    async def follow(self, principal: Principal, call_id: str, wait_s: float, *, for_decision: bool = False) -> View:
        raise AssertionError("nobody was asked")

    async def delivered(self, call_ids: Sequence[str], principal: Principal) -> None:
        self.told.append((tuple(call_ids), principal))
        self.heard.set()
        say("delivered", *call_ids)

    async def undelivered(self, call_ids: Sequence[str], principal: Principal) -> None:
        self.lost.append((tuple(call_ids), principal))
        self.heard.set()

    async def artifact(self, principal: Principal, artifact_id: str, offset: int, length: int) -> bytes | None:
        known = {"mine": ARTIFACT, "bytes": b"\xff\x00" * 8}
        content = known.get(artifact_id) if principal.subject == "me" else None
        return None if content is None else content[offset : offset + length]

    async def _echo(self, request: CallRequest) -> View:
        return settled(request, request.arguments)

    async def _number(self, request: CallRequest) -> View:
        return settled(request, 7)

    async def _refused(self, request: CallRequest) -> View:
        error: JsonObject = {"code": "insufficient_scope", "message": "no", "retryable": False, "details": {}}
        return settled(request, None, state="refused", outcome="denied", sent="no", error=error)

    async def _shy(self, request: CallRequest) -> View:
        error: JsonObject = {"code": "unknown_tool", "message": "no", "retryable": False, "details": {}}
        return settled(request, None, state="refused", outcome="denied", sent="no", error=error)

    async def _boom(self, request: CallRequest) -> View:
        raise RuntimeError(f"{CANARY} {request.arguments}")

    async def _broken(self, request: CallRequest) -> View:
        return settled(request, {"mean": float("nan")})

    async def _hold(self, request: CallRequest) -> View:
        say("holding")
        try:
            await asyncio.Event().wait()
        finally:
            say("let go")
        return settled(request, None)

    async def _gate(self, request: CallRequest) -> View:
        say("waiting")
        await self.gate.wait()
        return settled(request, request.arguments)

    async def _noise(self, request: CallRequest) -> View:
        print("printed")  # noqa: T201 (what the tool is for)
        sys.stdout.write("left in the buffer")
        os.write(1, b"written\n")
        program = [sys.executable, "-c", "import sys; print('inherited'); print(repr(sys.stdin.read()))"]
        await asyncio.to_thread(subprocess.run, program, check=True)
        return settled(request, {"quiet": True})

    async def _stuck(self, request: CallRequest) -> View:
        say("stuck")
        await asyncio.to_thread(threading.Event().wait)
        return settled(request, None)

    async def _freeze(self, request: CallRequest) -> View:
        say("frozen")
        time.sleep(3600)  # noqa: ASYNC251 (a tool that blocks the loop is what it is for)
        return settled(request, None)

    async def _large(self, request: CallRequest) -> View:
        return settled(request, {"text": "x" * 1_000_000})

    async def _progress(self, request: CallRequest) -> View:
        if request.progress is not None:
            for value in (1.0, 1.0, 0.5, 2.0):
                await request.progress(value, 2.0, "so far")
        await self.gate.wait()
        return settled(request, {"wait_s": request.wait_s})


def contract(name: str, output: JsonObject | None = None) -> Contract:
    schemas = Schemas({"type": "object"}, output)
    return Contract(name, Text(name, f"The tool {name}."), schemas, Gate(Effect.READ, open_world=False))


@dataclass
class Catalogue:
    names: tuple[str, ...] = ("echo", "number")

    def listed(self, principal: Principal) -> Sequence[Contract]:
        outputs: dict[str, JsonObject] = {
            "echo": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}},
            "number": {"type": "integer"},
        }
        return [contract(name, outputs.get(name)) for name in reversed(self.names) if principal.holds(name)]

    def card(self, principal: Principal, name: str) -> JsonObject | None:
        return None if name in {"absent", "foreign"} else {"name": name}


@dataclass(frozen=True)
class Hints:
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False


@dataclass(frozen=True)
class Answer:
    body: JsonObject
    is_error: bool = False
    delivers: tuple[str, ...] = ()
    question: Question | None = None


@dataclass(frozen=True)
class BaseTool:
    name: str
    handler: Callable[[JsonValue, Asked], Awaitable[Answer]]
    title: str = "A base tool"
    description: str = "For tests."
    annotations: Hints = field(default_factory=Hints)
    input_schema: JsonObject = field(default_factory=lambda: {"type": "object"})
    output_schema: JsonObject = field(default_factory=lambda: {"type": "object"})


async def tool_search(arguments: JsonValue, asked: Asked) -> Answer:
    said: JsonObject = {
        "claimed": dict(asked.principal.claimed),
        "wait_s": asked.default_wait_s,
        "arguments": arguments,
    }
    return Answer(said, delivers=("call_shown",))


async def status(_arguments: JsonValue, _asked: Asked) -> Answer:
    raise RuntimeError(CANARY)


def surface(desk: Desk, principal: Principal = ME, **more: Any) -> Surface:
    tools = [BaseTool("tool_search", tool_search), BaseTool("status", status)]
    stated: dict[str, Any] = {
        "principal_of": lambda _ctx: principal,
        "base_tools": tools,
        "state_keys": [b"k" * 32],
    } | more
    return Surface(
        name="kit",
        version="1",
        instructions=lambda _principal: "Search first.",
        desk=desk,
        catalogue=Catalogue(),
        call_view=CALL_VIEW,
        **stated,
    )


def main(grace_s: float) -> None:
    from counterfoil.server import stdio, stopping, wire  # noqa: PLC0415 (the wire is claimed before other rooms load)

    claimed = wire.claim()

    async def run() -> int:
        desk = Desk()
        if sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, desk.gate.set)
        stop = stopping.Stop(grace_s)
        stop.listen()
        return await stdio.serve(surface(desk, heartbeat_s=0.05), claimed, stop, Bounds(bytes=100_000, depth=16))

    stopping.leave(asyncio.run(run()))


if __name__ == "__main__":
    main(float(sys.argv[1]))
