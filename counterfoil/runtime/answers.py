"""The answers to requests that were refused themselves, as views."""

from __future__ import annotations

from ..ledger.errors import LedgerError
from ..ledger.redact import redact_text
from ..registry.vocabulary import ErrorCode
from .refusal import RefusedError, refuse
from .views import ErrorView, Next, PlainView


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
