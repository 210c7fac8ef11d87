"""The closed list of what an event can say. A verifier and a console know every type by name; there are no others."""

from __future__ import annotations

from enum import StrEnum


class EventType(StrEnum):
    """What happened."""

    REFUSED = "refused"  # a rule said no before anything was sent
    REFUSALS_COUNTED = "refusals_counted"  # more refusals of one subject than are written out
    PROPOSED = "proposed"  # a person must decide
    DECIDED = "decided"
    DECLINED = "declined"  # a client did not have its person decide: nothing is decided, and it is not asked again
    REVOKED = "revoked"  # a person took the proposal back before anything was sent
    EXPIRED = "expired"
    QUEUED = "queued"
    DISPATCHED = "dispatched"  # T1
    OBSERVED = "observed"  # a closed-world read, T1 and T2 in one
    SETTLED = "settled"  # T2
    RETRIED = "retried"  # an attempt is known not to have taken effect; another one follows
    LOST = "lost"  # T1 without T2: nobody here knows
    GRANT_RENEWED = "grant_renewed"  # its subject lets a waiting call, or a run, act for longer
    STALLED = "stalled"  # decided, and something else stands in its way: its window stands still
    PROBED = "probed"
    CLAIMED = "claimed"  # a server carries on what a decision queued
    TAKEN_OVER = "taken_over"  # another owner carries the call on
    LATE_SETTLEMENT = "late_settlement"  # evidence from a superseded attempt
    CONTRADICTION = "contradiction"  # late evidence against what was settled
    REOPENED = "reopened"
    RESOLVED = "resolved"  # a person's word
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"  # its caller is gone before anything was sent
    ACCEPTED = "accepted"  # the far side has it and still works
    JOINED = "joined"  # an identical request takes part in a call that is there already
    RUN_CREATED = "run_created"
    RUN_CLAIMED = "run_claimed"  # a server drives it from here on
    RUN_PARKED = "run_parked"  # nothing of it can move by itself
    RUN_RELEASED = "run_released"  # the server that drove it stopped; any other goes on
    RUN_TAKEN_UP = "run_taken_up"  # its subject has it go on, under a fresh grant
    RUN_STOPPED = "run_stopped"  # its subject wants no further non-read step until it is taken up
    RUN_CANCEL_REQUESTED = "run_cancel_requested"
    RUN_FINISHED = "run_finished"
    COMPENSATION_STARTED = "compensation_started"  # a run has failed, and its effects are undone from here on
    COMPENSATION_NOTED = "compensation_noted"  # an effect is kept, or nothing undoes it
    COMPENSATION_INCOMPLETE = "compensation_incomplete"  # an undo failed, or nobody knows what became of it
    COMPENSATION_COMPLETED = "compensation_completed"  # what was not known of a finished run's undoing is known
    COMPENSATION_RESUMED = "compensation_resumed"  # what was not undone is tried again
    STEP_ENDED = "step_ended"  # what no call says: skipped, not run, failed or refused before anything was sent
    HELD = "held"  # an operator keeps something from being sent
    RELEASED = "released"  # an operator lets it be sent again
    STEP_REUSED = "step_reused"  # of a fork: the outcome of an earlier run's call stands for it, or may
    STEP_EXPANDED = "step_expanded"  # how many items a `for_each` has
