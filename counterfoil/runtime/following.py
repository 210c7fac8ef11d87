"""Waiting for a call that is followed somewhere: by a task of this process, or by another server on this ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ..ledger.states import CallState

if TYPE_CHECKING:
    from ..ledger.approval_rows import ApprovalRow
    from ..ledger.rows import CallRow
    from .parts import Parts
    from .viewing import Viewer

POLL_S: Final = 0.25
UNDER_WAY: Final = frozenset({CallState.QUEUED, CallState.DISPATCHED, CallState.AWAITING_EXTERNAL})
SOON: Final = UNDER_WAY - {CallState.AWAITING_EXTERNAL}
"""Of these, what ends within the time of an attempt."""
MOVING: Final = UNDER_WAY | {CallState.AWAITING_APPROVAL}


class Follower:
    """Watches rows for as long as somebody waits."""

    def __init__(self, parts: Parts, viewer: Viewer) -> None:
        self._parts = parts
        self._viewer = viewer

    async def until_still(
        self, call_id: str, wait_s: float, *, moving: frozenset[CallState] = MOVING
    ) -> CallRow | None:
        """The call's row once it has none of these states, or as it is after the wait; a decision is waited for too."""
        ends = self._parts.clock.monotonic() + wait_s
        while True:
            row = await self._viewer.row(call_id)
            left = ends - self._parts.clock.monotonic()
            if row is None or row.state not in moving or left <= 0:
                return row
            await self._pause(call_id, min(POLL_S, left))

    async def until_decided(self, approval_id: str, wait_s: float) -> ApprovalRow | None:
        """The approval once it is decided, or as it is after the wait."""
        ends = self._parts.clock.monotonic() + wait_s
        while True:
            row = await self._viewer.approval(approval_id)
            left = ends - self._parts.clock.monotonic()
            if row is None or row.state != "pending" or left <= 0:
                return row
            await asyncio.sleep(min(POLL_S, left))

    async def _pause(self, call_id: str, seconds: float) -> None:
        case = self._parts.cases.get(call_id)
        if case is None:
            await asyncio.sleep(seconds)
            return
        await asyncio.wait({case.done}, timeout=seconds)
