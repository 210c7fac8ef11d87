"""The states of an approval, and the one compare-and-set that moves it. What that means for its call is elsewhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from .approval_rows import CHANGED, SELECT_APPROVAL, UPDATE_APPROVAL, ApprovalRow
from .rows import CallRow
from .sql import Fact, change, one


class ApprovalState(StrEnum):
    """Where an approval is."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    REVOKED = "revoked"
    CONSUMED = "consumed"
    SUPERSEDED = "superseded"


OPEN: Final = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED})


def set_state(approval: ApprovalRow, state: ApprovalState, **changes: Any) -> Fact[ApprovalRow]:  # noqa: ANN401 (columns)
    """Move an approval on. Returns the new row."""
    new = approval._replace(state=state.value, **changes)
    values = {name: getattr(new, name) for name in CHANGED}
    yield from change(UPDATE_APPROVAL, of=approval.approval_id, was=approval.state, **values)
    return new


def revoke(row: CallRow) -> Fact[None]:
    """Revoke what is open of a call that will not be sent."""
    found = yield from one(SELECT_APPROVAL, approval_id=row.approval_id or "")
    if found is not None and found.state in OPEN:
        yield from set_state(found, ApprovalState.REVOKED)
