"""What must be known of a failed run before anything of it is undone: its own calls of which nobody knows the outcome.

Each is followed once a wake by its order of recovery; one that did not happen is settled as that, and not sent again
where that can be avoided. Whether the run waits for what is left is not decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ledger.recovering import adopt, get_attempt, take_over
from ...ledger.run_calls import living
from ...ledger.states import UNRESOLVED, CallState
from ..recovery import last_effect_at, settles_at
from ..refusal import RefusedError
from ..stepping import Ended, NotNow
from .board import Place
from .effects import place_of
from .rest import FIRST_PAUSE, due_of

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ..plan.model import Plan
    from ..refusal import Reason
    from .steps import Result, Steps, Tools


class Doubts:
    """The calls of one run that nobody knows of, for the one who drives it."""

    def __init__(self, tools: Tools, plan: Plan, steps: Steps, owner_id: str) -> None:
        self._tools = tools
        self._ledger = tools.parts.ledger
        self._steps = steps
        self._owner_id = owner_id
        self._index = {step.id: step for step in plan.steps}
        self._followed: set[str] = set()
        self.kept_back: Reason | None = None  # why what is to be sent again was not sent just now

    async def follow(self, rows: Sequence[CallRow], *, may_send: bool) -> bool:
        """Follow each of them; True if something came of it."""
        moved = False
        for row in rows:
            if row.state == CallState.DISPATCHED:
                moved = await self.take(row) or moved
            elif row.state == CallState.QUEUED:
                moved = (may_send and self._went_on(await self._send(row))) or moved
            elif row.state == CallState.AWAITING_RECONCILIATION and row.call_id not in self._followed:
                self._followed.add(row.call_id)
                moved = await self.ask(row, compensating=True) or moved
        return moved

    def _went_on(self, result: Result) -> bool:
        self.kept_back = result.reason if isinstance(result, NotNow) else None
        return isinstance(result, Ended)

    async def stranded(self, undos: Sequence[CallRow]) -> CallRow | None:
        """An undo of which nobody knows, whose process is gone, and about which asking once may tell more."""
        for undo in undos:
            open_ = undo.state == CallState.AWAITING_RECONCILIATION and not self._steps.is_for_a_person(undo)
            if open_ and await self._is_left(undo):
                return undo
        return None

    async def take(self, row: CallRow) -> bool:
        """Take over what a process had under way that is gone; False if it lives."""
        at = self._tools.parts.clock.now()
        if not await self._is_left(row):
            return False
        return await self._ledger.record(lambda: take_over(row.call_id, self._owner_id, at)) is not None

    async def ask(self, row: CallRow, *, compensating: bool) -> bool:
        """Follow the order of recovery once; True if its state is another one then, or it moved meanwhile.

        What a process that is gone had parked is this one's from then on, so that it is followed once and no more.
        """
        if await self._is_left(row):
            at = self._tools.parts.clock.now()
            adopted = await self._ledger.record(lambda: adopt(row.call_id, self._owner_id, at))
            if adopted is None:
                return True
            row = adopted
        try:
            done = await self._tools.reconciler.follow(row, repeatable_here=True, compensating=compensating)
        except RefusedError:
            return True
        return done.state != row.state

    async def due(self, rows: Sequence[CallRow], *, may_send: bool, wakes: int) -> int | None:
        """When asking or sending again may tell more, in microseconds; None if only a person can, or a release."""
        now, found = self._tools.parts.clock.now(), list[int]()
        for row in rows:
            if row.state == CallState.QUEUED and may_send:
                again = now + FIRST_PAUSE if self.kept_back is None else due_of(self.kept_back, None, now, wakes)
                found += [] if again is None else [again]
            elif row.state in UNRESOLVED and (until := await self._settles_at(row)) is not None and until >= now:
                found.append(until + 1)
        return min(found, default=None)

    async def _is_left(self, row: CallRow) -> bool:
        owner_id = row.owner_id
        if owner_id is None or owner_id == self._owner_id:
            return False
        return owner_id not in await self._ledger.record(lambda: living([owner_id]))

    async def _settles_at(self, row: CallRow) -> int | None:
        entry = self._tools.parts.catalogue.get(row.tool, row.version)
        if entry is None or entry.contract.recovery.probe is None:
            return None
        attempt = await self._ledger.record(lambda: get_attempt(row.call_id, row.generation))
        if attempt is None:
            return None
        return settles_at(entry.contract, last_effect_at(attempt.hard_deadline_at, row.external_until))

    async def _send(self, row: CallRow) -> Result:
        step, place = self._index[row.step or ""], place_of(row)
        at = Place(step.index, place[1])
        if row.owner_id == self._owner_id:
            return await self._steps.resume(step, at, row)
        return await self._steps.carry_on(step, at, row)
