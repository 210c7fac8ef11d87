"""JSON values and their one canonical form, beneath all rooms: approvals, idempotency and the ledger share its bytes.

RFC 8785 with one stated extension: an integer beyond ±(2^53-1) is written as its exact digits.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"
JsonObject: TypeAlias = dict[str, JsonValue]


def canonical(value: JsonValue) -> bytes:
    """The one byte form of a JSON value."""
    import json

    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def sha256_hex(data: bytes) -> str:
    """Hex SHA-256."""
    return hashlib.sha256(data).hexdigest()
