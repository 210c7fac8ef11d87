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
        self._unwritten: dict[str, float] = {}  # until when the loop's clock lets each be on its way; the oldest first
        self._looking: asyncio.TimerHandle | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._ended = False

    def written(self, call_ids: Sequence[str]) -> None:
        """A view of these calls' settled state was written to the transport."""
        at = self._parts.clock.now()
        for call_id in call_ids:
            self._unwritten.pop(call_id, None)
        self._parts.deliveries.extend(Delivery(call_id, at) for call_id in call_ids)
        if call_ids and self._flushing is None and not self._ended:
            self._flushing = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_soon)

    def expect(self, call_id: str) -> None:
        """An answer that shows a call settled is on its way; if it is never written, the same call may ask again."""
        loop = asyncio.get_running_loop()
        self._unwritten.pop(call_id, None)
        self._unwritten[call_id] = loop.time() + UNWRITTEN_S
        if self._looking is None and not self._ended:
            self._looking = loop.call_later(UNWRITTEN_S, self._look)

    def lost(self, call_ids: Sequence[str]) -> None:
        """Answers that were on their way to the transport will not be written."""
        self.closed(*(call_id for call_id in call_ids if self._unwritten.pop(call_id, None) is not None))

    def closed(self, *call_ids: str) -> None:
        """No request waits for these calls any more, and none has seen them settled.

        Recorded in the order of the requests, and until it is recorded: meanwhile the same call would be a new one.
        Where the ledger has had its last fact, the end of its owner says the same.
        """
        if not call_ids or self._ended:
            return
        owner_id = self._parts.ledger.owner_id
        first = self._parts.ledger.submit(lambda: _close(call_ids, owner_id))
        self._spawn(self._until_closed(call_ids, owner_id, first))

    async def end(self) -> None:
        """Record the deliveries that nothing has carried along yet, and nothing from then on.

        Raises:
            CannotRecordError: they are lost, and look as if the answers were.
        """
        self._ended = True
        for timer in (self._looking, self._flushing):
            if timer is not None:
                timer.cancel()
        deliveries = self._parts.take_deliveries()
        if deliveries:
            await self._parts.ledger.record(lambda: mark_delivered(deliveries))

    def _look(self) -> None:
        """One look for all that were never written; the next one is when the oldest of the others is due."""
        loop = asyncio.get_running_loop()
        now, due = loop.time(), list[str]()
        for call_id, until in self._unwritten.items():
            if until > now:
                break
            due.append(call_id)
        for call_id in due:
            del self._unwritten[call_id]
        oldest = next(iter(self._unwritten.values()), None)
        self._looking = None if oldest is None else loop.call_at(oldest, self._look)
        self.closed(*due)

    async def _until_closed(self, call_ids: Sequence[str], owner_id: str, first: Awaitable[None]) -> None:
        try:
            await first
        except CannotRecordError:
            await self._keep(call_ids[0], lambda: _close(call_ids, owner_id))

    def _flush_soon(self) -> None:
        self._flushing = None
        deliveries = self._parts.take_deliveries()
        if deliveries:
            self._parts.ledger.record_nowait(lambda: mark_delivered(deliveries))


def _close(call_ids: Sequence[str], owner_id: str) -> Fact[None]:
    for call_id in call_ids:
        yield from close_request(call_id, owner_id)
