"""The answers that are made without a call being carried out: refusals, and calls that are under way as another one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..canonical import sha256_hex
from ..ledger.errors import LedgerError
from ..ledger.redact import redact_text
from ..ledger.states import ENDED, CallState
from ..registry.request import CallRequest
from ..registry.vocabulary import ErrorCode
from .clock import micros, rfc3339
from .limiting import shown_limits
from .refusal import Reason, RefusedError, refuse
from .viewing import refused_view
from .views import CallView, ErrorView, Next, PlainView, error_of, follow

if TYPE_CHECKING:
    from .case import Case


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


def closing() -> RefusedError:
    """The server stops."""
    return refuse(ErrorCode.UNAVAILABLE, "This server is stopping and takes no new calls. Ask again when it is back.")


def unreadable(error: LedgerError) -> RefusedError:
    """The ledger could not be asked before anything was sent."""
    return refuse(ErrorCode.UNAVAILABLE, f"The ledger cannot be read now ({type(error).__name__}); nothing was sent.")


def broken() -> RefusedError:
    """A fault of ours before anything was sent."""
    return refuse(ErrorCode.INTERNAL, "Counterfoil failed at this call before it was sent; its log names the place.")


def unshown(case: Case) -> CallView:
    """It was sent, and what became of it cannot be read now. Nobody may say that nothing happened."""
    row = case.row
    if row is None:  # a closed-world read is recorded after it ran
        message = "Counterfoil failed at this call after it was made; its log names the place."
        reason = refuse(ErrorCode.INTERNAL, message).reason
        return refused_view(case.known.contract.name, reason, effect="read", sent="unknown")
    ended = row.state in ENDED
    waiting = ErrorView(ErrorCode.IN_PROGRESS, "Its outcome cannot be read now.", details={"call_id": row.call_id})
    return CallView(
        tool=row.tool,
        state=CallState(row.state),
        call_id=row.call_id,
        version=row.version,
        outcome=row.outcome if ended else None,
        sent=row.sent,
        error=error_of(row) if ended else waiting,
        attempts=row.attempts,
        replayed=case.joined,
        next=follow(row.call_id, "Look at it again in a moment. Do not ask for it a second time."),
    )


def time_is_up() -> RefusedError:
    """The one budget of time of all attempts is used up."""
    return refuse(ErrorCode.DEADLINE_EXCEEDED, "No time is left for another attempt; none so far took effect.")


def repeated(reason: Reason, seconds: float, at: int) -> Reason:
    """The same refusal for the sixth time, at this time; for so many seconds more."""
    return refuse(
        ErrorCode.REPEATED_FAILURE,
        f"The same call was refused five times within ten minutes ({reason.code.value}): {reason.message} "
        "Change it, or wait.",
        reason.next,
        last_code=reason.code.value,
        retry_after_s=round(seconds, 3),
        resets_at=rfc3339(at + micros(seconds)),
    ).reason


def dry_run(case: Case) -> CallView:
    """What would be decided about a request; nothing is recorded, and there is no call to show."""
    known = case.known
    decision, contract = known.decision, known.contract
    return CallView(
        tool=contract.name,
        state=CallState.NEW,
        instead={
            "dry_run": True,
            "verdict": decision.verdict.value,
            "assurance": decision.assurance.value,
            "rule_id": decision.rule_id,
            "reason": decision.reason,
            "missing_scopes": list(case.principal.missing(contract.gate.scopes)),
            "arguments": known.arguments.value,
            **shown_limits(case),
        },
    )


def in_progress(view: CallView) -> CallView:
    """A duplicate of a call that is under way."""
    return replace(
        view,
        error=ErrorView(
            ErrorCode.IN_PROGRESS,
            f"The same call is under way as {view.call_id}.",
            retryable=False,
            details={"call_id": view.call_id},
        ),
        output=None,
        next=follow(view.call_id or "", "Wait for that one. Do not ask for it again."),
    )


def waits_for_ledger(view: CallView) -> CallView:
    """Its outcome is known and cannot be recorded yet."""
    error = ErrorView(
        ErrorCode.IN_PROGRESS,
        "It was sent; the ledger cannot record its outcome yet, so it is not told before.",
        retryable=False,
        details={"call_id": view.call_id},
    )
    return replace(view, error=error)


def raw_digest(request: CallRequest | None) -> str:
    """What names arguments that were refused before they had a canonical form."""
    return sha256_hex(repr(request.arguments).encode("utf-8", "backslashreplace")) if request is not None else ""
