"""Recovery at start and by sweep: what lost owners left, what decisions queued, what ran out of time.

Each pass is bounded and repeats; an error of the ledger ends that pass and never the sweep. Only owners that ended
or whose lapse was declared lose their calls. The calls of a run are its driver's to take over and to carry on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..ledger.approving import expire
from ..ledger.budgeting import prune
from ..ledger.errors import CannotRecordError, LedgerError
from ..ledger.finding import (
    CANCELLED,
    LATE,
    ORPHANS,
    OWNED,
    PAGE,
    PARKED,
    UNCLAIMED,
    list_calls,
    list_undecided_past_due,
)
from ..ledger.recovering import TakenOver, abandon, adopt, claim, close_orphaned, lose, take_over
from ..ledger.rows import get_call
from ..ledger.sealing import sweep_orphans
from ..ledger.settling import take_late
from ..ledger.sql import Fact
from ..registry.vocabulary import RecoveryClass
from .clock import MICROSECOND
from .far_sides import FarSides

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from .parts import Parts

log = logging.getLogger("counterfoil.runtime")
ORPHAN_CHUNKS_AFTER: Final = 3_600 * MICROSECOND
ENDED_WINDOWS_AFTER: Final = 7 * 86_400 * MICROSECOND
"""So long after its end a window is forgotten: no clock of another server is behind by as much."""


@dataclass(frozen=True, slots=True)
class Doors:
    """What the sweep hands its finds to."""

    carry_on: Callable[[CallRow], None]
    recover: Callable[[CallRow], None]
    stop_read: Callable[[str], None]
    wake: Callable[[str], None]


class Sweeper:
    """One process's recovery."""

    def __init__(self, parts: Parts, doors: Doors) -> None:
        self._parts = parts
        self._doors = doors
        self._suspects: set[str] = set()
        self._far_sides = FarSides(parts, doors.recover)

    async def take_over(self) -> None:
        """Declare who is gone, and take their calls: after this, what they left is known as unknown."""
        parts = self._parts
        owner_id = parts.ledger.owner_id
        if not await parts.ledger.beat():
            await parts.ledger.renew_owner(owner_id)
        await parts.ledger.lapse_absent(parts.clock.monotonic())
        await parts.ledger.record(close_orphaned)
        while await self._take_page():
            pass
        for call_id in await self._find(lambda: list_calls(PARKED)):
            adopted = await self._each(call_id, self._adopt)
            if adopted is not None:
                self._doors.recover(adopted)

    async def _take_page(self) -> bool:
        """Take a page of what lost owners left; True if there may be more."""
        orphans, moved = await self._find(lambda: list_calls(ORPHANS)), False
        for call_id in orphans:
            taken = await self._each(call_id, self._take)
            if taken is None:
                continue
            moved = True
            if taken.was_dispatched:
                if self._serves(taken.row):
                    self._doors.recover(taken.row)
            elif taken.row.state == "queued":
                self._serve(taken.row)
        return moved and len(orphans) == PAGE

    async def sweep(self) -> None:
        """One pass over everything that time or other processes may have left to do."""
        await self.take_over()
        await self._own()
        at = self._parts.clock.now()
        for approval_id in await self._find(lambda: list_undecided_past_due(at)):
            await self._each(approval_id, lambda found: self._parts.ledger.record(lambda: expire(found, at)))
        await self._far_sides.ask(at)
        for call_id in await self._find(lambda: list_calls(LATE)):
            await self._each(call_id, lambda found: self._parts.ledger.record(lambda: take_late(found, at)))
        await self.claim_queued()
        self._parts.ledger.record_nowait(lambda: sweep_orphans(at - ORPHAN_CHUNKS_AFTER))
        self._parts.ledger.record_nowait(lambda: prune(at - ENDED_WINDOWS_AFTER))

    async def claim_queued(self) -> None:
        """Carry on what decisions queued, as far as this process has the tool."""
        for call_id in await self._find(lambda: list_calls(UNCLAIMED)):
            await self._each(call_id, self._claim)

    async def _claim(self, call_id: str) -> None:
        parts = self._parts
        row = await parts.ledger.record(lambda: get_call(call_id))
        if row is None or parts.catalogue.get(row.tool, row.version) is None:
            return
        at, owner_id = parts.clock.now(), parts.ledger.owner_id
        mine = await parts.ledger.record(lambda: claim(call_id, owner_id, at))
        if mine is not None:
            self._doors.carry_on(mine)

    async def _take(self, call_id: str) -> TakenOver | None:
        parts = self._parts
        at, owner_id = parts.clock.now(), parts.ledger.owner_id
        row = await parts.ledger.record(lambda: get_call(call_id))
        carried_on = row is not None and row.state == "queued" and (row.by_decision or row.sent == "unknown")
        if row is None or (carried_on and not self._serves(row)):
            return None
        serves = self._serves(row)
        return await parts.ledger.record(lambda: take_over(call_id, owner_id, at, serves=serves))

    async def _adopt(self, call_id: str) -> CallRow | None:
        """A call that was parked before a restart is followed up once more by the new process, if it has the tool.

        One that only a person can settle stays as it is: a restart alone changes nothing about it.
        """
        parts = self._parts
        row = await parts.ledger.record(lambda: get_call(call_id))
        entry = parts.catalogue.get(row.tool, row.version) if row is not None else None
        if entry is None or entry.contract.recovery_class is RecoveryClass.PERSON:
            return None
        at, owner_id = parts.clock.now(), parts.ledger.owner_id
        return await parts.ledger.record(lambda: adopt(call_id, owner_id, at))

    def _serve(self, row: CallRow) -> None:
        if self._serves(row):
            self._doors.carry_on(row)

    def _serves(self, row: CallRow) -> bool:
        return self._parts.catalogue.get(row.tool, row.version) is not None

    async def _own(self) -> None:
        """Our own calls that nothing here follows: never sent if their adapter was not called, else unknown.

        One that looks lost is looked at twice, a sweep apart, so that a record under way is not taken for one.
        """
        parts = self._parts
        owner_id = parts.ledger.owner_id
        owned = set(await self._find(lambda: list_calls(OWNED, owner_id=owner_id)))
        lost = {call_id for call_id in owned if call_id not in parts.cases}
        for call_id in sorted(lost & self._suspects):
            await self._each(call_id, self._give_up)
        self._suspects = lost
        for call_id in await self._find(lambda: list_calls(CANCELLED, owner_id=owner_id)):
            self._doors.stop_read(call_id)

    async def _give_up(self, call_id: str) -> None:
        parts, at = self._parts, self._parts.clock.now()
        owner_id = parts.ledger.owner_id
        row = await parts.ledger.record(lambda: get_call(call_id))
        if row is None or call_id in parts.cases or (row.in_run and row.state == "queued"):
            return
        if call_id in parts.crossed:
            lost = await parts.ledger.record(lambda: lose(call_id, owner_id, at))
            if lost is not None:
                parts.crossed.discard(call_id)
                (self._doors.recover(lost) if not lost.in_run else self._doors.wake(lost.run_id))
            return
        if row.state == "queued" and (row.by_decision or row.sent == "unknown"):
            self._serve(row)
            return
        left = await parts.ledger.record(lambda: abandon(call_id, owner_id, at))
        if left is not None and left.in_run:
            self._doors.wake(left.run_id)

    async def _find(self, fact: Callable[[], Fact[list[str]]]) -> list[str]:
        """What there is to do. Asked in the writer's thread: one page by an index costs least there."""
        return await self._parts.ledger.record(fact)

    async def _each(self, name: str, work: Callable[[str], Awaitable[Any]]) -> Any:  # noqa: ANN401 (the work's own answer)
        """One find at a time: what is wrong with one must not keep the others."""
        try:
            return await work(name)
        except CannotRecordError:
            raise
        except LedgerError as error:
            log.error("%s cannot be followed up: %s", name, error)  # noqa: TRY400 (the place in our code says nothing)
            return None
