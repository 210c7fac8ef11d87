"""The doors through which people decide: where a proposal stands, who is asked, what was said, what follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ledger.bookkeeping import open_request
from ..ledger.errors import LedgerError
from .answers import not_found, refusal_view
from .approvals import Approvals
from .asking import Asking
from .callbacks import Callbacks
from .following import MOVING, UNDER_WAY
from .holding import Holds
from .refusal import RefusedError
from .signalling import Signals
from .views import ApprovalView, CallView, PlainView

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from ..ledger.states import CallState
    from ..registry.principal import Principal
    from ..registry.question import Question, Said
    from .deciding import Decider
    from .following import Follower
    from .parts import Parts
    from .receipts import Receipts
    from .refusing import Refusals
    from .viewing import Viewer


@dataclass(frozen=True, slots=True)
class Around:
    """What these doors are handed of their process: where refusals are recorded, and who waits for which answer."""

    refusals: Refusals
    receipts: Receipts


class Decisions:
    """The part of the desk that is about decisions; see `Runtime`."""

    _pending_of_run: Callable[[Principal, str], Awaitable[str]]

    def __init__(
        self,
        parts: Parts,
        viewer: Viewer,
        follower: Follower,
        carry_on: Callable[[CallRow], None],
        around: Around,
    ) -> None:
        self._ledger = parts.ledger
        self._viewer = viewer
        self._follower = follower
        self._waits = around.receipts
        self._approvals = Approvals(parts, viewer, follower, carry_on, around.refusals)
        self._asking = Asking(parts, viewer, self._approvals)
        self._approvals.ask = self._asking.put_to
        self.holding = Holds(parts)
        self.signals = Signals(parts)
        self.callbacks = Callbacks(parts)

    async def confirm(  # noqa: PLR0913 (the fields of the base tool)
        self,
        principal: Principal,
        *,
        approval_id: str | None = None,
        run_id: str | None = None,
        decision: str | None = None,
        digest: str | None = None,
        note: str | None = None,
        wait_s: float = 0,
        wait_given: bool = False,
        asks: bool = False,
    ) -> ApprovalView | PlainView:
        """How a proposal stands, or the one that a run has; see `Approvals.confirm`."""
        del note  # nothing is decided here
        if approval_id is None and run_id is not None:
            try:
                approval_id = await self._pending_of_run(principal, run_id)
            except RefusedError as error:
                if decision is not None:
                    self._approvals.note_refusal(principal, None, error)
                return refusal_view(error)
            except LedgerError as error:
                return refusal_view(error)
        return await self._approvals.confirm(
            principal,
            approval_id=approval_id,
            decision=decision,
            digest=digest,
            wait_s=wait_s if wait_given else 0,
            asks=asks,
        )

    async def approvals(self, *, pending_only: bool = True) -> list[ApprovalView]:
        """Every proposal of the ledger, for the command line."""
        return await self._approvals.all(pending_only=pending_only)

    async def approval(self, approval_id: str) -> ApprovalView | PlainView:
        """One proposal, for the command line."""
        return await self._approvals.one(approval_id)

    async def decide(
        self, approval_id: str, decision: str, *, decider: Decider, digest: str | None = None, note: str | None = None
    ) -> ApprovalView | PlainView:
        """A person's decision about one exact proposal; see `Approvals.decide`."""
        return await self._approvals.decide(approval_id, decision, decider=decider, digest=digest, note=note)

    async def revoke(
        self, approval_id: str, *, decider: Decider, digest: str | None = None, note: str | None = None
    ) -> ApprovalView | PlainView:
        """Take back what nobody sent yet; see `Approvals.revoke`."""
        return await self._approvals.revoke(approval_id, decider=decider, digest=digest, note=note)

    async def question(self, principal: Principal, approval_ids: Sequence[str]) -> Question | None:
        """What the user of this very client may be asked of these; see `Asking.question`."""
        return await self._asking.question(principal, approval_ids)

    async def answer(self, principal: Principal, said: Said, note: str | None = None) -> ApprovalView | PlainView:
        """What came back from a client's form; see `Asking.answer`."""
        return await self._asking.answer(principal, said, note)

    async def follow(
        self, principal: Principal, call_id: str, wait_s: float, *, for_decision: bool = False
    ) -> CallView | PlainView:
        """A call as the answer of its own request: after its end, or as it is after the wait.

        One that waits `for_decision` is waited for only where that is said.
        """
        try:
            row = await self._viewer.row(call_id)
            if row is None or (row.tenant, row.subject) != (principal.tenant, principal.subject):
                raise not_found(call_id)
            await self._ledger.require_sound_chain(row.run_id)
            owner_id = self._ledger.owner_id
            opened = await self._ledger.record(lambda: open_request(call_id, owner_id))
            moving = MOVING if for_decision else UNDER_WAY
            return await self._waited(row, wait_s, moving, opened=opened)
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def _waited(self, row: CallRow, wait_s: float, moving: frozenset[CallState], *, opened: bool) -> CallView:
        """Nobody waits any more, and nobody has seen the end, where this ends without one."""
        view: CallView | None = None
        try:
            await self._approvals.carry_out(row)
            row = await self._follower.until_still(row.call_id, wait_s, moving=moving) or row
            view = await self._viewer.view(row)
            return view
        finally:
            if opened and view is not None and view.delivers:
                self._waits.expect(row.call_id)
            elif opened:
                self._waits.closed(row.call_id)
