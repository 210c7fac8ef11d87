"""The edge of both transports: bytes become one JSON-RPC message, or the answer that says which rule they break.

Strictness starts here, because the SDK has merged duplicate keys and made 1e400 infinite by the time a handler runs.
What a message means is the surface's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from ..canonical import JsonValue
from ..registry.strict_json import Bounds, StrictJsonError, parse, salvage_id

Id = str | int | None


@dataclass(frozen=True, slots=True)
class Broken:
    """Bytes that break a rule, as the answer to them."""

    answer: bytes


def message_of(data: bytes, bounds: Bounds) -> JSONRPCMessage | Broken:
    """The SDK's model of a message, or what to answer instead, under its id where that can be read."""
    try:
        value = parse(data, bounds)
    except StrictJsonError as broken:
        return _refused(data, broken)
    try:
        return _message(value)
    except (ValidationError, ValueError):
        request_id = value.get("id") if isinstance(value, dict) else None
        known = request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None
        return Broken(error_line(known, INVALID_REQUEST, "Invalid Request: expected one JSON-RPC 2.0 message"))


def error_line(request_id: Id, code: int, message: str, data: JsonValue = None) -> bytes:
    """One line of the wire that says no."""
    error: dict[str, JsonValue] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return line_of({"jsonrpc": "2.0", "id": request_id, "error": error})


def line_of(body: dict[str, Any]) -> bytes:
    """One line of the wire.

    Raises:
        ValueError: the body is not strict JSON (NaN, an infinity, a lone surrogate).
    """
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _refused(data: bytes, broken: StrictJsonError) -> Broken:
    details: dict[str, JsonValue] = {
        "code": "invalid_arguments",
        "path": broken.path,
        "expected": broken.expected,
        "got": broken.got,
    }
    request_id = salvage_id(data)
    if request_id is None:
        return Broken(error_line(None, PARSE_ERROR, f"Parse error: {broken}", details))
    return Broken(error_line(request_id, INVALID_PARAMS, f"Invalid params: {broken}", details))


def _message(value: JsonValue) -> JSONRPCMessage:
    """The SDK's model of a message; a request with an id that is neither string nor integer is none.

    Raises:
        ValueError: it is no JSON-RPC message.
    """
    message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    if isinstance(message, JSONRPCNotification) and isinstance(value, dict) and "id" in value:
        raise ValueError("an id is a string or an integer")
    return message
