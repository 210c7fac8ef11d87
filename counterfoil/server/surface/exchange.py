"""One request whose answer has a stream of its own: what the answer delivers, and whether anybody still waits for it.

Transports whose streams can close without their connection ending hand one of these in with each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from mcp.shared.exceptions import MCPError

from ...registry.principal import Principal
from ...registry.request import NOBODY_WAITS
from .ending import BY_CLIENT

T = TypeVar("T")
CANCELLED: Final = -32800
"""The code with which the 2025 protocol's streams end for a cancelled request; here in both eras."""


class Exchange:
    """One open request of one principal.

    `delivers` are the calls whose end its answer shows; `answered` says that the last of it is on its way.
    """

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.delivers: tuple[str, ...] = ()
        self.answered = False
        self._ended_by: str | None = None
        self._working: asyncio.Task[Any] | None = None

    def leave(self) -> None:
        """Its stream has closed: nobody waits any more. The call goes on."""
        self._end(NOBODY_WAITS)

    def cancel(self) -> None:
        """Its client said that it wants no answer: what can be stopped is."""
        self._end(BY_CLIENT)

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work comes to, while somebody waits for it.

        Raises:
            MCPError: nobody does any more.
        """
        task = asyncio.ensure_future(work)
        self._working = task
        if self._ended_by is not None:
            task.cancel(self._ended_by)
        try:
            return await task
        except asyncio.CancelledError:
            if self._ended_by is None:
                raise
            raise MCPError(code=CANCELLED, message="Request cancelled") from None
        finally:
            self._working = None

    def _end(self, why: str) -> None:
        if self._ended_by is None:
            self._ended_by = why
            if self._working is not None:
                self._working.cancel(why)
