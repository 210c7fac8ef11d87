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
    UNRESOLVED_OF_TENANT,
    EventRow,
)
from ..ledger.redact import redact_text
from ..ledger.run_reading import CALL_EVENTS
from ..ledger.states import UNRESOLVED as UNRESOLVED_STATES
from ..ledger.states import CallState
from ..registry.principal import Principal
from ..registry.vocabulary import ErrorCode, JsonObject, JsonValue
from .answers import not_found, refusal_view, waits_for_ledger
from .chain.doors import is_run
from .clock import micros
from .deciding import Decider, may_settle
from .decisions import Around, Decisions
from .following import SOON
from .refusal import RefusedError, refuse, refuse_arguments
from .sending import cannot_record
from .views import CallView, Next, PlainView, events_part
from .words import Stated, Words, WrongCodeError, require_resolution

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from ..registry.question import Said
    from ..registry.request import RunRequest
    from .chain.doors import RunDoors
    from .chain.news import Listener
    from .chain.views import PlanView, RunView
    from .following import Follower
    from .parts import Parts
    from .reconciling import Reconciler
    from .viewing import Viewer
    from .word import Word

RECENT_SHOWN: Final = 20
_ASKED: Final = "The person at this client is asked in a form of its own; until they have answered nothing is recorded."
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
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        around: Around,
    ) -> None:
        super().__init__(parts, viewer, follower, carry_on, around)
        self._desk = parts
        self._settler = reconciler
        self._words = Words(parts, viewer, reconciler, self._approvals, around.refusals)
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
        said: Said | None = None,
        asks: bool = False,
    ) -> CallView | RunView | PlainView:
        """Probe what can be probed; or take the word of a `person`, or of the one at this client.

        Where that one has not `said` it in a form yet, the view has the question to them, if the client `asks` any.
        After `wait_s` the answer is how it stands; what was asked goes on.
        """
        try:
            known = person is not None
            require_resolution(resolution, [evidence, output, external_reference, then])
            if call_id is None and run_id is not None and is_run(run_id):
                if resolution is None:
                    return await self._runs.reconcile(
                        principal, run_id, expected_version=expected_version, wait_s=wait_s, is_person=known
                    )
                call_id = await self._runs.unresolved_of(principal, run_id, is_person=known)
            row = await self._to_settle(principal, call_id or run_id or "", is_person=known)
            await self._desk.ledger.require_sound_chain(row.run_id)
            if expected_version is not None and expected_version != row.revision:
                raise refuse(
                    ErrorCode.VERSION_CONFLICT,
                    f"The call is at version {row.revision}, not {expected_version}. Look at it again.",
                )
            if resolution is None:
                return shown_to(principal, row, await self._follow_up(row, wait_s), is_person=known)
            stated = Stated(resolution, evidence, then, output, external_reference)
            if person is None:
                return await self._at_client(principal, row, stated, said, wait_s, asks=asks)
            return await self._said(row, await self._words.of_person(row, stated, person), wait_s)
        except CannotRecordError as error:
            return refusal_view(cannot_record(error))
        except (RefusedError, LedgerError) as error:
            question = error.question if isinstance(error, WrongCodeError) else None
            return replace(refusal_view(error), question=question)

    async def _at_client(
        self, principal: Principal, row: CallRow, stated: Stated, said: Said | None, wait_s: float, *, asks: bool
    ) -> CallView:
        """The word of the person at this client, or the question to them."""
        heard = await self._words.at_client(principal, row, stated, said, asks=asks)
        if heard.question is None:
            return shown_to(principal, row, await self._said(row, heard.word, wait_s))
        view = shown_to(principal, row, await self._view(row))
        return replace(view, question=heard.question, next=Next("reconcile", {"call_id": row.call_id}, _ASKED))

    async def _said(self, row: CallRow, word: Word, wait_s: float) -> CallView:
        return await self._followed(row, self._settler.say(row, word), wait_s, patient=True)

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
        if principal.holds("reconcile"):
            of_tenant = await reads.fetch(UNRESOLVED_OF_TENANT, tenant=principal.tenant)
            unresolved += [row for row in of_tenant if row.subject != principal.subject]
        recent = (await reads.fetch(RECENT, **who))[:RECENT_SHOWN]
        since = self._desk.clock.now() - micros(self._desk.settings.duplicate_window_s)
        lost = await reads.fetch(UNDELIVERED, **who, since=since)
        body: JsonObject = {
            "runs": await self._runs.recent(principal),
            "pending": [view.wire() for view in pending],
            "unresolved": [shown_to(principal, row, await self._viewer.view(row)).wire() for row in unresolved],
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
        return await self._followed(row, self._settler.follow(row, repeatable_here=True), wait_s)

    async def _followed(
        self, row: CallRow, work: Coroutine[Any, Any, CallRow], wait_s: float, *, patient: bool = False
    ) -> CallView:
        """How a call stands after this work, which goes on whoever waits; a `patient` one waits for it to its end."""
        ends = self._desk.clock.monotonic() + wait_s
        told: asyncio.Future[CallRow | RefusedError | LedgerError] = asyncio.get_running_loop().create_future()
        pursuing = self._own(self._pursue(work, told))
        await asyncio.wait({pursuing}, timeout=None if patient else wait_s)
        if not told.done():
            return await self._view(await self._viewer.row(row.call_id) or row)
        found = told.result()
        if isinstance(found, Exception):
            raise found
        return await self._stilled(found, max(0.0, ends - self._desk.clock.monotonic()))

    async def _pursue(
        self, work: Coroutine[Any, Any, CallRow], told: asyncio.Future[CallRow | RefusedError | LedgerError]
    ) -> None:
        try:
            told.set_result(await self._carried(await work))
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

    async def _view(self, row: CallRow) -> CallView:
        """A call as somebody asked about it: its error is no error of the question."""
        view = await self._viewer.view(row)
        case = self._desk.cases.get(row.call_id)
        if case is not None and case.waits_for_ledger and view.error is None:
            view = waits_for_ledger(view)
        return replace(view, reported=True)

    async def _mine(self, principal: Principal, call_id: str) -> CallRow:
        row = await self._viewer.row(call_id)
        if row is None or (row.tenant, row.subject) != (principal.tenant, principal.subject):
            raise not_found(call_id)
        return row

    async def _to_settle(self, principal: Principal, call_id: str, *, is_person: bool) -> CallRow:
        row = await self._viewer.row(call_id)
        if row is None or not (is_person or may_settle(row, principal)):
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


def shown_to(principal: Principal, row: CallRow, view: CallView, *, is_person: bool = False) -> CallView:
    """A call as its subject, or a person at the command line, sees it; nobody else sees what came back of it."""
    if is_person or row.subject == principal.subject:
        return view
    return replace(view, foreign=True, output=None, truncated=None)
