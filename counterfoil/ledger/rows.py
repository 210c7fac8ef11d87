"""Calls, attempts and keys as values, and the statements that read and write them by primary key.

A change to a call is always the same: read the row, make its successor with `move` or `touch`, which writes the event
and the row under compare-and-set on `revision`. What each change means is said in the modules beside this one.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple, cast

from sqlalchemy import Update, bindparam, select, text, update

from ..canonical import JsonObject
from .chain import ENDS_THERE, INSERT_EVENT, Head, append, check_last, following
from .events import EventType
from .run_rows import WHOLE, Standing, chained, extend, post, standing
from .sql import Fact, Sql, add, change, one
from .states import UNRESOLVED, Move, after
from .tables import attempts, calls, keys


class StaleRowError(Exception):
    """The row changed between its reading and its writing. In one transaction that is our fault."""


class CallRow(NamedTuple):
    """One row of `calls`; the columns are described in `tables`."""

    call_id: str
    run_id: str
    route: str
    tenant: str
    subject: str
    client: str
    scopes: str
    claimed: str
    tool: str
    version: str
    schema_digest: str
    effect: str
    args_digest: str
    args_payload: str
    args_shown: str
    resources: str
    action_id: str
    key_retention: int
    created_at: int
    step: str | None = None
    item: int | None = None
    parent_call_id: str | None = None
    grant_expires_at: int | None = None
    if_version: str | None = None
    key: str | None = None
    state: str = "new"
    outcome: str | None = None
    sent: str = "no"
    code: str | None = None
    message: str | None = None
    details: str | None = None
    retryable: int = 0
    output_payload: str | None = None
    evidence: str | None = None
    attempts: int = 0
    generation: int = 0
    owner_id: str | None = None
    not_before: int | None = None
    by_decision: int = 0
    approval_id: str | None = None
    rule_id: str | None = None
    dispatched_at: int | None = None
    settled_at: int | None = None
    settled_by: str | None = None
    delivered_at: int | None = None
    request_owner: str | None = None
    cancel_requested_at: int | None = None
    cancel_requested_by: str | None = None
    cancel_reason: str | None = None
    charges: str | None = None
    proof: str | None = None
    external_until: int | None = None
    revision: int = 0
    seq: int = 0
    head: bytes = b""

    @property
    def resource_keys(self) -> list[str]:
        """The canonical keys that this call holds or will hold; shared ones keep their prefix."""
        found: list[str] = json.loads(self.resources) if self.resources != "[]" else []
        return found

    @property
    def in_run(self) -> bool:
        """True for a step of a run, whose chain it shares; a direct call, and a probe, is a run of one."""
        return self.run_id != self.call_id

    @property
    def is_read(self) -> bool:
        """True if its tool's effect is `read`."""
        return self.effect == "read"

    @property
    def is_unresolved(self) -> bool:
        """True while an effect of it may exist that nobody knows of, also while it waits to be sent again."""
        return self.state in UNRESOLVED or (self.state in {"queued", "awaiting_approval"} and self.sent == "unknown")


_TIMES = frozenset({"dispatched_at", "settled_at", "cancel_requested_at"})

SELECT_CALL: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields])
    .where(calls.c.call_id == bindparam("call_id", type_=calls.c.call_id.type))
    .with_for_update(),
    CallRow,
)


@cache
def update_call(*columns: str) -> Sql[Any]:
    """The compare-and-set of a call that writes these columns."""
    return Sql(
        update(calls)
        .where(calls.c.call_id == bindparam("of"), calls.c.revision == bindparam("was"))
        .values({name: bindparam(name) for name in columns})
    )


@cache
def _update_if_sound(*columns: str) -> Sql[Any]:
    """The same where the chain ends as well where the row says, no later than the event that is to follow."""
    return Sql(cast("Update", update_call(*columns).statement).where(ENDS_THERE))


class AttemptRow(NamedTuple):
    """One row of `attempts`."""

    call_id: str
    generation: int
    owner_id: str
    dispatched_at: int
    hard_deadline_at: int | None
    settled_at: int | None = None
    outcome: str | None = None
    sent: str | None = None
    handler_ended_at: int | None = None
    late: str | None = None
    late_payload: str | None = None


SELECT_ATTEMPT: Sql[AttemptRow] = Sql(
    select(*[attempts.c[name] for name in AttemptRow._fields]).where(
        attempts.c.call_id == bindparam("call_id"), attempts.c.generation == bindparam("generation")
    ),
    AttemptRow,
)
SELECT_ATTEMPTS: Sql[AttemptRow] = Sql(
    select(*[attempts.c[name] for name in AttemptRow._fields])
    .where(attempts.c.call_id == bindparam("call_id"))
    .order_by(attempts.c.generation),
    AttemptRow,
)
SETTLE_ATTEMPT: Sql[Any] = Sql(
    update(attempts)
    .where(attempts.c.call_id == bindparam("of"), attempts.c.generation == bindparam("number"))
    .values(
        settled_at=bindparam("settled_at"),
        outcome=bindparam("outcome"),
        sent=bindparam("sent"),
        handler_ended_at=bindparam("handler_ended_at"),
    )
)
END_HANDLER: Sql[Any] = Sql(
    update(attempts)
    .where(
        attempts.c.call_id == bindparam("of"),
        attempts.c.generation == bindparam("number"),
        attempts.c.handler_ended_at.is_(None),
    )
    .values(handler_ended_at=bindparam("at"))
)
KEEP_LATE: Sql[Any] = Sql(
    update(attempts)
    .where(attempts.c.call_id == bindparam("of"), attempts.c.generation == bindparam("number"))
    .values(late=bindparam("late"), late_payload=bindparam("late_payload"), handler_ended_at=bindparam("at"))
)


class KeyRow(NamedTuple):
    """One row of `keys`: what an idempotency key is bound to."""

    tenant: str
    subject: str
    tool: str
    key: str
    call_id: str
    args_digest: str
    bound_at: int
    expires_at: int | None


SELECT_KEY: Sql[KeyRow] = Sql(
    select(*[keys.c[name] for name in KeyRow._fields]).where(
        keys.c.tenant == bindparam("tenant"),
        keys.c.subject == bindparam("subject"),
        keys.c.tool == bindparam("tool"),
        keys.c.key == bindparam("key"),
    ),
    KeyRow,
)
EXPIRE_KEYS: Sql[Any] = Sql(
    update(keys).where(keys.c.call_id == bindparam("of")).values(expires_at=bindparam("expires_at"))
)

# Partial indexes serve a query only where their condition stands in it as literals, not as parameters.
SAME_TOOL = (
    calls.c.tenant == bindparam("tenant"),
    calls.c.subject == bindparam("subject"),
    calls.c.tool == bindparam("tool"),
)
JOINABLE = text("calls.delivered_at IS NULL AND calls.request_owner IS NULL AND calls.effect != 'read'")
IS_JOINABLE = (calls.c.args_digest == bindparam("args_digest"), calls.c.route == "direct", JOINABLE)
SELECT_JOINABLE: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields])
    .where(*SAME_TOOL, *IS_JOINABLE)
    .order_by(calls.c.created_at.desc()),
    CallRow,
)
WAITING = text(
    "(calls.state = 'awaiting_approval' OR calls.state = 'queued'"
    " OR calls.state = 'awaiting_external' OR calls.state = 'awaiting_reconciliation')"
)
SELECT_WAITING: Sql[CallRow] = Sql(
    select(*[calls.c[name] for name in CallRow._fields]).where(*SAME_TOOL, WAITING).order_by(calls.c.created_at),
    CallRow,
)


def move(row: CallRow, by: Move, event: EventType, at: int, data: JsonObject, **changes: Any) -> Fact[CallRow]:  # noqa: ANN401 (columns)
    """Take a call through one legal move: its event and its new row. Returns the new row."""
    return (yield from touch(row, event, at, data, state=after(row.state, by).value, **changes))


def touch(row: CallRow, event: EventType, at: int, data: JsonObject, **changes: Any) -> Fact[CallRow]:  # noqa: ANN401 (columns)
    """Change a call without a move, with its event. No time of the row lies before the event's, whatever the clock did.

    The statement that changes the row looks at the last event too; only if it changes nothing is it asked why.

    Raises:
        StaleRowError: somebody changed the row after it was read; nothing was changed.
        DamagedChainError: the chain does not end where the row says; nothing was changed.
    """
    if row.in_run:
        return (yield from _touch_in_run(row, event, at, data, changes))
    old = Head(row.run_id, row.seq, row.head)
    head, entry = following(old, row.tenant, row.call_id, event, at, data)
    written = _written(row, head, at, changes)
    guards = {"of": row.call_id, "was": row.revision}
    ends = {"chain": row.run_id, "last_seq": row.seq, "last_hash": row.head, "no_later": at}
    if (yield _update_if_sound(*written), {**written, **guards, **ends}) != 1:
        at = max(at, (yield from _last_at(row, old)))
        head, entry = following(old, row.tenant, row.call_id, event, at, data)
        written = _written(row, head, at, changes)
        yield update_call(*written), {**written, **guards}
    yield INSERT_EVENT, entry
    return row._replace(**written)


_BY_ITS_DRIVER = frozenset(
    {
        EventType.DISPATCHED,
        EventType.OBSERVED,
        EventType.SETTLED,
        EventType.RETRIED,
        EventType.LOST,
        EventType.PROBED,
        EventType.STALLED,
    }
)
"""What the driver of a run learns from its own call; of anything else that happens to one it is woken."""


def _touch_in_run(row: CallRow, event: EventType, at: int, data: JsonObject, changes: dict[str, Any]) -> Fact[CallRow]:
    """The same for a step of a run: the chain is the run's, whose row names its end."""
    stands = yield from standing(row.run_id)
    at = max(at, stands.last_at or 0)
    head, entry = chained(row.run_id, row.call_id, event, at, data | place_of(row), stands)
    written = _written(row, head, at, changes)
    if (yield from change(update_call(*written), of=row.call_id, was=row.revision, **written)) != 1:
        raise StaleRowError(f"{row.call_id} is no longer at revision {row.revision}")
    yield from extend(stands, head, entry)
    owner_id = changes.get("owner_id", row.owner_id)
    tells = event not in _BY_ITS_DRIVER or stands.owner_id != owner_id
    moved = changes.get("state") in {"settled", "queued"}
    if tells and (stands.finished_at is None or (moved and _is_recounted(stands))):
        yield from post(row.run_id, at)
    return row._replace(**written)


def _is_recounted(run: Standing) -> bool:
    """True for a run that ended with something of it not undone: what becomes known later may change that."""
    return run.verdict is not None and run.compensation == "incomplete"


def _written(row: CallRow, head: Head, at: int, changes: dict[str, Any]) -> dict[str, Any]:
    written = {**changes, "revision": row.revision + 1, "seq": head.seq, "head": head.hash}
    for name in _TIMES & changes.keys():
        if changes[name] is not None:
            written[name] = max(changes[name], at)
    return written


def _last_at(row: CallRow, head: Head) -> Fact[int]:
    now = yield from get_call(row.call_id)
    if now is None or now.revision != row.revision:
        raise StaleRowError(f"{row.call_id} is no longer at revision {row.revision}")
    return (yield from check_last(head))


def place_of(row: CallRow) -> JsonObject:
    """Where in a run a call stands, for each of its events: its step and item; nothing for a direct one.

    That of an undo says which call it undoes.
    """
    if row.step is None:
        return {}
    place: JsonObject = {"step": row.step} if row.item == WHOLE else {"step": row.step, "item": row.item}
    return place | {"undoes": row.parent_call_id} if row.route == "compensation" else place


def create(
    row: CallRow,
    by: Move,
    event: EventType,
    data: JsonObject,
    run: Standing | None = None,
    **changes: Any,  # noqa: ANN401 (columns)
) -> Fact[CallRow]:
    """Write a call's first record: its first event and its row, after the given move from `new`.

    `run` is how its run stands, where this transaction has read that already.
    """
    if row.in_run:
        stands = run or (yield from standing(row.run_id))
        at = max(row.created_at, stands.last_at or 0)
        head, entry = chained(row.run_id, row.call_id, event, at, data | place_of(row), stands)
        yield from extend(stands, head, entry)
        new = row._replace(state=after(row.state, by).value, revision=1, seq=head.seq, head=head.hash, **changes)
        yield from add(calls, new)
        return new
    head = yield from append(
        Head.new(row.run_id), tenant=row.tenant, call_id=row.call_id, type=event, at=row.created_at, data=data
    )
    new = row._replace(state=after(row.state, by).value, revision=1, seq=head.seq, head=head.hash, **changes)
    yield from add(calls, new)
    return new


def get_call(call_id: str) -> Fact[CallRow | None]:
    """A call's row, locked for this transaction where the database locks rows."""
    return (yield from one(SELECT_CALL, call_id=call_id))
