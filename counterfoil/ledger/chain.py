"""The hash chain of a run: what an event's body is, how it is linked to the one before, and the step that adds one.

    hash = SHA-256(0x00 || prev || body)        first prev = SHA-256(run id)

The body is canonical JSON and holds everything that the row's columns say, so the hash covers them. Only additions
are here; whole chains are checked in `verify`.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, bindparam, case, desc, select

from ..canonical import JsonObject, canonical
from .errors import DamagedChainError
from .events import EventType
from .sql import Fact, Sql, fetch, one
from .storable import storable
from .tables import events

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Event(NamedTuple):
    """A row of the events table."""

    run_id: str
    seq: int
    call_id: str | None
    tenant: str
    type: str
    at: int
    body: str
    prev: bytes
    hash: bytes


class Head(NamedTuple):
    """The end of a chain: its last `seq` (0: none yet) and hash. `at` is the last event's time, None if not known."""

    run_id: str
    seq: int
    hash: bytes
    at: int | None = None

    @classmethod
    def new(cls, run_id: str) -> Head:
        """The head of a chain that has no event yet."""
        return cls(run_id, 0, first_prev(run_id), 0)


class _Last(NamedTuple):
    seq: int
    at: int
    hash: bytes


COLUMNS: Final = (
    events.c.run_id, events.c.seq, events.c.call_id, events.c.tenant, events.c.type,
    events.c.at, events.c.body, events.c.prev, events.c.hash,
)  # fmt: skip
INSERT_EVENT = Sql(events.insert().values({column.name: bindparam(column.name) for column in COLUMNS}))
SELECT_LAST = Sql(
    select(events.c.seq, events.c.at, events.c.hash)
    .where(events.c.run_id == bindparam("run", type_=events.c.run_id.type))
    .order_by(desc(events.c.seq))
    .limit(1),
    _Last,
)
ENDS_THERE = select(
    case((and_(events.c.seq == bindparam("last_seq"), events.c.at <= bindparam("no_later")), events.c.hash))
).where(events.c.run_id == bindparam("chain")).order_by(desc(events.c.seq)).limit(1).scalar_subquery() == bindparam(
    "last_hash", type_=events.c.hash.type
)
"""Holds where the chain's last event is the one that a head names, and no later than the one that is to follow."""
SELECT_FROM = Sql(
    select(events.c.seq, events.c.at, events.c.hash).where(
        events.c.run_id == bindparam("run", type_=events.c.run_id.type),
        events.c.seq >= bindparam("since", type_=events.c.seq.type),
    ),
    _Last,
)


def first_prev(run_id: str) -> bytes:
    """What the first event of a run is linked to."""
    return hashlib.sha256(run_id.encode(errors="surrogatepass")).digest()


def link(prev: bytes, body: bytes) -> bytes:
    """The hash of an event."""
    return hashlib.sha256(b"\0" + prev + body).digest()


def rfc3339(at: int) -> str:
    """Microseconds since 1970 as RFC 3339 in UTC, nothing lost."""
    seconds, micros = divmod(at, 1_000_000)
    return f"{_second(seconds)}.{micros:06d}Z"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def body_of(
    head: Head,
    *,
    tenant: str,
    call_id: str | None,
    type: EventType,  # noqa: A002 (the column's name)
    at: int,
    data: JsonObject,
) -> str:
    """The body of the event that follows `head`: canonical JSON, put together by hand but for the data."""
    try:
        inner = canonical(data).decode()
    except (ValueError, TypeError, RecursionError):  # content can never keep an event from being stored
        inner = canonical(storable(data)).decode()
    call = "null" if call_id is None else _quoted(call_id)
    return (
        f'{{"at":"{rfc3339(at)}","call_id":{call},"data":{inner},"run_id":{_quoted(head.run_id)},'
        f'"seq":{head.seq + 1},"tenant":{_quoted(tenant)},"type":"{type.value}"}}'
    )


def _quoted(text: str) -> str:
    return encode_basestring(text)  # an id: a column holds it too, and text that UTF-8 has not could not be stored


def append(
    head: Head,
    *,
    tenant: str,
    call_id: str | None,
    type: EventType,  # noqa: A002 (the column's name)
    at: int,
    data: JsonObject,
) -> Fact[Head]:
    """Add one event and give the new head. Its time never lies before the last one's, whatever the clock did.

    Raises:
        DamagedChainError: the chain does not end where `head` says; nothing was changed.
    """
    last = (yield from check_last(head)) if head.at is None else head.at
    new, row = following(head, tenant, call_id, type, max(at, last), data)
    yield INSERT_EVENT, row
    return new


def following(
    head: Head, tenant: str, call_id: str | None, kind: EventType, at: int, data: JsonObject
) -> tuple[Head, dict[str, Any]]:
    """The head after one more event, and the row of that event for `INSERT_EVENT`.

    Its bytes are bytearrays: the driver binds those as they are, and looks for an adapter of bytes each time.
    """
    body = body_of(head, tenant=tenant, call_id=call_id, type=kind, at=at, data=data)
    new = Head(head.run_id, head.seq + 1, link(head.hash, body.encode()), at)
    return new, {
        "run_id": new.run_id, "seq": new.seq, "call_id": call_id, "tenant": tenant, "type": kind.value,
        "at": at, "body": body, "prev": bytearray(head.hash), "hash": bytearray(new.hash),
    }  # fmt: skip


def head_of(run_id: str) -> Fact[Head]:
    """The head of a run as its events have it."""
    last = yield from one(SELECT_LAST, run=run_id)
    return Head.new(run_id) if last is None else Head(run_id, last.seq, last.hash, last.at)


def check_last(head: Head) -> Fact[int]:
    """The time of the last event of a chain that ends where `head` says, 0 if there is none yet.

    Raises:
        DamagedChainError: it does not end there.
    """
    found = yield from fetch(SELECT_FROM, run=head.run_id, since=head.seq)
    if head.seq == 0 and not found:
        return 0
    if not found or found[0].seq != head.seq:
        raise DamagedChainError(head.run_id, head.seq, "the last event is missing")
    if len(found) > 1 or found[0].hash != head.hash:
        raise DamagedChainError(head.run_id, found[-1].seq, "the last event is not the one that the state names")
    return found[0].at
