"""Grants renewed: a waiting call, or the run of one, may act for longer, because its subject says so.

A grant is whose it is, the scopes of the submission, and an expiry. A look renews the expiry alone, and seldom: what is
mostly left is left as it is. Other scopes are in a grant only once it is asked for anew: a run's when it is taken up, a
call's when it had lapsed. While it had lapsed nothing could be sent: so long the windows of what was approved stood
still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..canonical import JsonObject
from .approval_rows import SELECT_APPROVAL
from .approvals import run_stood_still, stand_still
from .events import EventType
from .rows import CallRow, get_call, touch
from .run_rows import RunRow, get_run, post, touch_run
from .sql import Fact, one
from .states import CallState

_WAITING: Final = frozenset({CallState.AWAITING_APPROVAL, CallState.QUEUED, CallState.AWAITING_RECONCILIATION})
_LEAST: Final = 8
"""Which part of a grant must have been used before it is renewed: one of so many."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """Who renews, with which scopes (JSON), when and for how long (microseconds)."""

    by: str
    scopes: str
    at: int
    lasts: int

    def concerns(self, expires_at: int) -> bool:
        """True if a grant has lapsed, or is used up by a part that counts."""
        used = self.at + self.lasts - expires_at
        return self.at >= expires_at or used * _LEAST >= self.lasts

    def until(self, expires_at: int) -> int:
        """When the grant ends then: never earlier than before."""
        return max(expires_at, self.at + self.lasts)


def renew_call(call_id: str, renewal: Renewal) -> Fact[CallRow | None]:
    """Renew the grant of a direct call that waits, with other scopes only if it had lapsed; None if nothing is."""
    row = yield from get_call(call_id)
    if row is None or row.state not in _WAITING or row.grant_expires_at is None:
        return None
    if not renewal.concerns(row.grant_expires_at):
        return None
    scopes = row.scopes
    if renewal.at >= row.grant_expires_at:
        scopes = renewal.scopes
        approval = yield from one(SELECT_APPROVAL, approval_id=row.approval_id or "")
        if approval is not None:
            yield from stand_still(approval, row.grant_expires_at)
    until = renewal.until(row.grant_expires_at)
    data = _told(renewal, until)
    return (yield from touch(row, EventType.GRANT_RENEWED, renewal.at, data, scopes=scopes, grant_expires_at=until))


def renew_run(run_id: str, renewal: Renewal) -> Fact[RunRow | None]:
    """Renew the expiry of the grant of a run, whose driver is to look; one that was stopped stays so.

    None if nothing is renewed.
    """
    run = yield from get_run(run_id)
    if run is None or run.finished_at is not None or not renewal.concerns(run.grant_expires_at):
        return None
    if renewal.at >= run.grant_expires_at:
        yield from run_stood_still(run_id, run.grant_expires_at)
    until = renewal.until(run.grant_expires_at)
    yield from post(run_id, renewal.at)
    told = _told(renewal, until)
    return (yield from touch_run(run, EventType.GRANT_RENEWED, renewal.at, told, grant_expires_at=until))


def _told(renewal: Renewal, until: int) -> JsonObject:
    return {"by": renewal.by, "grant_expires_at": until}
