"""What stands in the way of a call: the answers that a first record may get instead of being made.

Each is a value; the fact that returns one has changed nothing. Duplicates, keys, unresolved neighbours and held
resources are looked up here, inside the transaction that would otherwise dispatch or propose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, exists, insert, or_, select

from .rows import (
    EXPIRE_KEYS,
    IS_JOINABLE,
    SAME_TOOL,
    SELECT_JOINABLE,
    SELECT_KEY,
    SELECT_WAITING,
    WAITING,
    CallRow,
    KeyRow,
    get_call,
)
from .run_rows import Standing, standing
from .sealing import Sealed, columns
from .sql import Fact, Sql, add, change, fetch, one
from .states import ENDED, UNRESOLVED, CallState
from .tables import holds, keys, leases, owners, payloads

SHARED = "shared:"


class Relation(StrEnum):
    """How a request relates to the call that it duplicates."""

    REPLAY = "replay"  # the same request; its recorded outcome is the answer
    JOIN = "join"  # a waiting or undelivered call of which this is the same intent
    IN_PROGRESS = "in_progress"  # the same key, still under way
    CONFLICT = "conflict"  # the same key for something else, or a key past its retention
    AGAIN = "again"  # the same key, and nothing of the first attempt ever left: it may be attempted again


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Another call that this request is, or collides with."""

    relation: Relation
    row: CallRow


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A call whose outcome nobody knows yet keeps this one from being sent."""

    row: CallRow
    resource: str | None


@dataclass(frozen=True, slots=True)
class Busy:
    """A healthy call holds one of the resources; waiting helps."""

    row: CallRow
    resource: str


@dataclass(frozen=True, slots=True)
class Held:
    """An operator keeps it from being sent until the hold is released."""

    kind: str
    name: str
    by: str
    reason: str
    at: int


@dataclass(frozen=True, slots=True)
class GrantLapsed:
    """What it was asked under is good no more, since then, until its subject renews it."""

    since: int


@dataclass(frozen=True, slots=True)
class OwnerLapsed:
    """The process stood still so long that another one declared its lease lapsed: it must register anew."""


@dataclass(frozen=True, slots=True)
class RunSaysNo:
    """The run of a step does not let it be sent: it is driven elsewhere, or a person or a time has said so.

    `why` is moved, cancelled, stopped, deadline, budget or authority.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What the duplicate rules of design section 6 need to know of a request."""

    tenant: str
    subject: str
    tool: str
    args_digest: str
    key: str | None
    is_read: bool
    direct: bool
    now: int
    window: int  # microseconds for which an undelivered settled call is joined
    run_id: str | None = None  # of a step: what is unresolved in its own run does not hold it up


class LeaseRow(NamedTuple):
    """Who holds a resource."""

    call_id: str
    shared: int


SELECT_LEASES: Sql[LeaseRow] = Sql(
    select(leases.c.call_id, leases.c.shared).where(
        and_(leases.c.tenant == bindparam("tenant"), leases.c.resource == bindparam("resource"))
    ),
    LeaseRow,
)
INSERT_LEASE: Sql[Any] = Sql(
    insert(leases).values({name: bindparam(name) for name in ("tenant", "resource", "call_id", "shared", "taken_at")})
)


class OwnerRow(NamedTuple):
    """Whether an owner may still act."""

    lapsed_at: int | None
    ended_at: int | None


SELECT_OWNER: Sql[OwnerRow] = Sql(
    select(owners.c.lapsed_at, owners.c.ended_at).where(owners.c.owner_id == bindparam("owner_id")), OwnerRow
)


class Surroundings(NamedTuple):
    """Whether an owner may act, and whether anything but a resource might stand in the way of a request (0 or 1)."""

    owner_lives: int
    near: int


_OWNER_LIVES = exists().where(
    owners.c.owner_id == bindparam("owner_id"), owners.c.lapsed_at.is_(None), owners.c.ended_at.is_(None)
)
_NEAR = or_(
    exists().where(holds.c.at.is_not(None)),  # of anything: which one is asked apart, since there are hardly ever any
    exists().where(*SAME_TOOL, WAITING),
    exists().where(*SAME_TOOL, *IS_JOINABLE),
    exists().where(
        keys.c.tenant == bindparam("tenant"),
        keys.c.subject == bindparam("subject"),
        keys.c.tool == bindparam("tool"),
        keys.c.key == bindparam("key"),
    ),
)
SELECT_SURROUNDINGS: Sql[Surroundings] = Sql(
    select(_OWNER_LIVES.label("owner_lives"), _NEAR.label("near")), Surroundings
)
STORE_IF_CLEAR: Sql[Any] = Sql(
    insert(payloads).from_select(
        [column.name for column in payloads.columns],
        select(*(bindparam(column.name, type_=column.type) for column in payloads.columns)).where(_OWNER_LIVES, ~_NEAR),
    )
)


def store_if_clear(owner_id: str, who: Neighbours, arguments: Sealed) -> Fact[bool]:
    """Store the arguments of a request, in one statement that looks around first; False if it stored nothing.

    Then the owner may not act, something is near, or they have more than one chunk: others ask.
    """
    if len(arguments.chunks) > 1:
        return False
    stored = yield from change(
        STORE_IF_CLEAR,
        **columns(arguments),
        owner_id=owner_id, subject=who.subject, tool=who.tool, args_digest=who.args_digest, key=who.key,
    )  # fmt: skip
    return stored == 1


def look_around(owner_id: str, who: Neighbours) -> Fact[Surroundings]:
    """Whether the owner may act, and whether anything is near. What it is that is near, others ask."""
    found = yield from one(
        SELECT_SURROUNDINGS,
        owner_id=owner_id, tenant=who.tenant, subject=who.subject, tool=who.tool,
        args_digest=who.args_digest, key=who.key,
    )  # fmt: skip
    assert found is not None
    return found


def owner_lives(owner_id: str) -> Fact[bool]:
    """True unless a watcher declared this owner lapsed, or it ended."""
    row = yield from one(SELECT_OWNER, owner_id=owner_id)
    return row is not None and row.lapsed_at is None and row.ended_at is None


def find_bound(row: CallRow) -> Fact[CallRow | None]:
    """The other call that this one's key came to belong to while it waited."""
    if row.key is None:
        return None
    bound = yield from one(SELECT_KEY, tenant=row.tenant, subject=row.subject, tool=row.tool, key=row.key)
    return None if bound is None or bound.call_id == row.call_id else (yield from get_call(bound.call_id))


def find_duplicate(who: Neighbours) -> Fact[Duplicate | None]:
    """The call that this request repeats, by key, by identity with a waiting call, or by a lost answer."""
    if who.key is not None:
        bound = yield from one(SELECT_KEY, tenant=who.tenant, subject=who.subject, tool=who.tool, key=who.key)
        if bound is not None:
            return (yield from _by_key(bound, who))
    if who.is_read or not who.direct:
        return None
    return (yield from _among_waiting(who)) or (yield from _among_undelivered(who))


def _among_waiting(who: Neighbours) -> Fact[Duplicate | None]:
    waiting = yield from fetch(SELECT_WAITING, tenant=who.tenant, subject=who.subject, tool=who.tool)
    for row in waiting:
        if row.route != "direct" or row.args_digest != who.args_digest:
            continue
        same_key = row.key is not None and row.key == who.key
        if row.state == CallState.AWAITING_APPROVAL and (row.key is None or who.key is None or same_key):
            return Duplicate(Relation.JOIN, row)
        if row.state == CallState.QUEUED and same_key:
            return Duplicate(Relation.IN_PROGRESS, row)
    return None


def _among_undelivered(who: Neighbours) -> Fact[Duplicate | None]:
    if who.key is not None:
        return None
    same = yield from fetch(
        SELECT_JOINABLE, tenant=who.tenant, subject=who.subject, tool=who.tool, args_digest=who.args_digest
    )
    for row in same:
        if row.settled_at is None or row.settled_at > who.now - who.window:
            return Duplicate(Relation.JOIN, row)
    return None


def _by_key(bound: KeyRow, who: Neighbours) -> Fact[Duplicate | None]:
    row = yield from get_call(bound.call_id)
    assert row is not None, f"key of {bound.call_id} without its call"
    expired = bound.expires_at is not None and bound.expires_at <= who.now
    if expired or bound.args_digest != who.args_digest:
        return Duplicate(Relation.CONFLICT, row)
    if row.state == CallState.AWAITING_APPROVAL:
        return Duplicate(Relation.JOIN, row)
    if row.state == CallState.SETTLED and row.outcome == "retryable_failure" and row.sent == "no":
        return Duplicate(Relation.AGAIN, row)
    if row.state in ENDED or row.state in UNRESOLVED:
        return Duplicate(Relation.REPLAY, row)
    return Duplicate(Relation.IN_PROGRESS, row)


def run_says(row: CallRow, owner_id: str, at: int, run_time: int | None = None) -> Fact[RunSaysNo | None]:
    """Whether the run of a step lets it be sent, or proposed, by this owner; None if it does, or there is no run.

    `run_time` is how long the run may take by its budget, in microseconds.
    """
    return says_no((yield from standing(row.run_id)), row, owner_id, at, run_time) if row.in_run else None


def says_no(run: Standing, row: CallRow, owner_id: str, at: int, run_time: int | None = None) -> RunSaysNo | None:
    """The same of a run that was read already."""
    if run.owner_id != owner_id or run.finished_at is not None:
        return RunSaysNo("moved")
    if run.cancel_requested_at is not None:
        return RunSaysNo("cancelled")
    if run.stopped_at is not None and not row.is_read:
        return RunSaysNo("stopped")
    if run.verdict is None:  # undos are beyond both
        if run.deadline_at is not None and at >= run.deadline_at:
            return RunSaysNo("deadline")
        if run_time is not None and at - run.created_at - run.stood_still >= run_time:
            return RunSaysNo("budget")
    return RunSaysNo("authority") if at >= run.grant_expires_at else None


def find_unresolved_sibling(who: Neighbours, *, mine: str | None = None) -> Fact[Unresolved | None]:
    """For a non-read tool without resources: an unresolved call of the same tool by the same principal.

    One of the same run does not count.
    """
    waiting = yield from fetch(SELECT_WAITING, tenant=who.tenant, subject=who.subject, tool=who.tool)
    for row in waiting:
        if row.is_unresolved and row.call_id != mine and row.run_id != who.run_id:
            return Unresolved(row, None)
    return None


def find_holder(tenant: str, keys: Sequence[str], *, mine: str | None = None) -> Fact[Unresolved | Busy | None]:
    """Whoever holds one of these resources in a way that excludes us; an unresolved holder is told first."""
    busy: Busy | None = None
    for key in keys:
        shared, resource = key.startswith(SHARED), key.removeprefix(SHARED)
        held = yield from fetch(SELECT_LEASES, tenant=tenant, resource=resource)
        for lease in held:
            if lease.call_id == mine or (shared and lease.shared):
                continue
            row = yield from get_call(lease.call_id)
            assert row is not None, f"lease of {lease.call_id} without its call"
            if row.is_unresolved:
                return Unresolved(row, resource)
            busy = busy or Busy(row, resource)
    return busy


def take_leases(row: CallRow, at: int) -> Fact[None]:
    """Hold this call's resources until it is settled. The caller has just found them free."""
    for key in row.resource_keys:
        held = yield from fetch(SELECT_LEASES, tenant=row.tenant, resource=key.removeprefix(SHARED))
        if all(lease.call_id != row.call_id for lease in held):
            yield from change(
                INSERT_LEASE,
                tenant=row.tenant,
                resource=key.removeprefix(SHARED),
                call_id=row.call_id,
                shared=int(key.startswith(SHARED)),
                taken_at=at,
            )


def bind_key(row: CallRow, key: str, at: int) -> Fact[None]:
    """Bind an idempotency key to a call; it cannot be bound already."""
    bound = KeyRow(row.tenant, row.subject, row.tool, key, row.call_id, row.args_digest, at, None)
    yield from add(keys, bound)


def start_retention(row: CallRow, at: int) -> Fact[None]:
    """A settled call's key lives for its retention; an unknown call's never expires."""
    yield from change(EXPIRE_KEYS, of=row.call_id, expires_at=at + row.key_retention)


def keep_key(row: CallRow) -> Fact[None]:
    """A call that is under way or unknown again keeps its key, whatever its retention was."""
    yield from change(EXPIRE_KEYS, of=row.call_id, expires_at=None)
