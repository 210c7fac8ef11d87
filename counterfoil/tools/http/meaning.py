"""What the status of an answer means for a tool (design section 5), and what an answer tells beside its output. Pure.

For what is no read, only a status that states a refusal before any effect is a failure; every other one that is no
success leaves the outcome unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from ...canonical import JsonObject, JsonValue
from ...registry.predicates import look_up, parse_pointer
from .body import LARGE, BodyError, content_of
from .outbound import Reply
from .spec import HttpTool

REFUSED: Final = frozenset({400, 401, 403, 404, 405, 409, 410, 412, 413, 415, 422, 428})
SAID_MAX: Final = 300
EVIDENCE_MAX: Final = 200
REQUEST_IDS: Final = ("x-request-id", "request-id", "x-correlation-id")
HEADER: Final = "header:"

_TOO_MANY, _UNAVAILABLE, _TIMED_OUT, _TOO_EARLY = 429, 503, 408, 425
_SAYS: Final = ("message", "detail", "title", "error_description", "error")


class Meaning(StrEnum):
    """What a status says."""

    SUCCESS = "success"
    NO_RESULT = "no_result"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    AGAIN = "again"
    UNKNOWN = "unknown"


def meaning_of(spec: HttpTool, status: int, headers: Mapping[str, str], *, is_read: bool) -> Meaning:
    """What a status means: first as the tool states it, then as the protocol does."""
    stated = (
        (spec.unknown_status, Meaning.UNKNOWN),
        (spec.refused_status, Meaning.REFUSED),
        (spec.no_result_status, Meaning.NO_RESULT),
        (spec.accepted_status, Meaning.ACCEPTED),
    )
    for statuses, meaning in stated:
        if status in statuses:
            return meaning
    if is_success(status):
        return Meaning.SUCCESS
    if status == _TOO_MANY or (status == _UNAVAILABLE and "retry-after" in headers):
        return Meaning.AGAIN
    if is_read:
        return Meaning.AGAIN if status >= 500 or status in {_TIMED_OUT, _TOO_EARLY} else Meaning.REFUSED  # noqa: PLR2004 (server errors)
    return Meaning.REFUSED if status in REFUSED else Meaning.UNKNOWN


def is_success(status: int) -> bool:
    """200 to 299."""
    return 200 <= status <= 299  # noqa: PLR2004 (what HTTP calls successful)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The far side's wish in seconds, from either form of Retry-After; None where it is none."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal() and len(text) <= 9:  # noqa: PLR2004 (thirty years)
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max((at - now).total_seconds(), 0.0)


def evidence_of(wanted: Mapping[str, str], body: JsonValue, headers: Mapping[str, str]) -> JsonObject:
    """What the answer proves: by default the version from ETag and the request's id; as stated otherwise."""
    found: JsonObject = {}
    if "etag" in headers:
        found["external_version"] = headers["etag"]
    if name := next((name for name in REQUEST_IDS if name in headers), None):
        found["request_id"] = headers[name]
    for name, place in wanted.items():
        value = headers.get(place.removeprefix(HEADER).lower()) if place.startswith(HEADER) else at(body, place)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            found[name] = value
    return {name: value[:EVIDENCE_MAX] if isinstance(value, str) else value for name, value in found.items()}


def at(body: JsonValue, place: str) -> JsonValue:
    """What a pointer names, or None."""
    found, value = look_up(body, parse_pointer(place))
    return value if found else None


def said(reply: Reply) -> str:
    """The far side's own short message about a failure; empty where there is none, or it is no short one."""
    if len(reply.body) >= LARGE:
        return ""
    try:
        value = content_of(reply.headers.get("content-type", ""), reply.body).value
    except BodyError:
        return ""
    if isinstance(value, str):
        return _short(value) if "html" not in reply.headers.get("content-type", "") else ""
    return _short(_message_in(value))


def _message_in(value: JsonValue) -> str:
    if not isinstance(value, dict):
        return ""
    for name in _SAYS:
        inner = value.get(name)
        if isinstance(inner, str) and inner:
            return inner
        if isinstance(inner, dict) and (deeper := _message_in(inner)):
            return deeper
    return ""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SAID_MAX else text[: SAID_MAX - 1] + "…"
