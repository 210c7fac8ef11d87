"""Payloads and keys: exact content back, nothing readable on disk, and no ledger that quietly loses its keys."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from counterfoil.ledger import keyring, sealing
from counterfoil.ledger.check import check
from counterfoil.ledger.errors import DamagedLedgerError, KeyMissingError, NoSuchPayloadError
from counterfoil.ledger.store import Ledger

pytestmark = pytest.mark.anyio
OpenLedger = Callable[..., Awaitable[Ledger]]
CHUNK = sealing.CHUNK_BYTES


async def keep(ledger: Ledger, payload_id: str, content: bytes) -> sealing.Sealed:
    sealed = ledger.seal(payload_id=payload_id, call_id="call_1", tenant="t", kind="output", content=content)
    await ledger.record(lambda: sealing.store(sealed))
    return sealed


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7])
async def test_content_comes_back_byte_for_byte(ledger: Ledger, size: int) -> None:
    content = os.urandom(size)
    async with asyncio.timeout(30):
        sealed = await keep(ledger, "pay_1", content)
        assert await ledger.open_payload("pay_1") == content
        assert len(sealed.chunks) == max(1, -(-size // CHUNK))
    assert sealed.commitment == sealing.commit(sealed.salt, content)


async def test_a_part_is_read_from_its_own_chunks_alone(ledger: Ledger) -> None:
    content = os.urandom(3 * CHUNK)
    async with asyncio.timeout(30):
        await keep(ledger, "pay_1", content)
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as hand:
            hand.execute("UPDATE payload_chunks SET sealed = x'00' WHERE n = 2")
        assert await ledger.read_payload("pay_1", CHUNK - 5, 10) == content[CHUNK - 5 : CHUNK + 5]
        assert await ledger.read_payload("pay_1", 0, 0) == b""
        assert await ledger.read_payload("pay_1", 3 * CHUNK, 10) == b""
        with pytest.raises(DamagedLedgerError, match="pay_1 is damaged in chunk 2"):
            await ledger.read_payload("pay_1", 2 * CHUNK - 1, 2)


async def test_a_large_output_is_stored_ahead_and_then_settled(ledger: Ledger) -> None:
    content = os.urandom(2 * CHUNK + 1)
    sealed = ledger.seal(payload_id="pay_1", call_id="call_1", tenant="t", kind="output", content=content)
    async with asyncio.timeout(30):
        await ledger.store_ahead(sealed)
        with pytest.raises(NoSuchPayloadError):
            await ledger.open_payload("pay_1")
        without = replace(sealed, chunks=(sealed.chunks[0], b"", b""))  # what is there already is not written again
        await ledger.record(lambda: sealing.store(without))
        assert await ledger.open_payload("pay_1") == content


async def test_chunks_whose_payload_never_came_are_swept_and_no_others(ledger: Ledger) -> None:
    async with asyncio.timeout(30):
        await keep(ledger, "kept", os.urandom(CHUNK + 1))
        orphan = ledger.seal(payload_id="orphan", call_id="c", tenant="t", kind="output", content=bytes(CHUNK + 1))
        await ledger.store_ahead(orphan)
        assert await ledger.record(lambda: sealing.sweep_orphans(ledger.now())) == 0
        assert await ledger.record(lambda: sealing.sweep_orphans(ledger.now() + 1)) == 1
        assert len(await ledger.open_payload("kept")) == CHUNK + 1
    assert check(ledger.path).ok


async def test_chunks_cannot_change_places(ledger: Ledger) -> None:
    async with asyncio.timeout(30):
        await keep(ledger, "pay_1", b"one")
        await keep(ledger, "pay_2", b"two")
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as hand:
            hand.execute("UPDATE payloads SET sealed = (SELECT sealed FROM payloads WHERE payload_id = 'pay_2')")
        with pytest.raises(DamagedLedgerError):
            await ledger.open_payload("pay_1")


async def test_a_lost_key_file_stops_the_start_once_payloads_exist(open_ledger: OpenLedger, tmp_path: Path) -> None:
    key = tmp_path / "ledger.db.key"
    async with asyncio.timeout(30):
        first = await open_ledger()
        await first.close()
        key.unlink()
        second = await open_ledger()  # nothing was sealed: new keys harm nobody
        await keep(second, "pay_1", b"content")
        await second.close()
        kept = key.read_text()
        key.unlink()
        with pytest.raises(KeyMissingError, match="put it back from a backup"):
            await open_ledger()
        key.write_text("{}")
        with pytest.raises(KeyMissingError, match="no key file"):
            await open_ledger()
        key.write_text(json.dumps({"version": 1, "payload": "00" * 32, "approval": "00" * 32}))
        other = await open_ledger()
        with pytest.raises(KeyMissingError, match="no payload key"):
            await other.open_payload("pay_1")
        await other.close()
        key.write_text(kept)
        assert await (await open_ledger()).open_payload("pay_1") == b"content"


async def test_configured_keys_seal_and_old_ones_go_on_opening(open_ledger: OpenLedger) -> None:
    old, new = "an old secret, long enough", b"a new secret, long enough too"
    async with asyncio.timeout(30):
        first = await open_ledger()
        await keep(first, "pay_file", b"by the file's key")
        await first.close()
        second = await open_ledger(payload_keys=[old])
        await keep(second, "pay_old", b"by the old key")
        await second.close()
        third = await open_ledger(payload_keys=[new, old])
        sealed = await keep(third, "pay_new", b"by the new key")
        assert sealed.key_id == keyring.derive(new, "payload").id
        assert await third.open_payload("pay_file") == b"by the file's key"
        assert await third.open_payload("pay_old") == b"by the old key"
        await third.close()
        fourth = await open_ledger(payload_keys=[new])
        with pytest.raises(KeyMissingError):
            await fourth.open_payload("pay_old")


async def test_a_weak_secret_is_refused(open_ledger: OpenLedger) -> None:
    async with asyncio.timeout(30):
        with pytest.raises(KeyMissingError, match="too weak"):
            await open_ledger(payload_keys=["short"])


async def test_a_digest_is_bound_to_its_purpose_and_survives_a_new_approval_key(open_ledger: OpenLedger) -> None:
    async with asyncio.timeout(30):
        first = await open_ledger()
        digest = first.mac("approval", b"proposal")
        assert len(digest) == 64
        assert first.mac("other", b"proposal") != digest
        await first.close()
        second = await open_ledger(approval_keys=["a configured approval secret"])
        assert second.mac("approval", b"proposal") != digest
        assert second.mac_matches("approval", b"proposal", digest)
        assert not second.mac_matches("other", b"proposal", digest)


def test_keys_never_show_in_a_representation(tmp_path: Path) -> None:
    ring = keyring.load(tmp_path / "ledger.key", in_use=False)
    assert ring.sealing.secret.hex() not in repr(ring)
    assert repr(ring.sealing.secret) not in repr(ring)
    assert "redaction" not in repr(ring)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1023, 1024, 5000])
@pytest.mark.parametrize("salt", [b"", b"s" * 16, b"s" * 64, b"s" * 65])
def test_a_commitment_is_the_hmac_of_its_content(size: int, salt: bytes) -> None:
    content = os.urandom(size)
    assert sealing.commit(salt, content) == hmac.digest(salt, content, "sha256").hex()
