"""From a recorded call to its view: the output is unsealed here, cut to what a caller is shown, never redacted."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from ..ledger.hindering import hindrance
from ..ledger.queries import APPROVAL, CALL, COVERED
from ..ledger.states import CallState
from .by_hand import how_by_hand
from .hindered import next_while
from .views import CallView, ErrorView, Next, Truncated, approval_part, error_of, evidence_of, next_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..ledger.approval_rows import ApprovalRow
    from ..ledger.rows import CallRow
    from ..ledger.store import Ledger
    from ..registry.catalogue import Catalogue
    from ..registry.vocabulary import JsonValue
    from .refusal import Reason
    from .settings import Settings
    from .settlement import Result

PREVIEW_CHARACTERS = 2_000


class Viewer:
    """Reads what a view needs beside the row."""

    def __init__(
        self, ledger: Ledger, settings: Callable[[], Settings], now: Callable[[], int], catalogue: Catalogue
    ) -> None:
        """`settings` are those of now, `now` is the time in microseconds."""
        self._ledger = ledger
        self._now = now
        self._settings = settings
        self._catalogue = catalogue

    async def row(self, call_id: str) -> CallRow | None:
        """A call's row as it is now."""
        rows = await self._ledger.reads.fetch(CALL, call_id=call_id)
        return rows[0] if rows else None

    async def approval(self, approval_id: str | None) -> ApprovalRow | None:
        """An approval's row as it is now."""
        if approval_id is None:
            return None
        rows = await self._ledger.reads.fetch(APPROVAL, approval_id=approval_id)
        return rows[0] if rows else None

    async def covered(self, approval: ApprovalRow) -> list[CallRow]:
        """The calls that a proposal covers, in the order of their places."""
        return await self._ledger.reads.fetch(COVERED, approval_id=approval.approval_id)

    async def view(
        self, row: CallRow, *, replayed: bool = False, result: Result | None = None, approval: ApprovalRow | None = None
    ) -> CallView:
        """The view of a call. `result` and `approval` save a reading where the caller has them."""
        if row.state == CallState.AWAITING_APPROVAL and approval is None:
            approval = await self.approval(row.approval_id)
        output, truncated = await self._output(row, result)
        return CallView(
            tool=row.tool,
            state=CallState(row.state),
            call_id=row.call_id,
            version=row.version,
            outcome=row.outcome if row.state not in {CallState.QUEUED, CallState.DISPATCHED} else None,
            sent=row.sent,
            output=output,
            error=error_of(row),
            evidence=evidence_of(row),
            attempts=row.attempts,
            replayed=replayed,
            approval=approval_part(approval) if approval is not None else None,
            truncated=truncated,
            next=await self._kept_back(row) or self._by_hand(row) or next_of(row, approval) or _partial_note(row),
            effect=row.effect,
            cancel_requested_at=row.cancel_requested_at,
        )

    def _by_hand(self, row: CallRow) -> Next | None:
        """What a person does whom a call waits for."""
        if row.state != CallState.AWAITING_RECONCILIATION:
            return None
        entry = self._catalogue.get(row.tool, row.version)
        if entry is None or not entry.contract.gate.manual:
            return None
        return Next("reconcile", {"call_id": row.call_id}, f"Tell the user: {how_by_hand(row, entry.contract)}")

    async def _kept_back(self, row: CallRow) -> Next | None:
        """What a decided call waits for that something else keeps back; None for any other. A run says it of a step."""
        if row.state != CallState.QUEUED or not row.by_decision or row.in_run:
            return None
        at = self._now()
        found = await self._ledger.reads.look(lambda: hindrance(row, at))
        approval = await self.approval(row.approval_id)
        if approval is None or (found is None and approval.stalled_at is None):
            return None
        return next_while(row, found)

    async def _output(self, row: CallRow, result: Result | None) -> tuple[JsonValue, Truncated | None]:
        if row.output_payload is None or row.state != CallState.SETTLED or row.code == "output_invalid":
            return None, None
        sealed = result.settlement.output if result is not None else None
        if result is not None and sealed is not None and sealed.payload_id == row.output_payload:
            raw = result.output_bytes or b"null"
            value: JsonValue = result.output
        else:
            raw = await self._ledger.open_payload(row.output_payload)
            value = json.loads(raw)
        if len(raw) <= self._settings().output_model_bytes:
            return value, None
        return None, cut(raw, row.output_payload)


def cut(raw: bytes, payload_id: str) -> Truncated:
    """The mark of an output that is too large to show."""
    preview = raw[: PREVIEW_CHARACTERS * 4].decode("utf-8", "ignore")[:PREVIEW_CHARACTERS]
    return Truncated(len(raw), hashlib.sha256(raw).hexdigest(), f"counterfoil://artifacts/{payload_id}", preview)


def refused_view(tool: str, reason: Reason, *, effect: str = "", sent: str = "no") -> CallView:
    """The view of a request that was refused before it got a row."""
    meaning = reason.meaning
    state = CallState.SETTLED if meaning.outcome.value == "permanent_failure" else CallState.REFUSED
    return CallView(
        tool=tool,
        state=state,
        outcome=meaning.outcome.value,
        sent=sent,
        error=ErrorView(reason.code, reason.message, meaning.retryable, reason.details),
        next=reason.next,
        effect=effect,
    )


def _partial_note(row: CallRow) -> Next | None:
    if row.outcome != "partial" or not row.message:
        return None
    return Next("status", {"call_id": row.call_id}, f"Only a part was done: {row.message}")
