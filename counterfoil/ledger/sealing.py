"""Payloads: exact content, sealed with AES-256-GCM in chunks, and the facts that store it.

Each chunk has a random 96-bit nonce before its ciphertext and is bound to payload, kind and place, so that none can
be moved. Events hold only the commitment, HMAC-SHA256(salt, content): erasing a payload, or sealing it anew, leaves
the chain verifiable. Nothing here is a projection; nothing sealed is ever shown.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import bindparam, delete, exists, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from ..randomness import random_bytes
from .errors import DamagedLedgerError, NoSuchPayloadError
from .keyring import Keyring
from .sql import Fact, Sql, change, fetch, one
from .tables import payload_chunks, payloads

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CHUNK_BYTES: Final = 1024 * 1024  # of content
_NONCE: Final = 12
_BLOCK: Final = 64  # of SHA-256
_KEEPS_LOCK: Final = 1024  # bytes; a hash of 2,048 lets go of the lock
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_sha256 = hashlib.sha256
Bytes: TypeAlias = bytes  # a row has a column of the type's own name
Kind: TypeAlias = Literal["arguments", "output", "raw", "late", "plan", "input"]


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed payload that is not stored yet. `chunks[0]` goes with its row, the others beside it."""

    payload_id: str
    call_id: str
    tenant: str
    kind: str
    bytes: int
    sha256: str
    commitment: str
    salt: Bytes
    key_id: str
    chunks: tuple[Bytes, ...]
    created_at: int


class PayloadRow(NamedTuple):
    """What is known of a payload without opening it."""

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


class _Count(NamedTuple):
    n: int


class _Chunk(NamedTuple):
    n: int
    sealed: bytes


_p, _c = payloads.c, payload_chunks.c
_of = bindparam("of", type_=_p.payload_id.type)
INSERT_PAYLOAD = Sql(payloads.insert())
INSERT_CHUNK = Sql(insert(payload_chunks).on_conflict_do_nothing())
COUNT_CHUNKS = Sql(select(func.count()).select_from(payload_chunks).where(_c.payload_id == _of), _Count)
SELECT_PAYLOAD = Sql(
    select(
        _p.payload_id, _p.call_id, _p.tenant, _p.kind, _p.bytes, _p.sha256, _p.commitment, _p.salt, _p.key_id, _p.chunks
    ).where(_p.payload_id == _of),
    PayloadRow,
)  # fmt: skip
SELECT_FIRST_CHUNK = Sql(select(literal(0), _p.sealed).where(_p.payload_id == _of), _Chunk)
SELECT_CHUNK = Sql(
    select(_c.n, _c.sealed).where(_c.payload_id == _of, _c.n == bindparam("place", type_=_c.n.type)), _Chunk
)
DELETE_ORPHANS = Sql(
    delete(payload_chunks).where(
        _c.stored_at < bindparam("before", type_=_c.stored_at.type),
        ~exists().where(_p.payload_id == _c.payload_id).correlate(payload_chunks),
    )
)


def seal(ring: Keyring, *, payload_id: str, call_id: str, tenant: str, kind: Kind, content: bytes, now: int) -> Sealed:
    """Seal content. Costs about 3 ms a MiB, most of it in C without the interpreter's lock."""
    key, salt, size = ring.sealing, random_bytes(), len(content)
    encrypt = _cipher(key.secret).encrypt
    parts: Iterable[bytes | memoryview] = (content,)
    if size > CHUNK_BYTES:
        view = memoryview(content)
        parts = (view[start : start + CHUNK_BYTES] for start in range(0, size, CHUNK_BYTES))
    chunks: list[bytes] = []
    for n, part in enumerate(parts):
        nonce = random_bytes(_NONCE)
        chunks.append(nonce + encrypt(nonce, part, _bound_to(payload_id, kind, n)))
    return Sealed(
        payload_id, call_id, tenant, kind, size, hashlib.sha256(content).hexdigest(),
        commit(salt, content), salt, key.id, tuple(chunks), now,
    )  # fmt: skip


def unseal(ring: Keyring, row: PayloadRow, n: int, sealed: bytes) -> bytes:
    """The content of chunk `n`.

    Raises:
        KeyMissingError: the ring has not the key that sealed it.
        DamagedLedgerError: these are not the bytes that were stored there.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 (as in `_cipher`)

    key = ring.opening(row.key_id)
    try:
        return _cipher(key.secret).decrypt(sealed[:_NONCE], sealed[_NONCE:], _bound_to(row.payload_id, row.kind, n))
    except (InvalidTag, ValueError) as error:
        raise DamagedLedgerError(f"payload {row.payload_id} is damaged in chunk {n}; restore a backup") from error


def unseal_all(ring: Keyring, found: Iterable[tuple[PayloadRow, Bytes]]) -> list[Bytes]:
    """The content of payloads of one chunk each. Raises what `unseal` raises."""
    return [unseal(ring, row, 0, sealed) for row, sealed in found]


def commit(salt: bytes, content: bytes) -> str:
    """What an event says of content: nothing to those who do not have it, proof to those who do.

    For small content it is put together of two hashes (RFC 2104): those keep the interpreter's lock, where the one
    step from C lets go of it and then waits for whoever took it.
    """
    if len(content) >= _KEEPS_LOCK or len(salt) > _BLOCK:
        return hmac.digest(salt, content, "sha256").hex()
    key = salt.ljust(_BLOCK, b"\0")
    inner = _sha256(key.translate(_INNER) + content).digest()
    return _sha256(key.translate(_OUTER) + inner).hexdigest()


def columns(sealed: Sealed) -> dict[str, Any]:
    """A payload as its row has it, its first chunk included."""
    return {
        "payload_id": sealed.payload_id, "call_id": sealed.call_id, "tenant": sealed.tenant, "kind": sealed.kind,
        "bytes": sealed.bytes, "sha256": sealed.sha256, "commitment": sealed.commitment, "salt": sealed.salt,
        "key_id": sealed.key_id, "chunks": len(sealed.chunks), "sealed": sealed.chunks[0],
        "created_at": sealed.created_at,
    }  # fmt: skip


def store(sealed: Sealed) -> Fact[None]:
    """Store a payload; chunks that `store_chunk` stored ahead are not written again."""
    yield INSERT_PAYLOAD, columns(sealed)
    further = len(sealed.chunks) - 1
    if further == 0:
        return
    count = yield from one(COUNT_CHUNKS, of=sealed.payload_id)
    if count is None or count.n != further:
        for n in range(1, further + 1):
            yield from store_chunk(sealed, n)


def store_chunk(sealed: Sealed, n: int) -> Fact[None]:
    """Store chunk `n`, from 1, ahead of the payload's row, in its own transaction; without that row it is swept."""
    yield from change(
        INSERT_CHUNK, payload_id=sealed.payload_id, n=n, sealed=sealed.chunks[n], stored_at=sealed.created_at
    )


def sweep_orphans(before: int) -> Fact[int]:
    """Remove chunks stored before that time whose payload never came; leave an hour, a settlement may follow."""
    return (yield from change(DELETE_ORPHANS, before=before))


def describe(payload_id: str) -> Fact[PayloadRow]:
    """What is known of a payload.

    Raises:
        NoSuchPayloadError: no payload has this id.
    """
    row = yield from one(SELECT_PAYLOAD, of=payload_id)
    if row is None:
        raise NoSuchPayloadError(f"no payload {payload_id}")
    return row


def whole(payload_id: str) -> Fact[tuple[PayloadRow, list[tuple[int, bytes]]]]:
    """A payload with all of its sealed bytes, of one moment. Raises what `describe` and `sealed_chunks` raise."""
    row = yield from describe(payload_id)
    return row, (yield from sealed_chunks(row, range(row.chunks if row.bytes else 0)))


def sealed_chunks(row: PayloadRow, wanted: Sequence[int]) -> Fact[list[tuple[int, bytes]]]:
    """The sealed bytes of these chunks.

    Raises:
        DamagedLedgerError: one is missing.
    """
    found: list[tuple[int, bytes]] = []
    for n in wanted:
        if n == 0:
            chunks = yield from fetch(SELECT_FIRST_CHUNK, of=row.payload_id)
        else:
            chunks = yield from fetch(SELECT_CHUNK, of=row.payload_id, place=n)
        if not chunks:
            raise DamagedLedgerError(f"chunk {n} of payload {row.payload_id} is missing; restore it from a backup")
        found.append((n, chunks[0].sealed))
    return found


@lru_cache(maxsize=8)
def _cipher(secret: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 (40 ms that a start need not wait for)

    return AESGCM(secret)


def _bound_to(payload_id: str, kind: str, n: int) -> bytes:
    return f"{payload_id}|{kind}|{n}".encode()
