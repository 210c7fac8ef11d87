"""What a principal may ask about calls that are there: how they stand, stop them, see who decides, settle them.

Every id is the caller's own or it does not exist: a foreign one and an unknown one get the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ..ledger.approving import Decided, Decision, decide, withdraw
from ..ledger.bookkeeping import request_cancel
from ..ledger.errors import CannotRecordError, LedgerError, NoSuchPayloadError
from ..ledger.queries import EVENT_PAGE, EVENTS, PENDING, PENDING_OF_TENANT, RECENT, RECENT_APPROVALS, UNDELIVERED, UNRESOLVED
from ..ledger.recovering import claim
from ..ledger.redact import redact_text
from ..ledger.states import UNRESOLVED as UNRESOLVED_STATES
from ..ledger.states import CallState
from ..registry.principal import Principal
from ..registry.vocabulary import ErrorCode, JsonObject, JsonValue
from .clock import micros
from .reconciling import RESOLUTIONS, Word
from .refusal import RefusedError, refuse
from .sending import cannot_record
from .views import ApprovalView, CallView, ErrorView, Next, PlainView, events_part

if TYPE_CHECKING:
    from ..ledger.rows import ApprovalRow, CallRow
    from .following import Follower
    from .parts import Parts
    from .reconciling import Reconciler
    from .viewing import Viewer

RECENT_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides, and how it is known."""

    by: str
    strength: str
    via: str


class Desk:
    """The doors beside `call`; see `Runtime`."""

    def __init__(
        self,
        parts: Parts,
        viewer: Viewer,
        follower: Follower,
        reconciler: Reconciler,
        carry_on: Callable[[CallRow], None],
    ) -> None:
        self._desk = parts
        self._viewer = viewer
        self._follower = follower
        self._settler = reconciler
        self._take_up = carry_on

    async def status(  # noqa: PLR0913 (the fields of the base tool)
        self,
        principal: Principal,
        *,
        call_id: str | None = None,
        run_id: str | None = None,
        after_seq: int | None = None,
        offset: int | None = None,
        wait_s: float = 0,
    ) -> CallView | PlainView:
        """A call with its events; with `offset` a part of a truncated output; without an id everything that waits."""
        try:
            if call_id is None and run_id is None:
                return await self._overview(principal)
            row = await self._mine(principal, call_id or run_id or "")
            if wait_s and after_seq is None:
                row = await self._follower.until_still(row.call_id, wait_s) or row
            if offset is not None:
                return await self._page(row, offset)
            await self._desk.ledger.require_sound_chain(row.run_id)
            found = await self._desk.ledger.reads.fetch(EVENTS, run_id=row.run_id, after_seq=after_seq or 0)
            view = await self._viewer.view(row)
            return replace_extra(view, events_part(found, EVENT_PAGE))
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def cancel(
        self, principal: Principal, *, call_id: str | None = None, run_id: str | None = None, reason: str | None = None
    ) -> CallView | PlainView:
        """Before T1 a call settles as cancelled; after it a flag is set and a read is stopped; a write goes to its end."""
        try:
            row = await self._mine(principal, call_id or run_id or "")
            at, why = self._desk.clock.now(), redact_text(reason or "")
            done = await self._desk.ledger.record(lambda: withdraw(row.call_id, principal.subject, why, at))
            if done is None:
                done = await self._desk.ledger.record(
                    lambda: request_cancel(row.call_id, principal.subject, why, at)
                )
                case = self._desk.cases.get(row.call_id)
                if case is not None and row.is_read and case.running is not None:
                    case.running.stop_read()
            return await self._viewer.view(done or row)
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

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
    ) -> ApprovalView | PlainView:
        """How a proposal stands; waits for its decision only where the caller said how long. Nothing is decided here."""
        del note, run_id
        try:
            row = await self._approval_for(principal, approval_id)
            if decision is not None:
                error = refuse(
                    ErrorCode.DENIED,
                    "No decision is taken from tool arguments: a person decides where the model has no hand. "
                    + str(ApprovalView(row, None).wire()["how"]),
                )
                return await self._approval_view(row, refusal_of(error))
            if digest is not None and digest != row.digest:
                error = refuse(ErrorCode.APPROVAL_INVALID, "This digest is not the proposal's.")
                return await self._approval_view(row, refusal_of(error))
            if wait_given and wait_s:
                row = await self._follower.until_decided(row.approval_id, wait_s) or row
            return await self._approval_view(row)
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def reconcile(  # noqa: PLR0913 (the fields of the base tool)
        self,
        principal: Principal,
        *,
        call_id: str | None = None,
        run_id: str | None = None,
        resolution: str | None = None,
        evidence: str | None = None,
        output: JsonValue = None,
        external_reference: str | None = None,
        then: str | None = None,
        expected_version: int | None = None,
        person: Decider | None = None,
    ) -> CallView | PlainView:
        """Probe what can be probed; or take the word of a person, who is known only where `person` says so."""
        try:
            row = await self._mine(principal, call_id or run_id or "", or_person=person is not None)
            await self._desk.ledger.require_sound_chain(row.run_id)
            if expected_version is not None and expected_version != row.revision:
                raise refuse(
                    ErrorCode.VERSION_CONFLICT,
                    f"The call is at version {row.revision}, not {expected_version}. Look at it again.",
                )
            if resolution is None:
                return await self._follow_up(row)
            if person is None:
                raise self._not_by_arguments(principal, row)
            word = self._word(row, resolution, evidence, then, person)
            word = replace_word(word, output, external_reference)
            return await self._carried(await self._settler.say(row, word))
        except CannotRecordError as error:
            return refusal_view(cannot_record(error))
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def approvals(self, *, pending_only: bool = True) -> list[ApprovalView]:
        """Every proposal of the ledger, for the command line."""
        rows = await self._desk.ledger.reads.fetch(PENDING if pending_only else RECENT_APPROVALS)
        return [await self._approval_view(row) for row in rows]

    async def approval(self, approval_id: str) -> ApprovalView | PlainView:
        """One proposal, for the command line."""
        row = await self._viewer.approval(approval_id)
        return await self._approval_view(row) if row is not None else refusal_view(not_found(approval_id))

    async def decide(
        self, approval_id: str, decision: str, *, decider: Decider, digest: str | None = None, note: str | None = None
    ) -> ApprovalView | PlainView:
        """A person's decision about one exact proposal. Approved, the call is queued and carried on at once."""
        try:
            row = await self._viewer.approval(approval_id)
            if row is None:
                raise not_found(approval_id)
            if decision not in {"approve", "reject"}:
                raise refuse(ErrorCode.INVALID_ARGUMENTS, f"decision: expected approve or reject, got {decision[:20]!r}")
            if row.assurance == "second_person" and decider.strength == "same_user":
                raise refuse(
                    ErrorCode.DENIED,
                    "This needs a second person with a proven identity; the account that runs the server and its "
                    "requester are one person here.",
                )
            said = Decision(
                approve=decision == "approve",
                by=decider.by,
                strength=decider.strength,
                via=decider.via,
                at=self._desk.clock.now(),
                digest=digest,
                note=redact_text(note) if note else None,
            )
            done = await self._desk.ledger.record(lambda: decide(approval_id, said))
            if isinstance(done, Decided):
                await self._carry_out(done.row)
                return await self._approval_view(done.approval)
            why = "its digest is another one" if done.why == "digest" else f"it is {done.why} already"
            error = refuse(ErrorCode.APPROVAL_INVALID, f"Nothing was decided: {why}.")
            return await self._approval_view(done.approval or row, refusal_of(error))
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def artifact(self, principal: Principal, payload_id: str, offset: int, length: int) -> bytes | None:
        """A part of an output; None for one that is not this principal's, or not there."""
        try:
            found = await self._desk.ledger.describe_payload(payload_id)
            row = await self._viewer.row(found.call_id)
            if row is None or (row.tenant, row.subject) != (principal.tenant, principal.subject):
                return None
            return await self._desk.ledger.read_payload(payload_id, offset, length)
        except NoSuchPayloadError:
            return None

    async def _overview(self, principal: Principal) -> PlainView:
        who = {"tenant": principal.tenant, "subject": principal.subject}
        reads, health = self._desk.ledger.reads, self._desk.ledger.health()
        pending = [row for row in await reads.fetch(PENDING_OF_TENANT, tenant=principal.tenant) if may_see(row, principal)]
        unresolved = await reads.fetch(UNRESOLVED, **who)
        recent = (await reads.fetch(RECENT, **who))[:RECENT_SHOWN]
        since = self._desk.clock.now() - micros(self._desk.settings.duplicate_window_s)
        lost = await reads.fetch(UNDELIVERED, **who, since=since)
        body: JsonObject = {
            "runs": [],
            "pending": [(await self._approval_view(row)).wire() for row in pending],
            "unresolved": [(await self._viewer.view(row)).wire() for row in unresolved],
            "calls": [brief(row) for row in recent],
            "undelivered": lost[0][0] if lost else 0,
            "server": {"ledger": health.state, "reason": health.reason, "wal_bytes": health.wal_bytes},
        }
        return PlainView(body)

    async def _page(self, row: CallRow, offset: int) -> CallView:
        if row.output_payload is None:
            raise refuse(ErrorCode.NOT_FOUND, "This call has no output to page through.")
        size = self._desk.settings.output_model_bytes
        total = (await self._desk.ledger.describe_payload(row.output_payload)).bytes
        raw = await self._desk.ledger.read_payload(row.output_payload, offset, size + 4)
        part, ends = whole_characters(raw, size)
        more = offset + ends < total
        following: JsonObject = {"call_id": row.call_id, "offset": offset + ends}
        page: JsonObject = {
            "offset": offset,
            "bytes": ends,
            "total_bytes": total,
            "text": part,
            "next_offset": offset + ends if more else None,
        }
        view = await self._viewer.view(row)
        return replace_extra(view, {"page": page}, Next("status", following, "The next part.") if more else view.next)

    async def _follow_up(self, row: CallRow) -> CallView:
        if row.state not in UNRESOLVED_STATES:
            return await self._viewer.view(row)
        return await self._carried(await self._settler.follow(row))

    async def _carried(self, row: CallRow) -> CallView:
        """The view of a call that was followed up; one that is sent again is waited for a little."""
        if row.state == CallState.QUEUED and row.owner_id == self._desk.ledger.owner_id:
            self._take_up(row)
            row = await self._follower.until_still(row.call_id, self._desk.settings.follow_up_wait_s) or row
        return await self._viewer.view(row)

    async def _carry_out(self, row: CallRow) -> None:
        """Carry on a decided call at once, if this process has its tool; any other server would find it."""
        if row.state != CallState.QUEUED or self._desk.catalogue.get(row.tool, row.version) is None:
            return
        if not self._desk.settings.carries_on:
            return
        at, owner_id = self._desk.clock.now(), self._desk.ledger.owner_id
        mine = await self._desk.ledger.record(lambda: claim(row.call_id, owner_id, at))
        if mine is not None:
            self._take_up(mine)

    def _word(self, row: CallRow, resolution: str, evidence: str | None, then: str | None, person: Decider) -> Word:
        if resolution not in RESOLUTIONS:
            raise refuse(
                ErrorCode.INVALID_ARGUMENTS, f"resolution: expected {', '.join(RESOLUTIONS)}, got {resolution[:30]!r}"
            )
        if then not in {None, "retry", "fail"}:
            raise refuse(ErrorCode.INVALID_ARGUMENTS, f"then: expected retry or fail, got {str(then)[:30]!r}")
        if not (evidence or "").strip():
            raise refuse(
                ErrorCode.INVALID_ARGUMENTS,
                "evidence: expected what the word rests on, such as a reference in the far side's own records.",
            )
        if row.state not in UNRESOLVED_STATES:
            raise refuse(
                ErrorCode.VERSION_CONFLICT, f"The call is {row.state}; only an unresolved one is settled by a word."
            )
        return Word(resolution, evidence or "", person.by, person.strength, person.via, then or "fail")

    def _not_by_arguments(self, principal: Principal, row: CallRow) -> RefusedError:
        if not principal.holds("reconcile"):
            return refuse(
                ErrorCode.INSUFFICIENT_SCOPE,
                "A person's word needs the scope reconcile; call reconcile without a resolution to have it probed.",
                missing_scopes=["reconcile"],
            )
        return refuse(
            ErrorCode.DENIED,
            "A person's word is not taken from tool arguments. A person says it with: "
            f"counterfoil reconcile {row.call_id} --resolution ... --evidence ...",
        )

    async def _mine(self, principal: Principal, call_id: str, *, or_person: bool = False) -> CallRow:
        row = await self._viewer.row(call_id)
        if row is None or not (or_person or (row.tenant, row.subject) == (principal.tenant, principal.subject)):
            raise not_found(call_id)
        return row

    async def _approval_for(self, principal: Principal, approval_id: str | None) -> ApprovalRow:
        if approval_id is None:
            raise refuse(ErrorCode.INVALID_ARGUMENTS, "approval_id: expected the id that the call's view gives.")
        row = await self._viewer.approval(approval_id)
        if row is None or not may_see(row, principal):
            raise not_found(approval_id)
        return row

    async def _approval_view(self, row: ApprovalRow, error: ErrorView | None = None) -> ApprovalView:
        call = await self._viewer.row(row.call_id)
        return ApprovalView(row, json.loads(call.args_shown) if call is not None else None, error)


def may_see(row: ApprovalRow, principal: Principal) -> bool:
    """Its requester, or somebody of its tenant who may decide it."""
    if row.tenant != principal.tenant:
        return False
    return row.requester == principal.subject or principal.subject in json.loads(row.approvers) or principal.holds("approve")


def brief(row: CallRow) -> JsonObject:
    """One line about a call."""
    return {
        "call_id": row.call_id,
        "tool": row.tool,
        "state": row.state,
        "outcome": row.outcome,
        "sent": row.sent,
        "code": row.code,
        "approval_id": row.approval_id,
    }


def whole_characters(raw: bytes, size: int) -> tuple[str, int]:
    """As many whole characters as fit into `size` bytes, and how many bytes they are."""
    end = min(size, len(raw))
    while 0 < end < len(raw) and raw[end] & 0xC0 == 0x80:  # noqa: PLR2004 (a continuation byte of UTF-8)
        end -= 1
    return raw[:end].decode("utf-8", "replace"), end


def not_found(name: str) -> RefusedError:
    """There is no such id, or it is somebody else's."""
    return refuse(
        ErrorCode.NOT_FOUND,
        f"There is nothing called {redact_text(name)[:80]!r} that is yours.",
        Next("status", {}, "See what you have."),
    )


def refusal_of(error: RefusedError | LedgerError) -> ErrorView:
    """The error of a request that was refused itself."""
    if isinstance(error, RefusedError):
        reason = error.reason
        return ErrorView(reason.code, reason.message, reason.meaning.retryable, reason.details)
    return ErrorView(ErrorCode.UNAVAILABLE, f"The ledger cannot answer: {error}", retryable=True)


def refusal_view(error: RefusedError | LedgerError | Exception) -> PlainView:
    """A refused request about a call."""
    assert isinstance(error, RefusedError | LedgerError), "only refusals are views"
    step = error.reason.next if isinstance(error, RefusedError) else None
    return PlainView({"next": step.wire() if step else None}, refusal_of(error))


def replace_extra(view: CallView, extra: JsonObject, step: Next | None = None) -> CallView:
    """A view with more members."""
    return replace(view, extra=view.extra | extra, next=step or view.next)


def replace_word(word: Word, output: JsonValue, external_reference: str | None) -> Word:
    """A word with what the person saw of the outcome."""
    return replace(word, output=output, external_reference=external_reference)
