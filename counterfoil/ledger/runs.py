"""What happens to a run: made, driven, parked, released, asked to stop, finished. Each is one fact with its event.

A run is driven by one owner at a time, who claimed it; everybody else posts a wake. `park` and `finish` give way to a
wake that came meanwhile, so that none is lost between the last look and the end of the driving.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, literal, select, text
from sqlalchemy.dialects.postgresql import insert

from ..canonical import JsonObject
from .admission import owner_lives
from .approvals import run_stood_still
from .chain import INSERT_EVENT, Head, following
from .events import EventType
from .rows import CallRow
from .run_rows import WAKE, WHOLE, Overtaken, PlanRow, RunRow, StepRow, changed_since, get_run, post, touch_run
from .sealing import Sealed, store
from .sql import Count, Fact, Sql, add, change, fetch, one
from .tables import calls, outbox, plans, runs, steps
from .undoing import begin_undoing, doubt, recount


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """The subject has a run under this request key already."""

    run: RunRow


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that is driven here from now on; `lost_owner` is the gone owner that it was taken from."""

    run: RunRow
    lost_owner: str | None


@dataclass(frozen=True, slots=True)
class Woken:
    """Something happened since its driver last looked: it is to look again. The run is still its own."""

    run: RunRow


@dataclass(frozen=True, slots=True)
class Reopened:
    """A call that had ended is open again: the run cannot end. It is still its driver's own."""

    run: RunRow


@dataclass(frozen=True, slots=True)
class Parked:
    """Why nothing of a run can move by itself. `pauses` is true while only people are awaited."""

    status: str
    reason: str | None = None
    message: str | None = None
    due_at: int | None = None
    waits_for: str | None = None
    pauses: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended."""

    status: str
    reason: str | None = None
    code: str | None = None
    message: str | None = None
    compensation: str = "none"


class StepChange(NamedTuple):
    """What no call says about a step (`item` -1) or one of its items; `details` is JSON, redacted."""

    step: str
    item: int
    state: str
    outcome: str | None = None
    code: str | None = None
    message: str | None = None
    details: str | None = None
    reason: str | None = None
    items: int | None = None
    reused: str | None = None


class TakeOver(NamedTuple):
    """What a fork takes over: a row for each place, and the versions of the runs whose calls these rows name."""

    places: Sequence[StepChange]
    versions: Mapping[str, int]


STEP: Final = "step"
_MINE = (runs.c.tenant == bindparam("tenant"), runs.c.subject == bindparam("subject"))
_RUN = [runs.c[name] for name in RunRow._fields]
SELECT_BY_KEY: Sql[RunRow] = Sql(select(*_RUN).where(*_MINE, runs.c.request_key == bindparam("request_key")), RunRow)
SELECT_BY_ID: Sql[RunRow] = Sql(
    select(*_RUN)
    .where(
        *_MINE,
        runs.c.plan_digest == bindparam("plan_digest"),
        runs.c.input_digest == bindparam("input_digest"),
        runs.c.request_key == runs.c.plan_id,
    )
    .order_by(runs.c.created_at)
    .limit(1),
    RunRow,
)
RECENT_RUNS: Sql[RunRow] = Sql(
    select(*_RUN).where(*_MINE).order_by(runs.c.created_at.desc()).limit(bindparam("most")),
    RunRow,
)
NEWEST_RUNS: Sql[RunRow] = Sql(select(*_RUN).order_by(runs.c.created_at.desc()).limit(bindparam("most")), RunRow)
SELECT_CALLS: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields])
    .where(calls.c.run_id == bindparam("run_id"), calls.c.step.is_not(None), calls.c.route == STEP)
    .order_by(calls.c.seq),
    CallRow,
)
OPEN_CALL: Sql[Count] = Sql(
    select(literal(1))
    .select_from(calls)
    .where(
        calls.c.run_id == bindparam("run_id"),
        calls.c.step.is_not(None),
        calls.c.route == STEP,
        text("calls.state != 'settled' AND calls.state != 'refused'"),
    )
    .limit(1),
    Count,
)
SELECT_STEPS: Sql[StepRow] = Sql(
    select(*[steps.c[name] for name in StepRow._fields]).where(steps.c.run_id == bindparam("run_id")), StepRow
)
SELECT_STEP: Sql[StepRow] = Sql(
    select(*[steps.c[name] for name in StepRow._fields]).where(
        steps.c.run_id == bindparam("run_id"), steps.c.step == bindparam("step"), steps.c.item == bindparam("item")
    ),
    StepRow,
)
_insert_step = insert(steps).values({name: bindparam(name) for name in StepRow._fields})
PUT_STEP: Sql[Any] = Sql(
    _insert_step.on_conflict_do_update(
        index_elements=[steps.c.run_id, steps.c.step, steps.c.item],
        set_={name: _insert_step.excluded[name] for name in StepRow._fields[3:]},
    )
)
TAKE_WAKES: Sql[Any] = Sql(delete(outbox).where(outbox.c.run_id == bindparam("run_id"), outbox.c.topic == WAKE))


def create_run(
    run: RunRow,
    plan: PlanRow | None,
    sealed: Sequence[Sealed],
    *,
    owner_id: str | None = None,
    fork: TakeOver | None = None,
) -> Fact[RunRow | KeyTaken | Overtaken]:
    """Make a run, driven by `owner_id` from its first moment, or by whoever takes its wake.

    `plan` is stored with it where it is new, `sealed` are the payloads of both, `fork` what it takes over.
    """
    taken = yield from one(SELECT_BY_KEY, tenant=run.tenant, subject=run.subject, request_key=run.request_key)
    if taken is not None:
        return taken if taken.run_id == run.run_id else KeyTaken(taken)
    if fork is not None and (changed := (yield from changed_since(fork.versions))) is not None:
        return Overtaken(changed)
    for payload in sealed:
        yield from store(payload)
    if plan is not None:
        yield from add(plans, plan)
    if owner_id is not None and not (yield from owner_lives(owner_id)):
        owner_id = None
    at = run.created_at
    data: JsonObject = {
        "plan_id": run.plan_id, "plan_digest": run.plan_digest, "goal": run.goal, "input_digest": run.input_digest,
        "subject": run.subject, "client": run.client, "parent_run_id": run.parent_run_id, "owner": owner_id,
    }  # fmt: skip
    head, entry = following(Head.new(run.run_id), run.tenant, None, EventType.RUN_CREATED, at, _told(data))
    entries = [entry]
    for place in fork.places if fork is not None else ():
        head, entry = following(head, run.tenant, None, EventType.STEP_REUSED, at, _told(_of_place(place)))
        entries.append(entry)
        yield PUT_STEP, StepRow(run.run_id, at=at, **place._asdict())._asdict()
    made = run._replace(version=len(entries), seq=head.seq, head=head.hash)
    if owner_id is not None:
        made = made._replace(status="running", owner_id=owner_id, wakes=1, started_at=at)
    yield from add(runs, made)
    for entry in entries:
        yield INSERT_EVENT, entry
    if owner_id is None:
        yield from post(run.run_id, at)
    return made


def find_by_key(tenant: str, subject: str, request_key: str) -> Fact[RunRow | None]:
    """The run of this subject with this request key."""
    return (yield from one(SELECT_BY_KEY, tenant=tenant, subject=subject, request_key=request_key))


def find_by_id(tenant: str, subject: str, plan_digest: str, input_digest: str) -> Fact[RunRow | None]:
    """The first run of such a plan with this effective input that was begun by the plan's id, without another key."""
    return (
        yield from one(SELECT_BY_ID, tenant=tenant, subject=subject, plan_digest=plan_digest, input_digest=input_digest)
    )


def claim_run(run_id: str, owner_id: str, at: int) -> Fact[Claimed | None]:
    """Drive a run from here on; its wakes are taken. None if it is finished, or a living owner drives it.

    A run that this owner drives already is claimed again without an event. A finished one with something not undone
    is driven again where it was woken: what was not known of it is known.
    """
    run = yield from get_run(run_id)
    if run is not None and run.finished_at is not None and (yield from change(TAKE_WAKES, run_id=run_id)):
        run = (yield from recount(run_id, at)) or run  # driven again only where an undo was queued
    if run is None or run.finished_at is not None:
        yield from change(TAKE_WAKES, run_id=run_id)
        return None
    if run.owner_id == owner_id:
        yield from change(TAKE_WAKES, run_id=run_id)
        return Claimed(run, None)
    if (run.owner_id is not None and (yield from owner_lives(run.owner_id))) or not (yield from owner_lives(owner_id)):
        return None
    yield from change(TAKE_WAKES, run_id=run_id)
    stood_still = 0 if run.paused_at is None else max(0, at - run.paused_at)
    data: JsonObject = {"owner": owner_id, "wake": run.wakes + 1}
    if run.owner_id is not None:
        data["from"] = run.owner_id
    claimed = yield from touch_run(
        run, EventType.RUN_CLAIMED, at, data,
        status="running", reason=None, message=None, due_at=None, waits_for=None, owner_id=owner_id,
        wakes=run.wakes + 1, started_at=run.started_at or at, paused_at=None, stood_still=run.stood_still + stood_still,
        deadline_at=None if run.deadline_at is None else run.deadline_at + stood_still,
    )  # fmt: skip
    return Claimed(claimed, run.owner_id)


def note_steps(run_id: str, owner_id: str, changes: Sequence[StepChange], at: int) -> Fact[RunRow | None]:
    """Record what no call says of some steps; None if the run is no longer driven by this owner."""
    run = yield from _mine(run_id, owner_id)
    if run is None:
        return None
    for step in changes:
        row = StepRow(run_id, at=at, **step._asdict())
        before = yield from one(SELECT_STEP, run_id=run_id, step=step.step, item=step.item)
        if before is not None and before.reused is not None:
            row = row._replace(reused=before.reused)  # however it ends here: what the earlier call did stands
        if before is not None and before._replace(at=at) == row:
            continue  # the answer to its commit was lost, and it comes again
        event = EventType.STEP_EXPANDED if step.items is not None else EventType.STEP_ENDED
        run = yield from touch_run(run, event, at, _told(_of_place(step)))
        yield PUT_STEP, row._asdict()
    return run


def park(run_id: str, owner_id: str, why: Parked, at: int) -> Fact[RunRow | Woken | None]:
    """Stop driving a run of which nothing can move by itself; None if this owner does not drive it."""
    run = yield from _mine(run_id, owner_id)
    if run is None:
        return None
    if (yield from change(TAKE_WAKES, run_id=run_id)):
        return Woken(run)
    return (
        yield from touch_run(
            run, EventType.RUN_PARKED, at, _told(asdict(why)),
            status=why.status, reason=why.reason, message=why.message, due_at=why.due_at, waits_for=why.waits_for,
            owner_id=None, paused_at=at if why.pauses else None,
        )
    )  # fmt: skip


def finish(run_id: str, owner_id: str, end: Finished, at: int) -> Fact[RunRow | Woken | Reopened | None]:
    """The end of a run; None if this owner does not drive it."""
    run = yield from _mine(run_id, owner_id)
    if run is None:
        return None
    if (yield from change(TAKE_WAKES, run_id=run_id)):
        return Woken(run)
    verdict: JsonObject | None = None if run.verdict is None else json.loads(run.verdict)
    if not (verdict and "ended_at" in verdict) and (yield from one(OPEN_CALL, run_id=run_id)) is not None:
        return Reopened(run)
    stored = None if verdict is None else json.dumps({"ended_at": at} | {**verdict, "asked": False})
    return (
        yield from touch_run(
            run, EventType.RUN_FINISHED, at, _told(asdict(end)),
            **asdict(end), due_at=None, waits_for=None, owner_id=None, finished_at=at, verdict=stored,
        )
    )  # fmt: skip


def compensate(
    run_id: str, owner_id: str, end: Finished, doubtful: Sequence[str], at: int
) -> Fact[RunRow | Woken | None]:
    """A run that has failed goes on to undo its effects; `end` is how it ends after that. None as for `finish`.

    `doubtful` are its failed calls of which nobody knows whether they had an effect: they are unresolved from here on.
    """
    run = yield from _mine(run_id, owner_id)
    if run is None:
        return None
    if (yield from change(TAKE_WAKES, run_id=run_id)):
        return Woken(run)
    verdict: JsonObject = {"status": end.status, "reason": end.reason, "code": end.code, "message": end.message}
    begun = yield from begin_undoing(run, verdict, at)
    yield from doubt(doubtful, begun.updated_at)
    return (yield from get_run(run_id))


def release_run(run_id: str, owner_id: str, at: int) -> Fact[RunRow | None]:
    """An orderly stop of its driver: any server goes on with it."""
    run = yield from _mine(run_id, owner_id)
    if run is None:
        return None
    yield from post(run_id, at)
    return (yield from touch_run(run, EventType.RUN_RELEASED, at, {"owner": owner_id}, status="queued", owner_id=None))


def ask_cancel(run_id: str, by: str, reason: str, at: int) -> Fact[RunRow | None]:
    """Ask a run to stop for good, once. The row, unchanged where it is finished or was asked before."""
    run = yield from get_run(run_id)
    if run is None or run.finished_at is not None or run.cancel_requested_at is not None:
        return run
    yield from post(run_id, at)
    return (
        yield from touch_run(
            run, EventType.RUN_CANCEL_REQUESTED, at, {"by": by, "reason": reason},
            cancel_requested_at=at, cancel_requested_by=by, cancel_reason=reason,
        )
    )  # fmt: skip


def ask_stop(run_id: str, by: str, at: int) -> Fact[RunRow | None]:
    """No further non-read step of a run until it is taken up."""
    run = yield from get_run(run_id)
    if run is None or run.finished_at is not None or run.stopped_at is not None:
        return run
    yield from post(run_id, at)
    return (yield from touch_run(run, EventType.RUN_STOPPED, at, {"by": by}, stopped_at=at))


def take_up(run_id: str, *, by: str, scopes: str, grant_expires_at: int, at: int) -> Fact[RunRow | None]:
    """Its subject has a parked run go on: with the scopes of now, until then.

    The row, unchanged where it is finished, or where it goes on anyhow under a grant that is still good.
    """
    run = yield from get_run(run_id)
    if run is None or run.finished_at is not None:
        return run
    if run.owner_id is not None and run.stopped_at is None and at < run.grant_expires_at:
        return run
    if at >= run.grant_expires_at:
        yield from run_stood_still(run_id, run.grant_expires_at)
    yield from post(run_id, at)
    return (
        yield from touch_run(
            run, EventType.RUN_TAKEN_UP, at, {"by": by, "grant_expires_at": grant_expires_at},
            scopes=scopes, grant_expires_at=grant_expires_at, stopped_at=None,
        )
    )  # fmt: skip


def calls_of(run_id: str) -> Fact[list[CallRow]]:
    """The calls of a run's steps, in the order of their last events."""
    return (yield from fetch(SELECT_CALLS, run_id=run_id))


def steps_of(run_id: str) -> Fact[list[StepRow]]:
    """What no call says of a run's steps."""
    return (yield from fetch(SELECT_STEPS, run_id=run_id))


def _of_place(change: StepChange) -> JsonObject:
    return change._asdict() | {"details": None, "item": None if change.item == WHOLE else change.item}


def _told(data: JsonObject) -> JsonObject:
    return {name: value for name, value in data.items() if value is not None}


def _mine(run_id: str, owner_id: str) -> Fact[RunRow | None]:
    run = yield from get_run(run_id)
    return run if run is not None and run.owner_id == owner_id and run.finished_at is None else None
