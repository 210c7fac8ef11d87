"""The projection: the only form of content that events, logs, pages and exports may hold.

A value is hidden for its place (a marked JSON Pointer, `*` for any item or member), for its name (password, token,
cookie, ... in any letter case, wherever it is), or for its shape (see `shapes`). What hides it is
{"redacted": true, "length": n, "commit": c}, where equal values have equal `c` in one ledger and nobody without its
key can test a guess; inside a longer text it is [redacted:n:c]; what is too large is cut:
{"cut": true, "length": n, "start": text} for a text, a last item {"cut": true, "items": n} in a list and a member
"..." with {"cut": true, "members": n} in an object. It never changes what a tool gets, or a digest.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ..canonical import JsonValue, canonical
from ..secret_names import is_secret_name
from .shapes import SHAPES, is_random, may_hold_secret
from .storable import DEPTH, storable, storable_leaf, storable_text

LIMIT_BYTES: Final = 4096
TEXT_LIMIT: Final = 500
_NAME_LIMIT: Final = 128
_LONGEST_KEPT: Final = 64
_START: Final = 200
_LEAST_START: Final = 4
_TEXT_CUT: Final = 160  # as long as anything is that messages about a value quote
_LOOK_AHEAD: Final = 4096  # a secret across the place of the cut is still seen whole
_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
_CLEAR_BYTES: Final = 1_200  # fewer digits than `storable` lets an integer have
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

Path = tuple[str, ...]


def project(
    value: JsonValue, sensitive: Sequence[str] = (), limit_bytes: int = LIMIT_BYTES, *, key: bytes
) -> JsonValue:
    """The redacted and bounded form of a value. `key` makes the commitments; `Ledger.project` hands in its own.

    The result's canonical form stays within a few hundred bytes of `limit_bytes`, and can always be stored.
    """
    if not sensitive and _is_clear(value, limit_bytes):
        return value
    return _Projector(key, limit_bytes).value(value, [_pointer(one) for one in sensitive], DEPTH)


def _is_clear(value: JsonValue, limit_bytes: int) -> bool:
    """True for a small flat object in which there is nothing to hide, to cut or to make storable.

    One look at its JSON is enough: writing a text as JSON leaves every part of it standing that tells of a secret.
    """
    if not isinstance(value, dict):
        return False
    for name, member in value.items():
        if type(member) not in _LEAVES or len(name) > _NAME_LIMIT or is_secret_name(name):
            return False
    try:
        text = _encode(value)
        size = len(text.encode())
    except ValueError:  # NaN, too many digits, a lone surrogate
        return False
    return size <= min(_CLEAR_BYTES, limit_bytes // 2) and not may_hold_secret(text)


def redact_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """A message without secrets and control characters, at most `limit` characters long."""
    if not text:
        return text
    seen = storable_text(text[: limit + _LOOK_AHEAD])
    if may_hold_secret(seen):
        for shape in SHAPES:
            seen = shape.sub(lambda _: "[redacted]", seen)
        seen = _RUN.sub(lambda run: "[redacted]" if is_random(run[0]) else run[0], seen)
    seen = _CONTROL.sub("", seen)
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def hide_values(value: JsonValue, secrets: Sequence[str]) -> JsonValue:
    """A value in whose texts and member names no secret of a call stands, nor the start of one, cut at a "…"."""
    if not secrets:
        return value
    if isinstance(value, str):
        return _without(value, secrets)
    if isinstance(value, list):
        return [hide_values(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_without(name, secrets): hide_values(member, secrets) for name, member in value.items()}
    return "[redacted]" if not isinstance(value, bool) and value is not None and str(value) in secrets else value


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
        if "…" in text and secret[:_LEAST_START] in text:
            for length in range(min(len(secret), _TEXT_CUT), _LEAST_START - 1, -1):
                text = text.replace(f"{secret[:length]}…", "[redacted]…")
    return text


_RUN: Final = re.compile(r"[A-Za-z0-9+/_=-]{32,512}")


class _Projector:
    """One projection: counts down the bytes that are left."""

    def __init__(self, key: bytes, limit_bytes: int) -> None:
        self._key = key
        self._left = limit_bytes

    def value(self, value: JsonValue, marked: list[Path], depth: int) -> JsonValue:
        if () in marked and value is not None:
            return self._hidden(value)
        if isinstance(value, list | dict):
            if depth == 0:
                return {"cut": True, "deep": True}
            return self._list(value, marked, depth) if isinstance(value, list) else self._dict(value, marked, depth)
        if isinstance(value, str):
            return self._text(value)
        leaf = storable_leaf(value)
        self._left -= len(str(leaf)) + 1
        return leaf

    def _list(self, items: list[JsonValue], marked: list[Path], depth: int) -> JsonValue:
        shown: list[JsonValue] = []
        self._left -= 2
        for n, item in enumerate(items):
            if self._left <= 0:
                shown.append({"cut": True, "items": len(items) - n})
                break
            shown.append(self.value(item, _below(marked, str(n)), depth - 1))
        return shown

    def _dict(self, members: dict[str, JsonValue], marked: list[Path], depth: int) -> JsonValue:
        shown: dict[str, JsonValue] = {}
        self._left -= 2
        for n, (name, member) in enumerate(members.items()):
            if self._left <= 0:
                shown["..."] = {"cut": True, "members": len(members) - n}
                break
            label = name if _is_plain_name(name) else self._inline(storable_text(name[:_NAME_LIMIT]))
            self._left -= len(label) + 4
            if is_secret_name(name) and member is not None and not isinstance(member, bool):
                shown[label] = self._hidden(member)
            else:
                shown[label] = self.value(member, _below(marked, name), depth - 1)
        return shown

    def _text(self, text: str) -> JsonValue:
        suspect = may_hold_secret(text)
        if suspect and _is_secret(text):
            return self._hidden(text)
        room = max(self._left, 0)
        cut = len(text) > room or len(text.encode(errors="replace")) > room
        seen = text[: min(room, _START) + _LOOK_AHEAD] if cut else text
        shown = storable_text(seen)
        if suspect or len(shown) != len(seen):  # else nothing can have come in that was not there
            shown = self._inline(shown)
        if not cut:
            self._left -= len(shown.encode()) + 3
            return shown
        start = shown[: min(room, _START)]
        self._left -= len(start.encode()) + 40
        return {"cut": True, "length": len(text), "start": start}

    def _hidden(self, value: JsonValue) -> JsonValue:
        self._left -= 64
        if isinstance(value, str):
            return {"redacted": True, "length": len(value), "commit": self._commit(storable_text(value).encode())}
        data = canonical(storable(value))
        return {"redacted": True, "length": len(data), "commit": self._commit(data)}

    def _inline(self, text: str) -> str:
        if not may_hold_secret(text):
            return text

        def hide(found: re.Match[str]) -> str:
            return f"[redacted:{len(found[0])}:{self._commit(found[0].encode())}]"

        for shape in SHAPES:
            text = shape.sub(hide, text)
        return _RUN.sub(lambda run: hide(run) if is_random(run[0]) else run[0], text)

    def _commit(self, data: bytes) -> str:
        return hmac.digest(self._key, data, "sha256").hex()[:16]


def _is_plain_name(name: str) -> bool:
    """Whether a member's name is shown as it is."""
    return len(name) <= _LONGEST_KEPT and _asked_before(name)


@lru_cache(maxsize=4096)
def _asked_before(name: str) -> bool:
    """The same few names come with every call."""
    return storable_text(name) == name and not may_hold_secret(name)


def _is_secret(text: str) -> bool:
    """Whether the whole text is one secret."""
    trimmed = text.strip()
    if any(shape.fullmatch(trimmed) for shape in SHAPES):
        return True
    return _RUN.fullmatch(trimmed) is not None and is_random(trimmed)


def _below(marked: list[Path], name: str) -> list[Path]:
    return [path[1:] for path in marked if path and path[0] in ("*", name)] if marked else marked


def _pointer(text: str) -> Path:
    """The names of a JSON Pointer (RFC 6901); one without its first slash is a member's bare name."""
    if text == "":
        return ()
    return tuple(name.replace("~1", "/").replace("~0", "~") for name in text.removeprefix("/").split("/"))
