"""What is asked of runs: how one stands, as of one moment. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, case, literal, select

from .approval_rows import ApprovalRow
from .forking import reused_calls
from .queries import EVENT_PAGE, EventRow
from .rows import CallRow, get_call
from .run_rows import WAKE, RunRow, StepRow, get_run
from .run_usage import usage
from .runs import STEP, calls_of, steps_of
from .sealing import Bytes, PayloadRow
from .sql import Count, Fact, Sql, fetch, one
from .states import CallState
from .tables import approvals, calls, events, outbox, payloads, runs, steps
from .undoing import UndoNote, undo_calls, undo_notes
from .verify import sound

SMALL: Final = 1_024
"""Outputs of so many bytes are read with all others of their run, each of the larger ones by itself."""


class Glance(NamedTuple):
    """A run's row, and whether somebody posted a wake that nobody has taken."""

    run: RunRow
    woken: bool


class OutputRow(NamedTuple):
    """An output's payload, and its sealed bytes with it where they are few."""

    payload_id: str
    call_id: str
    tenant: str
    kind: str
    bytes: int
    sha256: str
    commitment: str
    salt: Bytes
    key_id: str
    chunks: int
    sealed: Bytes | None

    @property
    def payload(self) -> PayloadRow:
        """What is known of it without opening it."""
        return PayloadRow(*self[:-1])


class Snapshot(NamedTuple):
    """Everything that a run's view is made of, as of one moment.

    `elsewhere` is the unresolved call of another run, or a direct one, that it waits for; `reused` are earlier calls
    that it has taken over as a fork, by their ids.
    """

    run: RunRow
    calls: list[CallRow]
    steps: list[StepRow]
    pending: list[ApprovalRow]
    used: dict[str, int]
    outputs: dict[str, OutputRow]
    elsewhere: CallRow | None
    undos: Sequence[CallRow] = ()
    undo_notes: Sequence[UndoNote] = ()
    reused: Mapping[str, CallRow] = {}


_RUN_ID = bindparam("run_id", type_=runs.c.run_id.type)
HAS_WAKE: Sql[Count] = Sql(
    select(literal(1)).select_from(outbox).where(outbox.c.run_id == _RUN_ID, outbox.c.topic == WAKE).limit(1), Count
)
_outputs = select(
    *[payloads.c[name] for name in PayloadRow._fields],
    case((payloads.c.bytes <= SMALL, payloads.c.sealed)).label("sealed"),
).select_from(calls.join(payloads, payloads.c.payload_id == calls.c.output_payload))
OUTPUTS: Sql[OutputRow] = Sql(
    _outputs.where(calls.c.run_id == _RUN_ID, calls.c.step.is_not(None), calls.c.route == STEP), OutputRow
)
REUSED_OUTPUTS: Sql[OutputRow] = Sql(
    _outputs.where(calls.c.call_id.in_(select(steps.c.reused).where(steps.c.run_id == _RUN_ID))), OutputRow
)
CALL_EVENTS: Sql[EventRow] = Sql(
    select(events.c.seq, events.c.type, events.c.at, events.c.body)
    .where(events.c.run_id == _RUN_ID, events.c.call_id == bindparam("call_id"), events.c.seq > bindparam("after_seq"))
    .order_by(events.c.seq)
    .limit(EVENT_PAGE + 1),
    EventRow,
)
"""The events of one call of a run, whose chain has those of the others too."""
PENDING_OF_RUN: Sql[ApprovalRow] = Sql(
    select(*[approvals.c[name] for name in ApprovalRow._fields])
    .select_from(calls.join(approvals, approvals.c.approval_id == calls.c.approval_id))
    .where(
        calls.c.run_id == _RUN_ID,
        calls.c.step.is_not(None),
        calls.c.state == CallState.AWAITING_APPROVAL.value,
        approvals.c.state == "pending",
    )
    .distinct()
    .order_by(approvals.c.requested_at),
    ApprovalRow,
)


def glance(run_id: str) -> Fact[Glance | None]:
    """A run's row now; None if there is none."""
    run = yield from get_run(run_id)
    if run is None:
        return None
    return Glance(run, (yield from one(HAS_WAKE, run_id=run_id)) is not None)


def steps_and_undos(run_id: str) -> Fact[list[CallRow]]:
    """The calls of a run's steps, then those that undo them."""
    return [*(yield from calls_of(run_id)), *(yield from undo_calls(run_id))]


def pending_of(run_id: str) -> Fact[list[ApprovalRow]]:
    """The undecided proposals of a run, the oldest first."""
    return (yield from fetch(PENDING_OF_RUN, run_id=run_id))


def snapshot(run_id: str, *, outputs: bool = True) -> Fact[Snapshot | None]:
    """A run with its calls and all that belongs to them, its chain checked first; None if there is none.

    Raises:
        DamagedChainError: its record is damaged: nothing is to be said about it.
    """
    yield from sound(run_id)
    run = yield from get_run(run_id)
    if run is None:
        return None
    found, notes = (yield from calls_of(run_id)), (yield from steps_of(run_id))
    reused = yield from reused_calls(run_id, notes)
    payloads_ = (yield from fetch(OUTPUTS, run_id=run_id)) if outputs else []
    payloads_ += (yield from fetch(REUSED_OUTPUTS, run_id=run_id)) if outputs and reused else []
    return Snapshot(
        run,
        found,
        notes,
        (yield from pending_of(run_id)),
        (yield from usage(run_id)),
        {row.payload_id: row for row in payloads_},
        None if run.waits_for is None else (yield from get_call(run.waits_for)),
        (yield from undo_calls(run_id)) if run.verdict is not None else (),
        (yield from undo_notes(run_id)) if run.verdict is not None else (),
        reused,
    )
