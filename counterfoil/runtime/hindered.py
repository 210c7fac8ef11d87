"""What keeps a call back although nothing but time, an operator or its subject is awaited: as a refusal, and in a view.

What a person has decided about is not refused for it: it stays queued, its window stands still, and it goes on by
itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ledger.admission import GrantLapsed, Held, Unresolved
from ..registry.vocabulary import ErrorCode
from .clock import rfc3339
from .refusal import RefusedError, refuse
from .views import Next, follow

if TYPE_CHECKING:
    from ..ledger.hindering import Hindrance
    from ..ledger.holding import HoldRow
    from ..ledger.proposals import Hindering
    from ..ledger.rows import CallRow
    from .refusal import Reason

GOES_ON = "It was approved, goes on by itself after that, and the time in which it can be sent stands still meanwhile."


def kept_back(found: Held | HoldRow) -> RefusedError:
    """The refusal of what is held: which hold, whose, since when, why, and who lets it go."""
    return refuse(
        ErrorCode.HELD,
        f"{_holding(found)} Nothing was sent. {_released_by(found)}",
        kind=found.kind,
        name=found.name,
        by=found.by,
        reason=found.reason,
        since=rfc3339(found.at),
    )


def grant_lapsed(found: GrantLapsed, row: CallRow | None) -> RefusedError:
    """The refusal of what was asked under authority that has lapsed, and how its subject renews it."""
    approval_id = None if row is None else row.approval_id
    how = f"Renew it with confirm {approval_id}." if approval_id else "Ask again."
    step = Next("confirm", {"approval_id": approval_id}, "Renew the authority of the call.") if approval_id else None
    return refuse(
        ErrorCode.AUTHORITY_EXPIRED,
        f"The authority under which it was asked has lapsed at {rfc3339(found.since)}. Nothing was sent. {how}",
        step,
        since=rfc3339(found.since),
    )


def unresolved(found: Unresolved, subject: str) -> RefusedError:
    """Another call whose outcome nobody knows stands in the way; it is named to those who may see it."""
    mine = found.row.subject == subject
    call_id = found.row.call_id if mine else None
    about = f"{found.row.tool} ({call_id})" if mine else "another caller's call"
    where = f"on {found.resource} " if found.resource and mine else ""
    return refuse(
        ErrorCode.AMBIGUOUS,
        f"An earlier call {where}has an outcome that nobody knows yet: {about}. It may have happened, so this is not "
        "sent. Reconcile that call first.",
        Next("reconcile", {"call_id": call_id}, "Find out what became of it.") if call_id else None,
        call_id=call_id,
        since=rfc3339(found.row.dispatched_at),
    )


def hindered(by: Hindering, row: CallRow) -> RefusedError:
    """The refusal of a fresh proposal for a call: nobody is asked while the decision is not all that is missing."""
    match by:
        case Held():
            return kept_back(by)
        case GrantLapsed():
            return grant_lapsed(by, row)
        case Unresolved():
            return unresolved(by, row.subject)
        case _:
            raise AssertionError(f"{type(by).__name__} hinders no call that has a row")


def passes(row: CallRow, reason: Reason) -> bool:
    """True if this is no answer to what a person has decided, since it passes: by itself, or by what its subject does.

    Whose subject is not known any more waits for nobody.
    """
    if not row.by_decision:
        return False
    match reason.code:
        case ErrorCode.HELD | ErrorCode.AMBIGUOUS:
            return True
        case ErrorCode.BUDGET_EXHAUSTED:
            return "resets_at" in reason.details
        case ErrorCode.AUTHORITY_EXPIRED:
            return row.approval_id is not None and "since" in reason.details
        case _:
            return False


def next_while(row: CallRow, found: Hindrance | None) -> Next:
    """What is awaited by a decided call that is kept back: who does what, and that it goes on then."""
    if found is None:
        return follow(row.call_id, f"A budget has nothing left for it until its window is over. {GOES_ON}")
    if isinstance(found, Held):
        return follow(row.call_id, f"{_holding(found)} {_released_by(found)} {GOES_ON}")
    if isinstance(found, GrantLapsed):
        text = (
            f"authority_expired: the authority under which it was asked has lapsed at {rfc3339(found.since)}. "
            f"Its requester renews it with confirm, without a decision. {GOES_ON}"
        )
        return Next("confirm", {"approval_id": row.approval_id}, text)
    if found.row.subject != row.subject:
        return follow(row.call_id, f"Another caller's call, of which nobody knows yet, has what it needs. {GOES_ON}")
    about = f"{found.row.tool} ({found.row.call_id}) has what it needs, and nobody knows yet what became of that"
    return Next("reconcile", {"call_id": found.row.call_id}, f"{about}: reconcile it. {GOES_ON}")


def _holding(found: Held | HoldRow) -> str:
    why = f": {found.reason}" if found.reason else ""
    return f"{found.by} holds {_what(found)} since {rfc3339(found.at)}{why}."


def _released_by(found: Held | HoldRow) -> str:
    return f"It can be sent once an operator has run `counterfoil release {_what(found)}`."


def _what(found: Held | HoldRow) -> str:
    return f"{found.kind} {found.name}".rstrip()
