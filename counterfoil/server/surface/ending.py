"""Why nobody waits for an answer any more: its client said so, or is merely gone. The SDK ends both alike.

What follows a run needs to know. A client that cancels wants no further effect; one whose connection broke may come
back for the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
from mcp.server import ServerRequestContext

from ...registry.request import NOBODY_WAITS
from .answers import log_failure

T = TypeVar("T")
BY_CLIENT: Final = "cancelled"
"""The message with which a wait is cancelled where its client asked for that."""


def cancelled_by_client(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether a `notifications/cancelled` has come for this request."""
    return bool(ctx.session._request_outbound.cancel_requested.is_set())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (the SDK tells a handler nowhere else)


async def told_why(work: Awaitable[T], by_client: Callable[[], bool]) -> T:
    """What the work comes to. If the wait for it is cancelled, so is the work, and told why: `BY_CLIENT`, else
    `NOBODY_WAITS`.

    It has ended when this does: what its client asks next finds it so.
    """  # noqa: D205 (one sentence)
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as error:
        if not task.done():
            task.cancel(BY_CLIENT if BY_CLIENT in error.args or by_client() else NOBODY_WAITS)
            await _end_of(task)
        raise


async def _end_of(task: asyncio.Task[Any]) -> None:
    with anyio.CancelScope(shield=True):  # else the SDK's scope cancels this wait again with every turn of the loop
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
    if not task.cancelled() and (failure := task.exception()) is not None and isinstance(failure, Exception):
        log_failure("ending a request", failure)
