"""Which answers have reached their subjects, and which are lost: what the rule about identical calls rests on.

An answer counts once the transport has written it. Until then, and after a request that went away, the same call may
ask for it again. Deliveries ride along with the next fact; a crash before that makes an answer look lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..ledger.bookkeeping import Delivery, close_request, mark_delivered
from ..ledger.errors import CannotRecordError
from ..ledger.sql import Fact

if TYPE_CHECKING:
    from .parts import Parts

FLUSH_S: Final = 0.05
UNWRITTEN_S: Final = 5.0
"""How long an answer may be on its way to the transport before it counts as lost."""
Keep = Callable[[str, Callable[[], Fact[None]]], Coroutine[Any, Any, None]]


class Receipts:
    """One process's deliveries and open requests. `keep` records a fact until the ledger takes it."""

    def __init__(self, parts: Parts, spawn: Callable[[Coroutine[Any, Any, None]], object], keep: Keep) -> None:
        self._parts = parts
        self._spawn = spawn
        self._keep = keep
        self._unwritten: dict[str, asyncio.TimerHandle] = {}
        self._flushing: asyncio.TimerHandle | None = None

    def written(self, call_ids: Sequence[str]) -> None:
        """A view of these calls' settled state was written to the transport."""
        at = self._parts.clock.now()
        for call_id in call_ids:
            if (timer := self._unwritten.pop(call_id, None)) is not None:
                timer.cancel()
        self._parts.deliveries.extend(Delivery(call_id, at) for call_id in call_ids)
        if call_ids and self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_soon)

    def expect(self, call_id: str) -> None:
        """An answer that shows a call settled is on its way; if it is never written, the same call may ask again."""
        self._unwritten[call_id] = asyncio.get_running_loop().call_later(UNWRITTEN_S, self._never_written, call_id)

    def lost(self, call_ids: Sequence[str]) -> None:
        """Answers that were on their way to the transport will not be written."""
        for call_id in call_ids:
            if (timer := self._unwritten.pop(call_id, None)) is not None:
                timer.cancel()
                self.closed(call_id)

    def closed(self, call_id: str) -> None:
        """No request waits for a call any more, and none has seen it settled.

        Recorded in the order of the requests, and until it is recorded: meanwhile the same call would be a new one.
        """
        owner_id = self._parts.ledger.owner_id
        first = self._parts.ledger.submit(lambda: close_request(call_id, owner_id))
        self._spawn(self._until_closed(call_id, owner_id, first))

    async def flush(self) -> None:
        """Record the deliveries that nothing has carried along yet.

        Raises:
            CannotRecordError: they are lost, and look as if the answers were.
        """
        deliveries = self._parts.take_deliveries()
        if deliveries:
            await self._parts.ledger.record(lambda: mark_delivered(deliveries))

    def _never_written(self, call_id: str) -> None:
        self._unwritten.pop(call_id, None)
        self.closed(call_id)

    async def _until_closed(self, call_id: str, owner_id: str, first: Awaitable[None]) -> None:
        try:
            await first
        except CannotRecordError:
            await self._keep(call_id, lambda: close_request(call_id, owner_id))

    def _flush_soon(self) -> None:
        self._flushing = None
        deliveries = self._parts.take_deliveries()
        if deliveries:
            self._parts.ledger.record_nowait(lambda: mark_delivered(deliveries))
