"""What is kept of refusals: an event of at most 2 kB each, without waiting, up to a rate per subject, then a count."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ..ledger.bookkeeping import append_to
from ..ledger.events import EventType
from ..ledger.redact import redact_text
from ..registry.vocabulary import ErrorCode
from .clock import MICROSECOND

if TYPE_CHECKING:
    from ..ledger.store import Ledger
    from ..registry.principal import Principal
    from ..registry.vocabulary import JsonObject
    from .refusal import Reason

WINDOW: Final = 60 * MICROSECOND
SUBJECTS_KEPT: Final = 10_000
NO_FAILURE: Final = frozenset(
    {ErrorCode.IN_PROGRESS, ErrorCode.AMBIGUOUS, ErrorCode.REPEATED_FAILURE, ErrorCode.HELD, ErrorCode.NOT_FOUND}
)
"""Codes that the breaker does not count: waiting, and what another call or a person causes."""
ENDS_ITSELF: Final = "resets_at"
"""A refusal with this detail is not counted either: it says when it ends, and a block may not outlast that."""


@dataclass
class _Window:
    since: int
    written: int = 0
    counted: int = 0


class Refusals:
    """One process's refusals; one chain per process and day."""

    def __init__(self, ledger: Ledger, per_minute: int) -> None:
        self._ledger = ledger
        self._per_minute = per_minute
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    def record(self, principal: Principal, tool: str, args_digest: str | None, reason: Reason, at: int) -> None:
        """Keep a refusal, without waiting for it."""
        window = self._window(principal, at)
        if window.written >= self._per_minute:
            window.counted += 1
            return
        window.written += 1
        data: JsonObject = {
            "tool": redact_text(tool)[:64],
            "subject": principal.subject,
            "client": principal.client,
            "code": reason.code.value,
            "message": redact_text(reason.message)[:500],
            "args_digest": args_digest,
            "rule_id": reason.rule_id,
        }
        self._append(principal.tenant, EventType.REFUSED, at, data)

    def flush(self, at: int) -> None:
        """Write down how many were only counted, of the windows that are over."""
        for (tenant, subject), window in list(self._windows.items()):
            if at - window.since >= WINDOW:
                del self._windows[tenant, subject]
                self._count(tenant, subject, window, at)

    def _window(self, principal: Principal, at: int) -> _Window:
        key = (principal.tenant, principal.subject)
        window = self._windows.get(key)
        if window is None or at - window.since >= WINDOW:
            if window is not None:
                self._count(*key, window, at)
            window = self._windows[key] = _Window(at)
            if len(self._windows) > SUBJECTS_KEPT:
                (tenant, subject), oldest = self._windows.popitem(last=False)
                self._count(tenant, subject, oldest, at)
        return window

    def _count(self, tenant: str, subject: str, window: _Window, at: int) -> None:
        if window.counted:
            self._append(tenant, EventType.REFUSALS_COUNTED, at, {"subject": subject, "count": window.counted})

    def _append(self, tenant: str, event: EventType, at: int, data: JsonObject) -> None:
        day = datetime.fromtimestamp(at / MICROSECOND, UTC).date().isoformat()
        run_id = f"refusals:{self._ledger.owner_id}:{day}"
        kept: JsonObject = {name: value for name, value in data.items() if value is not None}
        self._ledger.record_nowait(lambda: append_to(run_id, tenant, event, at, kept))
