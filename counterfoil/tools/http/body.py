"""The body of an answer: decoded within a limit that counts what it becomes, and read as JSON, text or bytes.

A small answer that unpacks to an endless one ends at the limit; one that stops short is an error, never its part.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import zlib
from dataclasses import dataclass
from email.message import Message as Mime
from typing import Final

from ...canonical import JsonValue
from ...registry.strict_json import Bounds, StrictJsonError, parse

NODES_MAX: Final = 1_000_000
LARGE: Final = 64_000
"""Bytes from which on a body is not read on the event loop."""
_GZIP = zlib.MAX_WBITS | 16
_TEXTS = frozenset({"application/xml", "application/javascript", "application/x-www-form-urlencoded"})


class BodyError(ValueError):
    """A body that cannot be read; the message goes on from "answered with status 200 and"."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a body holds; `is_json` tells JSON from a text or bytes that became a value of ours."""

    value: JsonValue
    is_json: bool = False


class Decoder:
    """Takes a body piece by piece.

    Raises:
        BodyError: a content encoding that nobody asked for.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        name = encoding.strip().lower()
        if name not in {"", "identity", "gzip", "x-gzip"}:
            raise BodyError(f"the content encoding {name[:40]!r}, which was not asked for")
        self._packed = "gzip" in name
        self._unpack = zlib.decompressobj(_GZIP)
        self._limit = limit
        self._body = bytearray()
        self._fed = False

    def feed(self, chunk: bytes) -> None:
        """The next piece.

        Raises:
            BodyError: the limit is passed, or what came is no gzip.
        """
        self._body += self._unpacked(chunk) if self._packed else chunk
        if len(self._body) > self._limit:
            raise BodyError(f"more than {self._limit:,} bytes")

    def finish(self) -> bytes:
        """The whole body.

        Raises:
            BodyError: it stops short.
        """
        if self._packed and not self._unpack.eof and self._fed:
            raise BodyError("a body that stops short of its end")
        return bytes(self._body)

    def _unpacked(self, chunk: bytes) -> bytes:
        self._fed = True
        try:
            piece = self._unpack.decompress(chunk, self._limit + 1 - len(self._body))
        except zlib.error:
            raise BodyError("a body that is no gzip") from None
        if self._unpack.unused_data:
            raise BodyError("something after the end of its gzip body")
        return piece


async def read_content(content_type: str, body: bytes) -> Content:
    """`content_of`, a large body in a thread: reading one takes seconds, and this process owes others its beat.

    Raises:
        BodyError: as `content_of`.
    """
    if len(body) < LARGE:
        return content_of(content_type, body)
    return await asyncio.to_thread(content_of, content_type, body)


def content_of(content_type: str, body: bytes) -> Content:
    """What a body holds, by its declared type: a JSON value; a text; else `{"content_type", "base64"}`.

    Raises:
        BodyError: it is declared as JSON and is none.
    """
    if not body:
        return Content(None)
    kind, charset = _kind(content_type)
    if kind == "application/json" or kind.endswith("+json"):
        return Content(_json(body), is_json=True)
    if kind.startswith("text/") or kind in _TEXTS or kind.endswith("+xml"):
        text = _text(body, charset)
        if text is not None:
            return Content(text)
    return Content({"content_type": kind or "application/octet-stream", "base64": base64.b64encode(body).decode()})


def _kind(content_type: str) -> tuple[str, str]:
    if not content_type:
        return "", "utf-8"
    mime = Mime()
    mime["content-type"] = content_type
    charset = mime.get_content_charset("utf-8")
    return mime.get_content_type() if "/" in content_type else "", charset


def _json(body: bytes) -> JsonValue:
    size = len(body)
    try:
        return parse(body.removeprefix(codecs.BOM_UTF8), Bounds(bytes=size, nodes=NODES_MAX, string=size))
    except StrictJsonError as error:
        where = f" at {error.path}" if error.path else ""
        raise BodyError(f"a body that is no JSON: expected {error.expected}{where}") from None


def _text(body: bytes, charset: str) -> str | None:
    """None where the bytes are no Unicode text in their own charset; they are then shown as bytes, and none is lost.

    A charset is whatever the far side wrote there: some raise errors of their own, some make lone surrogates.
    """
    try:
        text = body.decode(charset)
        text.encode()
    except (ValueError, LookupError):
        return None
    return text
