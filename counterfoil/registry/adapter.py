"""The two ports between runtime and tools: `Adapter`, which the runtime calls, and `Call`, which a tool is handed.

The runtime implements what is behind `Call`; the tools room implements `Adapter`. Neither imports the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from .outcome import Outcome
from .principal import Principal
from .problem import Problem
from .vocabulary import JsonObject

ProgressSink = Callable[[float, float | None, str | None], Awaitable[None]]
Guard = Callable[[], Awaitable[None]]


class CallStoppedError(Exception):
    """Raised by `Call.guard()`: the lease is lost or the call was cancelled, so the effect must not happen now."""


class NotReadyError(Exception):
    """Raised by `Adapter.ready()`: the adapter cannot be used now (not connected, no credential). Nothing was sent."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler may know of its own call.

    `id` names the call, `action_id` the action (the same on every attempt, sent to the far side as its key),
    `attempt` counts from 1, `deadline` is in UTC. In a probe all of these describe the call that is asked about.
    `callback_url` is where the far side may say that it is done, which has the probe asked; None without a public URL.
    """

    id: str
    action_id: str
    attempt: int
    principal: Principal
    deadline: datetime
    if_version: str | None
    progress_sink: ProgressSink
    guard_check: Guard
    loop: asyncio.AbstractEventLoop
    callback_url: str | None = None

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever waits how far this is; costs nothing if nobody listens."""
        await self.progress_sink(done, total, message)

    async def guard(self) -> None:
        """Ask, at the last instant before the effect, whether it may still happen.

        Raises:
            CallStoppedError: the lease is lost or the call was cancelled. Let it pass; the runtime knows it.
        """
        await self.guard_check()

    def blocking_progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """`progress` for a blocking handler, called from its worker thread."""
        asyncio.run_coroutine_threadsafe(self.progress(done, total, message), self.loop).result()

    def blocking_guard(self) -> None:
        """`guard` for a blocking handler, called from its worker thread.

        Raises:
            CallStoppedError: as `guard`.
        """
        asyncio.run_coroutine_threadsafe(self.guard(), self.loop).result()


class Adapter(Protocol):
    """One tool's hands. It sends once per `invoke` and never retries."""

    @property
    def hard_deadline(self) -> bool:
        """True if nothing of an attempt can still act after its deadline (false for code inside our process)."""
        ...

    @property
    def blocking(self) -> bool:
        """True if an attempt occupies a worker thread until it really ends; such a handler cannot be interrupted."""
        ...

    def ready(self) -> Awaitable[None] | None:
        """Connect, start, resolve credentials: what is to be awaited for that, None if nothing is.

        Raises:
            NotReadyError: it cannot be used now.
        """
        ...

    def problems(self, arguments: JsonObject, if_version: str | None) -> Sequence[Problem]:
        """What fits the schema and cannot be sent all the same, asked before policy and approval; empty if it can be.

        Pure and quick: nothing is sent, no secret is read, and no value that may be secret is shown. `invoke` looks
        again, since the contract may have changed meanwhile.
        """
        ...

    async def invoke(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Outcome[Any]:
        """Do it once. The output is plain JSON values; a probe's output is a `Probe`.

        `extra` has `output` for a compensation (the output of the call that it undoes), else nothing.
        Any exception but `CallStoppedError` and `asyncio.CancelledError` is an outcome that nobody knows.
        """
        ...
