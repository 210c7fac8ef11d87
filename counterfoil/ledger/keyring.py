"""The keys of a ledger: which one seals payloads, which ones open them, which one authenticates approvals.

Without configured keys they are made at first start, in a file beside the database that only its owner can read.
A configured secret becomes a key by HKDF-SHA256 (RFC 5869); the first one seals, all of them open. Keys are named by
a digest of themselves, so a payload says which one it needs. No key ever leaves this room.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .errors import KeyMissingError
from .place import publish

KEY_BYTES: Final = 32
LEAST_SECRET_BYTES: Final = 16
Secret = str | bytes


@dataclass(frozen=True, slots=True)
class Key:
    """32 secret bytes and the name they are known by."""

    id: str
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> Key:
        """The key of these 32 bytes."""
        return cls(hashlib.sha256(b"counterfoil key id\0" + secret).hexdigest()[:16], secret)


@dataclass(frozen=True, slots=True)
class Keyring:
    """Payload keys and approval keys; in each the first one makes and all of them check."""

    payload: tuple[Key, ...]
    approval: tuple[Key, ...]
    redaction: bytes = field(repr=False)

    @property
    def sealing(self) -> Key:
        """The key that seals new payloads."""
        return self.payload[0]

    def opening(self, key_id: str) -> Key:
        """The key that a payload names.

        Raises:
            KeyMissingError: it is not in this ring.
        """
        for key in self.payload:
            if key.id == key_id:
                return key
        raise KeyMissingError(f"no payload key {key_id} here; add the secret that sealed it to [ledger] payload_keys")

    def derived(self, purpose: str) -> list[bytes]:
        """32 secret bytes for something else, from each approval key, in their order."""
        return [_expand(key.secret, purpose.encode()) for key in self.approval]

    def mac(self, purpose: str, data: bytes) -> str:
        """Hex HMAC-SHA256 under the approval key; another purpose gives another digest."""
        return _mac(self.approval[0], purpose, data)

    def mac_matches(self, purpose: str, data: bytes, digest: str) -> bool:
        """Whether any approval key of this ring made that digest."""
        return any(hmac.compare_digest(_mac(key, purpose, data), digest) for key in self.approval)


def load(
    path: Path,
    *,
    payload_secrets: Sequence[Secret] = (),
    approval_secrets: Sequence[Secret] = (),
    in_use: bool,
) -> Keyring:
    """The ring of configured secrets and the file's keys; makes the file if it is missing.

    `in_use` says that the ledger holds payloads or approvals already, so that keys cannot be made anew.

    Raises:
        KeyMissingError: the file is missing although its keys were used, is damaged, or a secret is too short.
    """
    configured = [derive(secret, "payload") for secret in payload_secrets]
    approving = [derive(secret, "approval") for secret in approval_secrets]
    if not path.exists():
        if in_use and not (configured and approving):
            raise KeyMissingError(
                f"{path} is missing, and this ledger's payloads cannot be opened without it; put it back from a backup"
            )
        publish(path, _fill)
    own_payload, own_approval = _read(path)
    approval = (*approving, own_approval)
    return Keyring((*configured, own_payload), approval, _expand(approval[0].secret, b"counterfoil redaction"))


def derive(secret: Secret, purpose: str) -> Key:
    """A key from a configured secret.

    Raises:
        KeyMissingError: fewer than 16 bytes.
    """
    data = secret.encode() if isinstance(secret, str) else secret
    if len(data) < LEAST_SECRET_BYTES:
        raise KeyMissingError(
            f"a {purpose} key of {len(data)} bytes is too weak; expected {LEAST_SECRET_BYTES} at least"
        )
    extracted = hmac.digest(b"counterfoil ledger", data, "sha256")
    return Key.of(_expand(extracted, f"counterfoil {purpose}".encode()))


def _expand(secret: bytes, info: bytes) -> bytes:
    return hmac.digest(secret, info + b"\x01", "sha256")  # HKDF's first and only block


def _mac(key: Key, purpose: str, data: bytes) -> str:
    return hmac.digest(key.secret, purpose.encode() + b"\0" + data, "sha256").hex()


def _fill(path: Path) -> None:
    keys = {"version": 1, "payload": secrets.token_hex(KEY_BYTES), "approval": secrets.token_hex(KEY_BYTES)}
    path.write_text(json.dumps(keys) + "\n")


def _read(path: Path) -> tuple[Key, Key]:
    try:
        keys = json.loads(path.read_text())
        payload, approval = (bytes.fromhex(keys[name]) for name in ("payload", "approval"))
    except (ValueError, KeyError, TypeError) as error:
        raise KeyMissingError(f"{path} is no key file of a ledger; put it back from a backup") from error
    if keys["version"] != 1 or len(payload) != KEY_BYTES or len(approval) != KEY_BYTES:
        raise KeyMissingError(f"{path} holds keys that this program does not know; install the version that wrote it")
    return Key.of(payload), Key.of(approval)
