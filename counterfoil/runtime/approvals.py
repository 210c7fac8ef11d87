"""Who decides what waits: proposals as their requester and their deciders see them, and a person's decision.

Over MCP nothing is decided from tool arguments; a decision comes in by `decide`, from where a person was seen.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..ledger.approvals import ApprovalState
from ..ledger.approving import Decided, Decision, NotDecided, decide, revoke
from ..ledger.errors import DamagedChainError, LedgerError
from ..ledger.grants import renew_call, renew_run
from ..ledger.queries import PENDING, PENDING_OF_TENANT, RECENT_APPROVALS
from ..ledger.recovering import claim
from ..ledger.redact import redact_text
from ..ledger.states import CallState
from ..registry.principal import Principal
from ..registry.vocabulary import ErrorCode, JsonObject, JsonValue
from .answers import not_found, refusal_of, refusal_view
from .authority import renewal_by
from .deciding import PROVEN, Decider, decider_of, may_see
from .refusal import RefusedError, refuse, refuse_arguments
from .views import ApprovalView, ErrorView, PlainView, how_to_decide

if TYPE_CHECKING:
    from ..ledger.approval_rows import ApprovalRow
    from ..ledger.rows import CallRow
    from ..ledger.sql import Fact
    from ..registry.question import Question
    from .following import Follower
    from .parts import Parts
    from .refusing import Refusals
    from .viewing import Viewer


WAITS_UNDER: Final = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.CONSUMED})
"""The states of a proposal under which a call may still wait, for its decision, its T1 or another attempt."""
WHOLE_BYTES: Final = 65_536
"""What marks of redaction may add to arguments that are shown whole."""


class Approvals:
    """The proposals of one ledger. `carry_on` follows a call that a decision queued and this process claimed."""

    def __init__(
        self,
        parts: Parts,
        viewer: Viewer,
        follower: Follower,
        carry_on: Callable[[CallRow], None],
        refusals: Refusals,
    ) -> None:
        self._refusals = refusals
        self._parts = parts
        self._viewer = viewer
        self._follower = follower
        self._take_up = carry_on
        self.ask: Callable[[Principal, ApprovalRow], Awaitable[Question]] | None = None

    async def confirm(
        self,
        principal: Principal,
        *,
        approval_id: str | None,
        decision: str | None,
        digest: str | None,
        wait_s: float,
        asks: bool = False,
    ) -> ApprovalView | PlainView:
        """How a proposal stands and where a person decides, after a wait for that. Nothing is decided here.

        For its requester the grant of what waits under it is renewed.
        With a decision the view has the question to the person at this client, where it `asks`.
        """
        try:
            try:
                row = await self._approval_for(principal, approval_id)
            except RefusedError as error:
                if decision is not None:
                    self.note_refusal(principal, None, error)
                raise
            await self._parts.ledger.require_sound_chain(row.run_id)
            try:
                if digest is not None and digest != row.digest:
                    raise self._invalid("This digest is not the proposal's.", await self.view(row))
                if decision is not None:
                    return await self._for_a_person(principal, row, asks=asks)
            except RefusedError as error:
                self.note_refusal(principal, row.digest, error)
                return await self.view(row, refusal_of(error))
            await self._renew(principal, row)
            if wait_s:
                row = await self._follower.until_decided(row.approval_id, wait_s) or row
            return await self.view(row)
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def _renew(self, principal: Principal, row: ApprovalRow) -> None:
        """Whoever asked for it says by asking after it that it may still act: its grant, or its run's, goes on."""
        parts = self._parts
        mine = (row.tenant, row.requester) == (principal.tenant, principal.subject)
        call = await self._viewer.row(row.call_id) if mine and row.state in WAITS_UNDER else None
        if call is None:
            return
        renewal = renewal_by(parts, principal)
        if not call.in_run:
            if await parts.ledger.record(lambda: renew_call(call.call_id, renewal)) is not None:
                parts.passing.stir()
        elif await parts.ledger.record(lambda: renew_run(call.run_id, renewal)) is not None:
            await self.carry_out(call)

    async def _for_a_person(self, principal: Principal, row: ApprovalRow, *, asks: bool) -> ApprovalView:
        """The question that a decision in arguments leads to: these alone decide nothing.

        Raises:
            RefusedError: it is decided already, or this person may not decide it here.
        """
        if row.state != "pending":
            raise self._invalid(f"It is {row.state} already.", await self.view(row))
        decider_of(row, principal)
        if self.ask is None or not asks:
            raise refuse(
                ErrorCode.DENIED,
                "No decision is taken from tool arguments: a person decides where the model has no hand, and this "
                f"client shows no forms. {how_to_decide(row)}",
            )
        question = await self.ask(principal, row)
        return replace(await self.view(row), question=question)

    def _invalid(self, message: str, view: ApprovalView) -> RefusedError:
        return refuse(ErrorCode.APPROVAL_INVALID, message, approval=view.wire())

    async def all(self, *, pending_only: bool = True) -> list[ApprovalView]:
        """Every proposal of the ledger, for the command line."""
        rows = await self._parts.ledger.reads.fetch(PENDING if pending_only else RECENT_APPROVALS)
        return [await self._listed(row) for row in rows]

    async def one(self, approval_id: str) -> ApprovalView | PlainView:
        """One proposal, for the command line."""
        row = await self._viewer.approval(approval_id)
        return await self._listed(row) if row is not None else refusal_view(not_found(approval_id))

    async def decide(
        self, approval_id: str, decision: str, *, decider: Decider, digest: str | None = None, note: str | None = None
    ) -> ApprovalView | PlainView:
        """A person's decision about one exact proposal. Approved, the call is queued and carried on at once."""
        if decision not in {"approve", "reject"}:
            return refusal_view(refuse_arguments("/decision", "approve or reject", repr(decision[:20])))
        said = self._said(decider, digest, note, approve=decision == "approve")
        return await self._record(approval_id, decider, "decided", lambda: decide(approval_id, said))

    async def revoke(
        self, approval_id: str, *, decider: Decider, digest: str | None = None, note: str | None = None
    ) -> ApprovalView | PlainView:
        """Take back a proposal, decided or not, whose calls were not sent; whoever may decide it may do that."""
        said = self._said(decider, digest, note, approve=False)
        return await self._record(approval_id, decider, "revoked", lambda: revoke(approval_id, said))

    def _said(self, decider: Decider, digest: str | None, note: str | None, *, approve: bool) -> Decision:
        at, redacted = self._parts.clock.now(), redact_text(note) if note else None
        return Decision(approve, decider.by, decider.strength, decider.via, at, digest, redacted)

    async def _record(
        self, approval_id: str, decider: Decider, verb: str, fact: Callable[[], Fact[Decided | NotDecided]]
    ) -> ApprovalView | PlainView:
        """What a person said, recorded; or that it does not count, which is recorded as a refusal."""
        try:
            row = await self._viewer.approval(approval_id)
            if row is None:
                raise not_found(approval_id)
            await self._parts.ledger.require_sound_chain(row.run_id)
            try:
                self._check_decider(row, decider)
            except RefusedError as error:
                self._refused(row, decider, error)
                raise
            return await self._answered(row, decider, await self._parts.ledger.record(fact), verb)
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def _answered(
        self, row: ApprovalRow, decider: Decider, done: Decided | NotDecided, verb: str
    ) -> ApprovalView:
        """What was recorded, with its calls carried on; or that nothing was, and why."""
        if isinstance(done, Decided):
            for call in done.rows:
                await self.carry_out(call)
            return await self.view(done.approval, whole=True)
        why = "its digest is another one" if done.why == "digest" else f"it is {done.why} already"
        error = refuse(ErrorCode.APPROVAL_INVALID, f"Nothing was {verb}: {why}.")
        self._refused(row, decider, error)
        return await self.view(done.approval or row, refusal_of(error))

    def _refused(self, row: ApprovalRow, decider: Decider, error: RefusedError) -> None:
        """Whoever lost, came late or may not decide is on record too."""
        self.note_refusal(Principal(row.tenant, decider.by, decider.via), row.digest, error)

    def note_refusal(self, principal: Principal, digest: str | None, error: RefusedError) -> None:
        """Keep that somebody was not let to decide; `digest` is the proposal's, None where they may not see it."""
        self._refusals.record(principal, "confirm", digest, error.reason, self._parts.clock.now())

    def _check_decider(self, row: ApprovalRow, decider: Decider) -> None:
        """Raise unless this person may decide it, by the rule's approvers and by what is proven of who they are."""
        proven = {decider.strength, row.proof} <= PROVEN
        if row.assurance == "second_person" and (not proven or decider.by == row.requester):
            raise refuse(
                ErrorCode.DENIED,
                "This needs a second person with a proven identity; the account that runs the server and its "
                "requester are one person here.",
            )
        if row.assurance == "operator" and decider.strength == "client_attested":
            raise refuse(ErrorCode.DENIED, "This needs an operator; what a client says of its own user is not enough.")
        approvers = json.loads(row.approvers)
        if approvers and decider.by not in approvers:
            raise refuse(
                ErrorCode.DENIED,
                f"{decider.by} may not decide this: the rule {row.rule_id} names who may.",
                approvers=approvers,
            )

    async def pending_for(self, principal: Principal) -> list[ApprovalView]:
        """The undecided proposals that this principal made or may decide."""
        rows = await self._parts.ledger.reads.fetch(PENDING_OF_TENANT, tenant=principal.tenant)
        return [await self._listed(row) for row in rows if may_see(row, principal)]

    async def carry_out(self, row: CallRow) -> None:
        """Carry on a decided call at once, if this process has its tool; any other server would find it."""
        if not self._parts.settings.carries_on:
            return
        if row.in_run:
            self._take_up(row)
            return
        if (
            row.state != CallState.QUEUED
            or row.owner_id is not None
            or self._parts.catalogue.get(row.tool, row.version) is None
        ):
            return
        at, owner_id = self._parts.clock.now(), self._parts.ledger.owner_id
        mine = await self._parts.ledger.record(lambda: claim(row.call_id, owner_id, at))
        if mine is not None:
            self._take_up(mine)

    async def _approval_for(self, principal: Principal, approval_id: str | None) -> ApprovalRow:
        if approval_id is None:
            raise refuse_arguments("/approval_id", "the id that the call's view gives", "nothing")
        row = await self._viewer.approval(approval_id)
        if row is None or not may_see(row, principal):
            raise not_found(approval_id)
        return row

    async def _listed(self, row: ApprovalRow) -> ApprovalView:
        """One of a list: a damaged one says so and shows nothing to decide about, and the others are shown."""
        try:
            await self._parts.ledger.require_sound_chain(row.run_id)
        except DamagedChainError as error:
            return ApprovalView(row, None, refusal_of(error))
        return await self.view(row, whole=True)

    async def view(self, row: ApprovalRow, error: ErrorView | None = None, *, whole: bool = False) -> ApprovalView:
        """How one stands; `whole` with every argument in full. Secrets stay hidden in both forms."""
        calls = await self._viewer.covered(row)
        shown = [await self.whole(call) if whole else json.loads(call.args_shown) for call in calls]
        if len(calls) > 1:
            return ApprovalView(row, shown, error, items=items_of(calls))
        return ApprovalView(row, shown[0] if shown else None, error)

    async def whole(self, call: CallRow) -> JsonValue:
        """Every argument of a call in full; secrets stay hidden."""
        arguments = await self._parts.ledger.open_payload(call.args_payload)
        entry = self._parts.catalogue.get(call.tool, call.version)
        sensitive = entry.contract.gate.sensitive if entry is not None else ()
        return self._parts.ledger.project(json.loads(arguments), sensitive, len(arguments) * 4 + WHOLE_BYTES)


def items_of(calls: Sequence[CallRow]) -> tuple[JsonObject, ...]:
    """What is said of each call of a proposal for several, in the order of its `arguments`."""
    return tuple({"n": call.item, "call_id": call.call_id, "state": call.state} for call in calls)
