"""How bodies become MCP results: text and structured content that say the same, and refusals of our own making."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any, Final, TypeAlias

from ...canonical import JsonObject, JsonValue
from ...registry.vocabulary import REFUSALS, ErrorCode

WireResult: TypeAlias = dict[str, Any]
"""A `CallToolResult` as the wire has it: the SDK checks what it is given in this form, and only once."""
CALL_META: Final = "counterfoil/call"
_written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_log = logging.getLogger(__name__)


def result(body: JsonObject, *, is_error: bool, call: JsonObject | None = None) -> WireResult:
    """One result. `call` is the call view, where the body is the tool's own output.

    Raises:
        ValueError: the body is not strict JSON.
    """
    content = [{"type": "text", "text": _written(body)}]
    shown: WireResult = {"resultType": "complete", "content": content, "structuredContent": body, "isError": is_error}
    return shown if call is None else {**shown, "_meta": {CALL_META: call}}


def own_output(view: JsonObject) -> JsonObject | None:
    """The tool's own output as structured content, where a view has a delivered one; else None: the view says more."""
    settled = view.get("state") == "settled" and view.get("outcome") == "success"
    if not settled or view.get("error") is not None or view.get("truncated") is not None:
        return None
    output = view.get("output")
    return output if isinstance(output, dict) else {"result": output}


def refusal(code: ErrorCode, message: str, details: JsonObject | None = None) -> JsonObject:
    """The body of a base tool that was refused before anything was asked of anything."""
    meaning = REFUSALS[code]
    error: JsonObject = {
        "code": code.value,
        "message": message,
        "retryable": meaning.retryable,
        "details": details or {},
    }
    return {"outcome": meaning.outcome.value, "sent": "no", "error": error}


def refused_view(tool: str, code: ErrorCode, message: str, details: JsonObject | None = None) -> JsonObject:
    """The call view of a call that was refused before it had an id."""
    absent: dict[str, JsonValue] = dict.fromkeys(("call_id", "version", "output", "evidence", "approval", "truncated"))
    state = "settled" if code is ErrorCode.INTERNAL else "refused"
    counted: JsonObject = {"attempts": 0, "replayed": False, "next": None}
    return {**absent, "tool": tool, "state": state, **refusal(code, message, details), **counted}


def log_failure(what: str, error: Exception) -> None:
    """Say on stderr where something failed, without a word of what it was about: messages may hold content."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    places = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    _log.error("%s failed: %s at %s", what, type(error).__name__, places)
