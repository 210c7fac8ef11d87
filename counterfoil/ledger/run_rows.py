"""Runs, plans and steps as values, and the one way in which a run's chain grows.

A run and its calls share one chain, whose end the run's row names. Every change of the run, and every event of one of
its calls, goes through `touch_run` or `extend`: the event, and the row under compare-and-set on `version`. What each
change means is said in `runs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, bindparam, insert, literal, select, update

from ..canonical import JsonObject
from .chain import INSERT_EVENT, Head, following
from .errors import DamagedChainError
from .events import EventType
from .sql import Fact, Sql, change, one
from .tables import events, outbox, runs

WAKE: Final = "wake"
WHOLE: Final = -1
"""The `item` of a step itself, beside those of its items."""


class PlanRow(NamedTuple):
    """One row of `plans`; the columns are described in `tables`."""

    plan_id: str
    tenant: str
    subject: str
    client: str
    goal: str
    digest: str
    payload: str
    steps: int
    created_at: int


class RunRow(NamedTuple):
    """One row of `runs`; the columns are described in `tables`."""

    run_id: str
    plan_id: str
    tenant: str
    subject: str
    client: str
    scopes: str
    claimed: str
    goal: str
    plan_digest: str
    input_digest: str
    input_payload: str
    request_key: str
    grant_expires_at: int
    created_at: int
    updated_at: int
    status: str = "queued"
    reason: str | None = None
    code: str | None = None
    message: str | None = None
    due_at: int | None = None
    waits_for: str | None = None
    owner_id: str | None = None
    wakes: int = 0
    deadline_at: int | None = None
    paused_at: int | None = None
    stopped_at: int | None = None
    cancel_requested_at: int | None = None
    cancel_requested_by: str | None = None
    cancel_reason: str | None = None
    compensation: str = "none"
    started_at: int | None = None
    finished_at: int | None = None
    parent_run_id: str | None = None
    from_step: str | None = None
    trace_id: str | None = None
    proof: str | None = None
    verdict: str | None = None
    stood_still: int = 0
    version: int = 0
    seq: int = 0
    head: bytes = b""


class StepRow(NamedTuple):
    """One row of `steps`: what no call says about a step or, with an `item` of 0 or more, about one of its items."""

    run_id: str
    step: str
    item: int
    state: str
    at: int
    outcome: str | None = None
    code: str | None = None
    message: str | None = None
    details: str | None = None
    reason: str | None = None
    items: int | None = None
    reused: str | None = None


class Overtaken(NamedTuple):
    """A run that is forked has changed since it was looked at: it is to be looked at again."""

    run_id: str


class Standing(NamedTuple):
    """What a call of a run must know of it: who drives it, whether it may send, and where the chain ends.

    `last_at` is the time of the last event, None where the chain does not end as the row says; `beyond` is set where
    it goes on after that.
    """

    tenant: str
    version: int
    seq: int
    head: bytes
    owner_id: str | None
    finished_at: int | None
    cancel_requested_at: int | None
    stopped_at: int | None
    deadline_at: int | None
    paused_at: int | None
    created_at: int
    stood_still: int
    grant_expires_at: int
    compensation: str
    verdict: str | None
    last_at: int | None
    beyond: int | None


_last, _next = events.alias("last"), events.alias("next")
_OF = runs.c.run_id == bindparam("of", type_=runs.c.run_id.type)
SELECT_RUN: Sql[RunRow] = Sql(select(*[runs.c[name] for name in RunRow._fields]).where(_OF).with_for_update(), RunRow)
SELECT_STANDING: Sql[Standing] = Sql(
    select(*[runs.c[name] for name in Standing._fields[:-2]], _last.c.at, _next.c.seq)
    .select_from(
        runs.outerjoin(
            _last, and_(_last.c.run_id == runs.c.run_id, _last.c.seq == runs.c.seq, _last.c.hash == runs.c.head)
        ).outerjoin(_next, and_(_next.c.run_id == runs.c.run_id, _next.c.seq == runs.c.seq + 1))
    )
    .where(_OF),
    Standing,
)
POST: Sql[Any] = Sql(insert(outbox).values(topic=WAKE, run_id=bindparam("run_id"), at=bindparam("at")))
POST_TO_WAITING: Sql[Any] = Sql(
    insert(outbox).from_select(
        ["topic", "run_id", "at"],
        select(literal(WAKE), runs.c.run_id, bindparam("at", type_=outbox.c.at.type)).where(
            runs.c.waits_for == bindparam("call_id", type_=runs.c.waits_for.type)
        ),
    )
)


@cache
def _update_run(*columns: str) -> Sql[Any]:
    return Sql(
        update(runs).where(_OF, runs.c.version == bindparam("was")).values({name: bindparam(name) for name in columns})
    )


_EXTEND = _update_run("seq", "head", "updated_at", "version")


def get_run(run_id: str) -> Fact[RunRow | None]:
    """A run's row, locked for this transaction where the database locks rows."""
    return (yield from one(SELECT_RUN, of=run_id))


def changed_since(versions: Mapping[str, int]) -> Fact[str | None]:
    """The first of these runs that is at another version."""
    for run_id, version in versions.items():
        found = yield from get_run(run_id)
        if found is None or found.version != version:
            return run_id
    return None


def standing(run_id: str) -> Fact[Standing]:
    """How a run stands, for one of its calls.

    Raises:
        DamagedChainError: its row is missing, or its chain does not end where the row says.
    """
    found = yield from one(SELECT_STANDING, of=run_id)
    if found is None:
        raise DamagedChainError(run_id, 0, "the run's row is missing")
    if found.seq and found.last_at is None:
        raise DamagedChainError(run_id, found.seq, "the last event that the run names is missing or another one")
    if found.beyond is not None:
        raise DamagedChainError(run_id, found.beyond, "the last event is not the one that the run names")
    return found


def chained(
    run_id: str, call_id: str | None, event: EventType, at: int, data: JsonObject, stands: Standing
) -> tuple[Head, dict[str, Any]]:
    """The next event of a run's chain, and the head after it; `stands` was read in this transaction."""
    last = Head(run_id, stands.seq, stands.head)
    return following(last, stands.tenant, call_id, event, max(at, stands.last_at or 0), data)


def extend(stands: Standing, head: Head, entry: dict[str, Any]) -> Fact[None]:
    """Add an event of one of its calls to a run's chain."""
    yield from change(
        _EXTEND, of=head.run_id, was=stands.version, version=stands.version + 1, seq=head.seq, head=head.hash,
        updated_at=head.at,
    )  # fmt: skip
    yield INSERT_EVENT, entry


def touch_run(run: RunRow, event: EventType, at: int, data: JsonObject, **changes: Any) -> Fact[RunRow]:  # noqa: ANN401 (columns)
    """Change a run, with its event. The row was read in this transaction; its new form is returned."""
    stands = yield from standing(run.run_id)
    assert stands.version == run.version, f"{run.run_id} was read in another transaction"
    head, entry = chained(run.run_id, None, event, at, data, stands)
    written = {**changes, "version": run.version + 1, "seq": head.seq, "head": head.hash, "updated_at": head.at}
    yield from change(_update_run(*written), of=run.run_id, was=run.version, **written)
    yield INSERT_EVENT, entry
    return run._replace(**written)


def post(run_id: str, at: int) -> Fact[None]:
    """Have whoever drives runs look at this one."""
    yield from change(POST, run_id=run_id, at=at)
