"""The states of a call and its legal moves: one table, applied by one function; the docs' diagram is made from it.

(new) --propose--> awaiting_approval --approve--> queued --dispatch--> dispatched --settle--> settled
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, cast


class CallState(StrEnum):
    """Where a call is. `NEW` is no state of a row: it is what a call is before its first record."""

    NEW = "new"
    REFUSED = "refused"
    AWAITING_APPROVAL = "awaiting_approval"
    QUEUED = "queued"
    DISPATCHED = "dispatched"
    AWAITING_EXTERNAL = "awaiting_external"
    AWAITING_RECONCILIATION = "awaiting_reconciliation"
    SETTLED = "settled"


class Move(StrEnum):
    """What can happen to a call."""

    REFUSE = "refuse"  # a rule said no before anything was sent
    PROPOSE = "propose"  # a person must decide first
    ENQUEUE = "enqueue"  # it waits for capacity or a resource, and its caller was told so
    APPROVE = "approve"  # a person said yes
    REPROPOSE = "repropose"  # the decision no longer fits what would be sent
    DISPATCH = "dispatch"  # T1
    RECORD_READ = "record_read"  # T1 and T2 of a closed-world read, in one fact
    RETRY = "retry"  # this attempt is known not to have taken effect, another one follows
    SETTLE = "settle"  # T2
    ACCEPT = "accept"  # the far side has it and still works
    LOSE = "lose"  # T1 without T2: nobody here knows
    RESEND = "resend"  # sending again is safe: recovery found so, or nothing had left and its key came again
    REOPEN = "reopen"  # a late settlement contradicts what was settled
    CANCEL = "cancel"  # before T1 only
    ABANDON = "abandon"  # its caller is gone before T1


_S = CallState
MOVES: Final[dict[tuple[CallState, Move], CallState]] = {
    (_S.NEW, Move.REFUSE): _S.REFUSED,
    (_S.NEW, Move.PROPOSE): _S.AWAITING_APPROVAL,
    (_S.NEW, Move.ENQUEUE): _S.QUEUED,
    (_S.NEW, Move.DISPATCH): _S.DISPATCHED,
    (_S.NEW, Move.RECORD_READ): _S.SETTLED,
    (_S.AWAITING_APPROVAL, Move.APPROVE): _S.QUEUED,
    (_S.AWAITING_APPROVAL, Move.REPROPOSE): _S.AWAITING_APPROVAL,
    (_S.AWAITING_APPROVAL, Move.REFUSE): _S.REFUSED,
    (_S.AWAITING_APPROVAL, Move.CANCEL): _S.SETTLED,
    (_S.AWAITING_APPROVAL, Move.LOSE): _S.AWAITING_RECONCILIATION,
    (_S.AWAITING_APPROVAL, Move.ABANDON): _S.SETTLED,
    (_S.QUEUED, Move.REPROPOSE): _S.AWAITING_APPROVAL,
    (_S.QUEUED, Move.REFUSE): _S.REFUSED,
    (_S.QUEUED, Move.DISPATCH): _S.DISPATCHED,
    (_S.QUEUED, Move.CANCEL): _S.SETTLED,
    (_S.QUEUED, Move.ABANDON): _S.SETTLED,
    (_S.QUEUED, Move.SETTLE): _S.SETTLED,
    (_S.QUEUED, Move.LOSE): _S.AWAITING_RECONCILIATION,
    (_S.DISPATCHED, Move.SETTLE): _S.SETTLED,
    (_S.DISPATCHED, Move.RETRY): _S.QUEUED,
    (_S.DISPATCHED, Move.LOSE): _S.AWAITING_RECONCILIATION,
    (_S.DISPATCHED, Move.ACCEPT): _S.AWAITING_EXTERNAL,
    (_S.AWAITING_EXTERNAL, Move.SETTLE): _S.SETTLED,
    (_S.AWAITING_EXTERNAL, Move.LOSE): _S.AWAITING_RECONCILIATION,
    (_S.AWAITING_RECONCILIATION, Move.SETTLE): _S.SETTLED,
    (_S.AWAITING_RECONCILIATION, Move.RESEND): _S.QUEUED,
    (_S.AWAITING_RECONCILIATION, Move.REPROPOSE): _S.AWAITING_APPROVAL,
    (_S.AWAITING_RECONCILIATION, Move.ACCEPT): _S.AWAITING_EXTERNAL,
    (_S.REFUSED, Move.RESEND): _S.QUEUED,
    (_S.SETTLED, Move.RESEND): _S.QUEUED,
    (_S.SETTLED, Move.REOPEN): _S.AWAITING_RECONCILIATION,
}

UNRESOLVED: Final = frozenset({_S.AWAITING_RECONCILIATION, _S.AWAITING_EXTERNAL})
SENT_AND_OPEN: Final = frozenset({_S.DISPATCHED, _S.AWAITING_RECONCILIATION, _S.AWAITING_EXTERNAL})
ENDED: Final = frozenset({_S.REFUSED, _S.SETTLED})


class IllegalMoveError(Exception):
    """A move that the table does not have; the message names the state and the move. It is always a fault of ours."""


def after(state: str, move: Move) -> CallState:
    """The state that a move leads to.

    Raises:
        IllegalMoveError: the table has no such move from this state.
    """
    try:
        return MOVES[cast("CallState", state), move]
    except KeyError:
        raise IllegalMoveError(f"a call that is {state} cannot {move}") from None
