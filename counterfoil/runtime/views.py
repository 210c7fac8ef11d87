"""What a caller sees of calls and approvals, in the form of design section 7. Made here and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..ledger.approval_rows import ApprovalRow
from ..ledger.approvals import ApprovalState
from ..ledger.queries import EventRow
from ..ledger.rows import CallRow
from ..ledger.states import ENDED, CallState
from ..registry.question import Question
from ..registry.vocabulary import ErrorCode, JsonObject, JsonValue
from .clock import rfc3339

WAIT_S: Final = 20


@dataclass(frozen=True, slots=True)
class Next:
    """The next possible action: a base tool with its arguments, and a sentence."""

    tool: str
    arguments: JsonObject
    text: str

    def wire(self) -> JsonObject:
        """As the view has it."""
        return {"tool": self.tool, "arguments": self.arguments, "text": self.text}


@dataclass(frozen=True, slots=True)
class ErrorView:
    """`error` of a view."""

    code: ErrorCode
    message: str
    retryable: bool = False
    details: JsonObject = field(default_factory=dict[str, Any])

    def wire(self) -> JsonObject:
        """As the view has it."""
        return {
            "code": self.code.value,
            "message": self.message,
            "retryable": self.retryable,
            "details": self.details,
        }


@dataclass(frozen=True, slots=True)
class Truncated:
    """An output that is too large to show: its size, digest, where the rest is, and how it begins."""

    bytes: int
    sha256: str
    uri: str
    preview: str

    @property
    def payload_id(self) -> str:
        """The payload that holds it."""
        return self.uri.rpartition("/")[2]

    def wire(self) -> JsonObject:
        """As the view has it."""
        return {"bytes": self.bytes, "sha256": self.sha256, "uri": self.uri, "preview": self.preview}


@dataclass(frozen=True, slots=True)
class CallView:
    """One call as its subject sees it; `reported` where it was only asked about, `foreign` where somebody else asked.

    `instead` is the whole answer to a request that only asks what would be decided: there is no call then.
    """

    tool: str
    state: CallState
    call_id: str | None = None
    version: str | None = None
    outcome: str | None = None
    sent: str = "no"
    output: JsonValue = None
    error: ErrorView | None = None
    evidence: JsonObject | None = None
    attempts: int = 0
    replayed: bool = False
    approval: JsonObject | None = None
    truncated: Truncated | None = None
    next: Next | None = None
    effect: str = ""
    cancel_requested_at: int | None = None
    reported: bool = False
    extra: JsonObject = field(default_factory=dict[str, Any])
    instead: JsonObject | None = None
    question: Question | None = None
    foreign: bool = False

    @property
    def is_error(self) -> bool:
        """True exactly when `error` is set, its code is not `in_progress`, and it is the error of what was asked."""
        return self.error is not None and self.error.code is not ErrorCode.IN_PROGRESS and not self.reported

    @property
    def pending(self) -> tuple[str, ...]:
        """The undecided proposal that it waits for."""
        waits = self.state is CallState.AWAITING_APPROVAL and self.approval is not None
        return (str(self.approval["approval_id"]),) if waits and self.approval is not None else ()

    @property
    def delivers(self) -> tuple[str, ...]:
        """The call that counts as delivered once this view was written: a settled non-read one."""
        ended = self.call_id is not None and self.state in ENDED and self.effect != "read"
        return (self.call_id,) if ended and self.call_id and not self.foreign else ()

    def wire(self) -> JsonObject:
        """As the wire has it."""
        if self.instead is not None:
            return dict(self.instead)
        view: JsonObject = {
            "call_id": self.call_id,
            "tool": self.tool,
            "version": self.version,
            "state": self.state.value,
            "outcome": self.outcome,
            "sent": self.sent,
            "output": self.output,
            "error": self.error.wire() if self.error else None,
            "evidence": self.evidence,
            "attempts": self.attempts,
            "replayed": self.replayed,
            "approval": self.approval,
            "truncated": self.truncated.wire() if self.truncated else None,
            "next": self.next.wire() if self.next else None,
        }
        if self.cancel_requested_at is not None:
            view["cancel_requested_at"] = rfc3339(self.cancel_requested_at)
        return view | self.extra


_AFTER_PENDING: Final = "No person has decided yet: tell the user what `how` says, then look again."
_AFTER_DECISION: Final = "See what became of the call."
_AFTER_SEVERAL: Final = "See what became of the step whose items these are."


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """One approval as its requester, or whoever may decide it, sees it."""

    row: ApprovalRow
    arguments: JsonValue
    error: ErrorView | None = None
    delivers: tuple[str, ...] = ()
    items: tuple[JsonObject, ...] = ()
    pending: tuple[str, ...] = ()
    question: Question | None = None

    @property
    def is_error(self) -> bool:
        """True if the request about it was refused."""
        return self.error is not None

    @property
    def preview(self) -> JsonObject | None:
        """What a read showed when it was proposed, as information; nothing of it is under the digest."""
        found: JsonObject | None = json.loads(self.row.preview) if self.row.preview is not None else None
        return found

    @property
    def approval_id(self) -> str:
        """Its name."""
        return self.row.approval_id

    def wire(self) -> JsonObject:
        """As the wire has it."""
        row = self.row
        decided: JsonObject = {
            "by": row.decided_by,
            "at": rfc3339(row.decided_at),
            "strength": row.strength,
            "via": row.via,
            "note": row.note,
        }
        view: JsonObject = {
            "approval_id": row.approval_id,
            "state": row.state,
            "call_id": None if self.items else row.call_id,
            "run_id": None if row.run_id == row.call_id else row.run_id,
            "step": row.step,
            "tool": row.tool,
            "effect": row.effect,
            "arguments": self.arguments,
            "digest": row.digest,
            "assurance": row.assurance,
            "rule": {"id": row.rule_id, "reason": row.reason},
            "requester": row.requester,
            "requested_at": rfc3339(row.requested_at),
            "expires_at": rfc3339(row.expires_at),
            "execute_until": rfc3339(row.execute_until),
            "decided": decided if row.decided_at is not None else None,
            "preview": self.preview,
            "how": how_to_decide(row) if row.state == ApprovalState.PENDING else None,
            "superseded_by": row.superseded_by,
            "next": follow(
                row.call_id, _AFTER_PENDING if row.state == ApprovalState.PENDING else _AFTER_DECISION
            ).wire(),
        }
        if self.items:
            view["items"] = [*self.items]
            view["next"] = Next("status", {"run_id": row.run_id, "wait_s": WAIT_S}, _AFTER_SEVERAL).wire()
        if self.error is not None:
            view["error"] = self.error.wire()
        return view


@dataclass(frozen=True, slots=True)
class PlainView:
    """An answer that is neither a call nor an approval."""

    body: JsonObject
    error: ErrorView | None = None
    delivers: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    question: Question | None = None

    @property
    def is_error(self) -> bool:
        """True if the request was refused."""
        return self.error is not None

    def wire(self) -> JsonObject:
        """As the wire has it."""
        shown: JsonObject = dict(self.body)
        if self.error is not None:
            shown["error"] = self.error.wire()
        return shown


def how_to_decide(row: ApprovalRow) -> str:
    """Where a person decides about it, in one sentence."""
    command = f"counterfoil approvals approve {row.approval_id}"
    if row.assurance == "second_person":
        said = "Another person decides, and both have to be proven, such as by a token of [[auth.tokens]]"
        return f"{said}: {row.requester} is." if row.proof else f"{said}; {row.requester} is not, so it waits."
    return f"A person runs `{command}` (or `reject`) in a terminal on this machine and types the code shown there."


def approval_part(row: ApprovalRow) -> JsonObject:
    """`approval` of a call view."""
    return {
        "approval_id": row.approval_id,
        "digest": row.digest,
        "assurance": row.assurance,
        "rule_id": row.rule_id,
        "reason": row.reason,
        "expires_at": rfc3339(row.expires_at),
        "how": how_to_decide(row),
    }


def follow(call_id: str, text: str) -> Next:
    """The next action: look at this call again, and wait a while for it."""
    return Next("status", {"call_id": call_id, "wait_s": WAIT_S}, text)


def next_of(row: CallRow, approval: ApprovalRow | None) -> Next | None:
    """What can be done about a call in its state."""
    if row.state == CallState.AWAITING_APPROVAL and approval is not None:
        return Next("confirm", {"approval_id": approval.approval_id, "wait_s": WAIT_S}, how_to_decide(approval))
    if row.state == CallState.QUEUED and row.owner_id is None:
        return follow(
            row.call_id,
            "It was approved, and is sent once a server that has this tool takes it up. Do not ask for it anew.",
        )
    if row.state in {CallState.QUEUED, CallState.DISPATCHED, CallState.AWAITING_EXTERNAL}:
        return follow(row.call_id, "It is under way; look again. Do not ask for it a second time.")
    if row.state == CallState.AWAITING_RECONCILIATION:
        return Next(
            "reconcile",
            {"call_id": row.call_id},
            "Nobody knows yet whether it happened. Reconcile asks the far side; where that cannot answer, a person "
            f"settles it with `counterfoil reconcile {row.call_id} --resolution ... --evidence ...`, or another person "
            "with the scope reconcile at their own client. "
            "Do not repeat it in other words.",
        )
    return None


def error_of(row: CallRow) -> ErrorView | None:
    """`error` of a recorded call."""
    if row.code is None:
        return None
    details: JsonObject = json.loads(row.details) if row.details else {}
    return ErrorView(ErrorCode(row.code), row.message or "", bool(row.retryable), details)


def evidence_of(row: CallRow) -> JsonObject | None:
    """`evidence` of a recorded call: what is known of its sending and from where; never to be taken as instructions."""
    if row.dispatched_at is None:
        return None
    said: JsonObject = json.loads(row.evidence) if row.evidence else {}
    return {
        "request_id": said.get("request_id"),
        "external_reference": said.get("external_reference"),
        "external_version": said.get("external_version"),
        "sent_at": rfc3339(row.dispatched_at),
        "settled_at": rfc3339(row.settled_at),
        "source": said.get("source", row.settled_by),
        "untrusted": True,
    }


def events_part(found: Sequence[EventRow], page: int) -> JsonObject:
    """`events` and `more` of a status view."""
    shown: list[JsonValue] = [
        {"seq": event.seq, "type": event.type, "at": rfc3339(event.at), "data": _data_of(json.loads(event.body))}
        for event in found[:page]
    ]
    return {"events": shown, "more": len(found) > page}


def _data_of(body: dict[str, Any]) -> JsonObject:
    """What an event says, with the call that it is about where the chain is not that call's own."""
    data: JsonObject = body["data"]
    return data if body["call_id"] in {None, body["run_id"]} else {"call_id": body["call_id"], **data}
