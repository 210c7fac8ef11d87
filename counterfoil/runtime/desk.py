"""What a principal may ask about calls and runs: how they stand, stop them, see who decides, settle them.

Every id is the caller's own or it does not exist: a foreign one and an unknown one get the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..ledger.approving import withdraw
from ..ledger.bookkeeping import request_cancel
from ..ledger.errors import CannotRecordError, DamagedChainError, LedgerError, NoSuchPayloadError
from ..ledger.queries import (
    EVENT_PAGE,
    EVENTS,
    RECENT,
    UNDELIVERED,
    UNRESOLVED,
    EventRow,
)
from ..ledger.redact import redact_text
from ..ledger.run_reading import CALL_EVENTS
from ..ledger.states import UNRESOLVED as UNRESOLVED_STATES
from ..ledger.states import CallState
from ..registry.principal import Principal
from ..registry.vocabulary import ErrorCode, JsonObject, JsonValue
from .answers import not_found, refusal_view, waits_for_ledger
from .chain.doors import is_run, no_resolution
from .clock import micros
from .deciding import Decider
from .decisions import Around, Decisions
from .following import SOON
from .reconciling import RESOLUTIONS, Word
from .refusal import RefusedError, refuse, refuse_arguments
from .sending import cannot_record
from .views import CallView, Next, PlainView, events_part

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from ..registry.request import RunRequest
    from .chain.doors import RunDoors
    from .chain.news import Listener
    from .chain.views import PlanView, RunView
    from .following import Follower
    from .parts import Parts
    from .reconciling import Reconciler
    from .viewing import Viewer

RECENT_SHOWN: Final = 20
FOLLOW_UP_WAIT_S: Final = 20.0
"""How long somebody without a request's own wait waits for what is followed up, in seconds."""


class Desk(Decisions):
    """The doors beside `call`; see `Runtime`."""

    def __init__(
        self,
        parts: Parts,
        viewer: Viewer,
        follower: Follower,
        reconciler: Reconciler,
        carry_on: Callable[[CallRow], None],
        runs: RunDoors,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        around: Around,
    ) -> None:
        super().__init__(parts, viewer, follower, carry_on, around)
        self._desk = parts
        self._settler = reconciler
        self._take_up = carry_on
        self._runs = runs
        self._pending_of_run = runs.pending
        self._own = spawn

    async def plan(self, principal: Principal, document: JsonValue) -> PlanView:
        """Check a plan and keep it; see `RunDoors.plan`."""
        return await self._runs.plan(principal, document)

    async def run(self, request: RunRequest) -> RunView:
        """Begin a run, find it, or take it up, and wait for it; see `RunDoors.run`."""
        return await self._runs.run(request)

    def listen_to_runs(self, listener: Listener) -> None:
        """Have somebody told of every change of a run that this process drives, with its owner."""
        self._runs.news.listen(listener)

    async def runs(self, *, limit: int = 50) -> list[RunView | PlainView]:
        """Every run of the ledger, the newest first, for the command line."""
        return await self._runs.runs(limit)

    async def status(
        self,
        principal: Principal,
        *,
        call_id: str | None = None,
        run_id: str | None = None,
        after_seq: int | None = None,
        offset: int | None = None,
        wait_s: float = 0,
    ) -> CallView | RunView | PlainView:
        """A call or run with its events; with `offset` a part of a call's output; without an id all that waits."""
        try:
            if call_id is None and run_id is None:
                return await self._overview(principal)
            if call_id is None and run_id is not None and is_run(run_id):
                if offset is not None:
                    raise refuse_arguments("/offset", "a call_id with it: outputs are paged by call", "a run_id")
                return await self._runs.status(principal, run_id, after_seq=after_seq, wait_s=wait_s)
            row = await self._mine(principal, call_id or run_id or "")
            if wait_s and (after_seq is None or row.seq <= after_seq):
                row = await self._follower.until_still(row.call_id, wait_s) or row
            await self._desk.ledger.require_sound_chain(row.run_id)
            if offset is not None:
                return await self._page(row, offset)
            found = await self._events(row, after_seq or 0)
            view = await self._view(row)
            return replace_extra(view, events_part(found, EVENT_PAGE))
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def cancel(
        self, principal: Principal, *, call_id: str | None = None, run_id: str | None = None, reason: str | None = None
    ) -> CallView | RunView | PlainView:
        """Before T1 a call settles as cancelled; after it a flag is set, a read is stopped, a write goes to its end.

        A run starts nothing more; its answer lists the effects that stand.
        """
        try:
            if call_id is None and run_id is not None and is_run(run_id):
                return await self._runs.cancel(principal, run_id, reason)
            row = await self._mine(principal, call_id or run_id or "")
            await self._desk.ledger.require_sound_chain(row.run_id)
            at, why = self._desk.clock.now(), redact_text(reason or "")
            done = await self._desk.ledger.record(lambda: withdraw(row.call_id, principal.subject, why, at))
            if done is None:
                done = await self._desk.ledger.record(lambda: request_cancel(row.call_id, principal.subject, why, at))
                case = self._desk.cases.get(row.call_id)
                if case is not None and row.is_read and case.running is not None:
                    case.running.stop_read()
            self._runs.wake(done or row)
            return await self._view(done or row)
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
        wait_s: float = FOLLOW_UP_WAIT_S,
        person: Decider | None = None,
    ) -> CallView | RunView | PlainView:
        """Probe what can be probed; or take the word of a person, who is known only where `person` says so.

        After `wait_s` the answer is how it stands; what was asked goes on.
        """
        try:
            if call_id is None and run_id is not None and is_run(run_id):
                if resolution is not None:
                    raise no_resolution()
                known = person is not None
                return await self._runs.reconcile(
                    principal, run_id, expected_version=expected_version, wait_s=wait_s, is_person=known
                )
            row = await self._mine(principal, call_id or run_id or "", or_person=person is not None)
            await self._desk.ledger.require_sound_chain(row.run_id)
            if expected_version is not None and expected_version != row.revision:
                raise refuse(
                    ErrorCode.VERSION_CONFLICT,
                    f"The call is at version {row.revision}, not {expected_version}. Look at it again.",
                )
            if resolution is None:
                return await self._follow_up(row, wait_s)
            if person is None:
                raise self._not_by_arguments(principal, row)
            word = self._word(row, resolution, evidence, then, person)
            word = replace_word(word, output, external_reference)
            return await self._stilled(await self._carried(await self._settler.say(row, word)), wait_s)
        except CannotRecordError as error:
            return refusal_view(cannot_record(error))
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def artifact(self, principal: Principal, artifact_id: str, offset: int, length: int) -> bytes | None:
        """A part of an output; None for one that is not this principal's, or not there."""
        try:
            found = await self._desk.ledger.describe_payload(artifact_id)
            row = await self._viewer.row(found.call_id)
            if row is None or (row.tenant, row.subject) != (principal.tenant, principal.subject):
                return None
            await self._desk.ledger.require_sound_chain(row.run_id)
            return await self._desk.ledger.read_payload(artifact_id, offset, length)
        except (NoSuchPayloadError, DamagedChainError):
            return None

    async def _overview(self, principal: Principal) -> PlainView:
        who = {"tenant": principal.tenant, "subject": principal.subject}
        reads, health = self._desk.ledger.reads, self._desk.ledger.health()
        pending = await self._approvals.pending_for(principal)
        unresolved = await reads.fetch(UNRESOLVED, **who)
        recent = (await reads.fetch(RECENT, **who))[:RECENT_SHOWN]
        since = self._desk.clock.now() - micros(self._desk.settings.duplicate_window_s)
        lost = await reads.fetch(UNDELIVERED, **who, since=since)
        body: JsonObject = {
            "runs": await self._runs.recent(principal),
            "pending": [view.wire() for view in pending],
            "unresolved": [(await self._viewer.view(row)).wire() for row in unresolved],
            "calls": [brief(row) for row in recent],
            "undelivered": len(lost),
            "server": {"ledger": health.state, "reason": health.reason, "wal_bytes": health.wal_bytes},
        }
        return PlainView(body)

    async def _events(self, row: CallRow, after_seq: int) -> list[EventRow]:
        """The events of a call alone, also where it shares the chain of its run."""
        fetch = self._desk.ledger.reads.fetch
        if not row.in_run:
            return await fetch(EVENTS, run_id=row.run_id, after_seq=after_seq)
        return await fetch(CALL_EVENTS, run_id=row.run_id, call_id=row.call_id, after_seq=after_seq)

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
        view = await self._view(row)
        return replace_extra(view, {"page": page}, Next("status", following, "The next part.") if more else view.next)

    async def _follow_up(self, row: CallRow, wait_s: float) -> CallView:
        """Follow an unresolved call by its order, in a task of ours: a request that goes away leaves nothing half."""
        if row.state not in UNRESOLVED_STATES:
            return await self._view(row)
        ends = self._desk.clock.monotonic() + wait_s
        told: asyncio.Future[CallRow | RefusedError | LedgerError] = asyncio.get_running_loop().create_future()
        self._own(self._pursue(row, told))
        await asyncio.wait({told}, timeout=wait_s)
        if not told.done():
            return await self._view(await self._viewer.row(row.call_id) or row)
        found = told.result()
        if isinstance(found, Exception):
            raise found
        return await self._stilled(found, max(0.0, ends - self._desk.clock.monotonic()))

    async def _pursue(self, row: CallRow, told: asyncio.Future[CallRow | RefusedError | LedgerError]) -> None:
        try:
            told.set_result(await self._carried(await self._settler.follow(row, repeatable_here=True)))
        except (RefusedError, LedgerError) as error:
            told.set_result(error)

    async def _carried(self, row: CallRow) -> CallRow:
        """A call that was followed up, which somebody goes on with if it is to be sent again."""
        if row.in_run:
            self._runs.wake(row)
        elif row.state == CallState.QUEUED and row.owner_id == self._desk.ledger.owner_id:
            self._take_up(row)
        return row

    async def _stilled(self, row: CallRow, wait_s: float) -> CallView:
        """The view of a call that was followed up; one that is sent again is waited for, a person's decision is not."""
        if row.in_run or (row.state == CallState.QUEUED and row.owner_id == self._desk.ledger.owner_id):
            row = await self._follower.until_still(row.call_id, wait_s, moving=SOON) or row
        return await self._view(row)

    def _word(self, row: CallRow, resolution: str, evidence: str | None, then: str | None, person: Decider) -> Word:
        if resolution not in RESOLUTIONS:
            raise refuse_arguments("/resolution", ", ".join(RESOLUTIONS), repr(resolution[:30]))
        if then not in {None, "retry", "fail"}:
            raise refuse_arguments("/then", "retry or fail", repr(str(then)[:30]))
        if not (evidence or "").strip():
            rests = "what the word rests on, such as a reference in the far side's own records"
            raise refuse_arguments("/evidence", rests, "nothing")
        if row.state not in UNRESOLVED_STATES:
            raise refuse(
                ErrorCode.VERSION_CONFLICT, f"The call is {row.state}; only an unresolved one is settled by a word."
            )
        return Word(resolution, evidence or "", person.by, person.strength, person.via, then or "fail")

    def _not_by_arguments(self, principal: Principal, row: CallRow) -> RefusedError:
        if not principal.holds("reconcile"):
            return refuse(
                ErrorCode.INSUFFICIENT_SCOPE,
                "A person's word needs the scope reconcile. A person says it in a terminal with: "
                f"counterfoil reconcile {row.call_id} --resolution ... --evidence ...; "
                "call reconcile without a resolution to have it probed.",
                missing_scopes=["reconcile"],
            )
        return refuse(
            ErrorCode.DENIED,
            "A person's word is not taken from tool arguments. A person says it with: "
            f"counterfoil reconcile {row.call_id} --resolution ... --evidence ...",
        )

    async def _view(self, row: CallRow) -> CallView:
        """A call as somebody asked about it: its error is no error of the question."""
        view = await self._viewer.view(row)
        case = self._desk.cases.get(row.call_id)
        if case is not None and case.waits_for_ledger and view.error is None:
            view = waits_for_ledger(view)
        return replace(view, reported=True)

    async def _mine(self, principal: Principal, call_id: str, *, or_person: bool = False) -> CallRow:
        row = await self._viewer.row(call_id)
        if row is None or not (or_person or (row.tenant, row.subject) == (principal.tenant, principal.subject)):
            raise not_found(call_id)
        return row


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


def replace_extra(view: CallView, extra: JsonObject, step: Next | None = None) -> CallView:
    """A view with more members."""
    return replace(view, extra=view.extra | extra, next=step or view.next)


def replace_word(word: Word, output: JsonValue, external_reference: str | None) -> Word:
    """A word with what the person saw of the outcome."""
    return replace(word, output=output, external_reference=external_reference)
