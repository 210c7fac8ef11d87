"""The ledger as the rest of the program sees it: record facts, read, seal and open payloads, say how it is.

Opens in this order: is the place safe, is the file ours and current, are the keys here, and only then the owner is
entered. Any of these fails with its own error and leaves no thread behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from ..canonical import JsonValue
from . import keyring, migrations, owners, place, redact, sealing
from .checkpoint import LogLimits
from .errors import CannotRecordError, LedgerLockedError, Reason, UnsupportedLedgerError
from .presence import Presence
from .reads import Reads
from .sql import Fact
from .verify import sound
from .writer import Writer, WriterOptions

T = TypeVar("T")
OPENED_HERE: Final = 64 * 1024
"""Bytes of a payload that the caller's own thread opens: it takes less than 0.1 ms."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSettings:
    """Where the ledger lies and how it behaves.

    `url` or `path` names it, a relative one from `base`. `clock` gives microseconds since 1970 in UTC. `on_lost` is
    told the errors of facts that nobody waits for, from any thread.
    """

    clock: Callable[[], int]
    url: str | None = None
    path: Path | None = None
    base: Path = field(default_factory=Path)
    durability: migrations.Durability = "full"
    lease_s: float = 30.0
    payload_keys: Sequence[keyring.Secret] = ()
    approval_keys: Sequence[keyring.Secret] = ()
    busy_s: float = 5.0
    log: LogLimits = field(default_factory=LogLimits)
    owner_id: str = field(default_factory=lambda: f"own_{secrets.token_hex(16)}")
    on_lost: Callable[[Exception], None] = field(default=lambda error: _log.error("a fact was not stored: %s", error))

    def file(self) -> Path:
        """The database file.

        Raises:
            UnsupportedLedgerError: neither `url` nor `path` is given, or the url cannot be served.
        """
        if self.path is not None:
            return Path(os.path.normpath(self.base.absolute() / self.path))
        if self.url is None:
            raise UnsupportedLedgerError("the ledger needs a url or a path")
        return place.locate(self.url, self.base)


@dataclass(frozen=True, slots=True)
class Health:
    """How the ledger is. `reason` is None while `state` is ok."""

    state: Literal["ok", "degraded"]
    reason: str | None
    wal_bytes: int


class Ledger:
    """See the module. `await Ledger.open(settings)`; `close` it in the loop that opened it."""

    def __init__(
        self, settings: LedgerSettings, path: Path, writer: Writer, ring: keyring.Keyring, presence: Presence
    ) -> None:
        self.path: Final = path
        self.owner_id = settings.owner_id
        self.lease_s: Final = settings.lease_s
        self.presence = presence
        self.reads: Final = Reads(path)
        self.watch: Final = owners.Watch(settings.lease_s)
        self._clock = settings.clock
        self._writer = writer
        self._ring = ring
        self._closed = False
        self._renewing = asyncio.Lock()

    @classmethod
    async def open(cls, settings: LedgerSettings) -> Ledger:
        """Open the ledger, making it if there is none, and enter this process as an owner.

        Raises:
            UnsupportedLedgerError, LedgerLockedError, NewerLedgerError, DamagedLedgerError, KeyMissingError,
            CannotRecordError: see `errors`.
        """
        path = settings.file()
        place.refuse_unsafe(path)
        rings: list[keyring.Keyring] = []
        options = WriterOptions(
            busy_s=settings.busy_s, on_lost=settings.on_lost, is_whole=migrations.is_whole, log=settings.log
        )
        writer = await Writer.open(path, lambda: _connect(settings, path, rings), options)
        try:
            presence = Presence(path, settings.owner_id)
            try:
                await _enter(settings, path, writer)
            except BaseException:
                presence.release()
                raise
        except BaseException:
            await writer.close()
            raise
        return cls(settings, path, writer, rings[0], presence)

    async def renew_owner(self, lapsed: str) -> None:
        """After the lapse of owner `lapsed` was declared: enter as a new one, once, however many found it lapsed.

        What the old one had under way stays the old one's.
        """
        async with self._renewing:
            if self.owner_id != lapsed:
                return
            old, owner_id = self.presence, f"own_{secrets.token_hex(16)}"
            presence = Presence(self.path, owner_id)
            now, host = self._clock(), socket.gethostname()
            try:
                await self._writer.record(lambda: owners.register(owner_id, host, os.getpid(), now))
            except BaseException:
                presence.release()
                raise
            self.owner_id, self.presence = owner_id, presence
            old.release()

    async def beat(self) -> bool:
        """Say that this process lives; False if its lease was declared lapsed (see `renew_owner`)."""
        owner_id, now = self.owner_id, self._clock()
        return await self._writer.record(lambda: owners.beat(owner_id, now))

    async def close(self, *, ended: bool = True) -> None:
        """Store what waits, end the owner, close every connection. May be called more than once.

        `ended` is false where a handler may still act: the owner's lock then says when the process is really gone.
        """
        if self._closed:
            return
        self._closed = True
        now = self._clock()
        try:
            if ended:
                await self._writer.record(lambda: owners.end(self.owner_id, now))
        except CannotRecordError as error:
            _log.warning("the owner's end was not recorded, a watcher will declare it: %s", error)
        finally:
            await self.reads.close()
            await self._writer.close()
            if ended:
                self.presence.release()

    def submit(self, make: Callable[[], Fact[T]]) -> asyncio.Future[T]:
        """`record` for a caller that waits later; the fact has its place in the order from now on."""
        return self._writer.submit(make)

    async def record(self, make: Callable[[], Fact[T]]) -> T:
        """Store one fact; see `Writer.record`."""
        return await self._writer.record(make)

    def record_nowait(self, make: Callable[[], Fact[Any]]) -> None:
        """Store one fact that nobody waits for; see `Writer.record_nowait`."""
        self._writer.record_nowait(make)

    def health(self) -> Health:
        """Whether the last fact could be stored and the log is small."""
        wal_bytes = self._writer.checkpointer.wal_bytes()
        reason: str | None = self._writer.failing
        if reason is None and self._writer.checkpointer.is_large():
            reason = "wal_too_large"
        return Health("ok" if reason is None else "degraded", reason, wal_bytes)

    @property
    def lost(self) -> int:
        """How many facts that nobody waited for were not stored."""
        return self._writer.lost

    def now(self) -> int:
        """The clock that was handed in: microseconds since 1970 in UTC."""
        return self._clock()

    def request_state_keys(self) -> list[bytes]:
        """What seals and opens the state that a client carries between the rounds of one request."""
        return self._ring.derived("counterfoil request state")

    def mac(self, purpose: str, data: bytes) -> str:
        """A keyed digest; see `Keyring.mac`."""
        return self._ring.mac(purpose, data)

    def mac_matches(self, purpose: str, data: bytes, digest: str) -> bool:
        """Whether this ledger made that digest; see `Keyring.mac_matches`."""
        return self._ring.mac_matches(purpose, data, digest)

    def project(
        self, value: JsonValue, sensitive: Sequence[str] = (), limit_bytes: int = redact.LIMIT_BYTES
    ) -> JsonValue:
        """The redacted form of a value, the only one that may be shown or kept outside payloads; see `redact`."""
        return redact.project(value, sensitive, limit_bytes, key=self._ring.redaction)

    def seal(self, *, payload_id: str, call_id: str, tenant: str, kind: sealing.Kind, content: bytes) -> sealing.Sealed:
        """Seal content; store it with `sealing.store` in the fact that it belongs to."""
        return sealing.seal(
            self._ring,
            payload_id=payload_id, call_id=call_id, tenant=tenant, kind=kind, content=content, now=self._clock(),
        )  # fmt: skip

    async def store_ahead(self, sealed: sealing.Sealed) -> None:
        """Store all chunks but the first, each in its own transaction, so that the settlement stays a short one."""
        for n in range(1, len(sealed.chunks)):
            await self._writer.record(partial(sealing.store_chunk, sealed, n))

    async def describe_payload(self, payload_id: str) -> sealing.PayloadRow:
        """Size, digest, tenant and so on.

        Raises:
            NoSuchPayloadError: no payload has this id.
        """
        return await self.reads.look(lambda: sealing.describe(payload_id))

    async def open_payload(self, payload_id: str) -> bytes:
        """The whole content, exactly as it was sealed.

        Raises:
            NoSuchPayloadError, KeyMissingError, DamagedLedgerError: see `errors`.
        """
        row, chunks = await self.reads.look(lambda: sealing.whole(payload_id))
        return b"".join(await self._unseal(row, chunks))

    async def open_read(self, found: Sequence[tuple[sealing.PayloadRow, bytes]]) -> list[bytes]:
        """The content of payloads of one chunk each, whose sealed bytes were read already.

        Raises:
            KeyMissingError, DamagedLedgerError: see `errors`.
        """
        if sum(row.bytes for row, _ in found) <= OPENED_HERE:
            return sealing.unseal_all(self._ring, found)
        return await asyncio.to_thread(sealing.unseal_all, self._ring, found)

    async def read_payload(self, payload_id: str, offset: int, length: int) -> bytes:
        """A part of the content; only the chunks that hold it are read. Shorter at the end, empty beyond it.

        Raises:
            NoSuchPayloadError, KeyMissingError, DamagedLedgerError: see `errors`.
        """
        row = await self.describe_payload(payload_id)
        end = min(offset + length, row.bytes)
        if not 0 <= offset < end:
            return b""
        wanted = range(offset // sealing.CHUNK_BYTES, (end - 1) // sealing.CHUNK_BYTES + 1)
        chunks = await self.reads.look(lambda: sealing.sealed_chunks(row, wanted))
        content = b"".join(await self._unseal(row, chunks))
        start = wanted.start * sealing.CHUNK_BYTES
        return content[offset - start : end - start]

    async def _unseal(self, row: sealing.PayloadRow, chunks: list[tuple[int, bytes]]) -> list[bytes]:
        """In a thread, but for what is opened sooner than one is reached."""
        if row.bytes <= OPENED_HERE:
            return [sealing.unseal(self._ring, row, n, sealed) for n, sealed in chunks]
        return [await asyncio.to_thread(sealing.unseal, self._ring, row, n, sealed) for n, sealed in chunks]

    async def require_sound_chain(self, run_id: str) -> None:
        """Check the chain of one run before anything is said about it.

        Raises:
            DamagedChainError: it is broken; the message names the row.
        """
        await self.reads.look(lambda: sound(run_id))

    async def lapse_absent(self, monotonic_now: float) -> list[str]:
        """Declare the owners lapsed that are gone: those whose lock is free, and those that stood still for a lease.

        To be called several times a lease. Returns the owners that were declared by this call.
        """
        others = [owner for owner in await self.record(owners.living) if owner.owner_id != self.owner_id]
        gone = dict(self.watch.look([(owner.owner_id, owner.beat) for owner in others], monotonic_now))
        gone.update({owner.owner_id: owner.beat for owner in others if self.presence.is_dead(owner.owner_id)})
        declared: list[str] = []
        now = self._clock()
        for owner_id, beat in gone.items():
            if await self.record(partial(owners.declare_lapsed, owner_id, beat, now)):
                declared.append(owner_id)
                self.presence.forget(owner_id)
        return declared


def _connect(settings: LedgerSettings, path: Path, rings: list[keyring.Keyring]) -> sqlite3.Connection:
    """In the writer's thread: the file, then its keys."""
    try:
        place.make_private(path)
    except OSError as error:
        raise CannotRecordError(Reason.IO, f"{path} cannot be made: {error}") from error
    connection = migrations.connect(path, now=settings.clock(), durability=settings.durability, busy_s=settings.busy_s)
    try:
        rings.append(
            keyring.load(
                path.with_name(f"{path.name}.key"),
                payload_secrets=settings.payload_keys,
                approval_secrets=settings.approval_keys,
                in_use=_has_sealed(connection),
            )
        )
    except BaseException:
        connection.close()
        raise
    return connection


def _has_sealed(connection: sqlite3.Connection) -> bool:
    return bool(
        connection.execute("SELECT EXISTS (SELECT 1 FROM payloads) OR EXISTS (SELECT 1 FROM approvals)").fetchone()[0]
    )


async def _enter(settings: LedgerSettings, path: Path, writer: Writer) -> None:
    now = settings.clock()
    try:
        await writer.record(lambda: owners.register(settings.owner_id, socket.gethostname(), os.getpid(), now))
    except CannotRecordError as error:
        if error.reason is not Reason.LOCKED:
            raise
        raise LedgerLockedError(f"{path} is locked by another process; end it or try again") from error
