"""resources/*: what can be read about one tool and one run, and the parts of one artifact.

An id that belongs to somebody else and one that nobody has get the same answer.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourceTemplatesResult,
    ReadResourceResult,
    ResourceTemplate,
    TextResourceContents,
)

from ...canonical import JsonObject
from ...registry.principal import Principal
from ...registry.vocabulary import ErrorCode
from .ports import Catalogue, Desk

NEXT_META: Final = "counterfoil/next_offset"
NEXT_SEQ_META: Final = "counterfoil/next_after_seq"
_TOOL = re.compile(r"counterfoil://tools/([a-z0-9_]{1,64})")
_ARTIFACT = re.compile(r"counterfoil://artifacts/([A-Za-z0-9_-]{1,128})(?:\?offset=([0-9]{1,15}))?")
_RUN = re.compile(r"counterfoil://runs/(run_[A-Za-z0-9_-]{1,128})")
_EVENTS = re.compile(r"counterfoil://runs/(run_[A-Za-z0-9_-]{1,128})/events(?:\?after_seq=([0-9]{1,15}))?")
_CUT: Final = 3
"""A part may end inside a character of UTF-8, at most so many bytes before its end."""

TEMPLATES: Final = (
    ResourceTemplate(
        name="tool",
        title="One tool",
        uri_template="counterfoil://tools/{name}",
        description="Schemas, effect, scopes and recovery of one tool.",
        mime_type="application/json",
    ),
    ResourceTemplate(
        name="artifact",
        title="One artifact",
        uri_template="counterfoil://artifacts/{id}{?offset}",
        description=f"A large output, in parts: `_meta` has `{NEXT_META}` while there is more.",
    ),
    ResourceTemplate(
        name="run",
        title="One run",
        uri_template="counterfoil://runs/{run_id}",
        description="How one of your runs stands. Subscribe to hear of changes.",
        mime_type="application/json",
    ),
    ResourceTemplate(
        name="run_events",
        title="The events of one run",
        uri_template="counterfoil://runs/{run_id}/events{?after_seq}",
        description=f"What happened in it, in order: `_meta` has `{NEXT_SEQ_META}` while there is more.",
        mime_type="application/json",
    ),
)


@dataclass(frozen=True, slots=True)
class Read:
    """What was read, and the calls whose settled state it shows."""

    result: ReadResourceResult
    delivers: tuple[str, ...] = ()


class Resources:
    """Reads of tools, runs and artifacts."""

    def __init__(self, desk: Desk, catalogue: Catalogue, part_bytes: int) -> None:
        """`part_bytes` is how much of an artifact one read gives."""
        self._desk = desk
        self._catalogue = catalogue
        self._part_bytes = max(part_bytes, _CUT + 1)

    @staticmethod
    def templates() -> ListResourceTemplatesResult:
        """What can be read."""
        return ListResourceTemplatesResult(resource_templates=list(TEMPLATES), ttl_ms=3_600_000, cache_scope="public")

    async def read(self, principal: Principal, uri: str) -> Read:
        """One resource.

        Raises:
            MCPError: this principal has none of that address.
        """
        if found := _RUN.fullmatch(uri):
            return await self._run(principal, uri, found[1])
        if found := _EVENTS.fullmatch(uri):
            return await self._events(principal, uri, found[1], int(found[2] or 0))
        contents: TextResourceContents | BlobResourceContents | None = None
        if found := _TOOL.fullmatch(uri):
            contents = self._tool(principal, uri, found[1])
        elif found := _ARTIFACT.fullmatch(uri):
            contents = await self._artifact(principal, uri, found[1], int(found[2] or 0))
        if contents is None:
            raise not_found(uri)
        return _read(contents)

    def _tool(self, principal: Principal, uri: str, name: str) -> TextResourceContents | None:
        card = self._catalogue.card(principal, name)
        return None if card is None else _json(uri, card)

    async def _run(self, principal: Principal, uri: str, run_id: str) -> Read:
        body, delivers = await self._status(principal, uri, run_id, None)
        view: JsonObject = {name: value for name, value in body.items() if name not in {"events", "more"}}
        return _read(_json(uri, view), delivers)

    async def _events(self, principal: Principal, uri: str, run_id: str, after_seq: int) -> Read:
        body, _ = await self._status(principal, uri, run_id, after_seq)
        events = cast("list[JsonObject]", body.get("events") or [])
        shown: JsonObject = {name: body.get(name) for name in ("run_id", "status", "seq", "events", "more")}
        following = {NEXT_SEQ_META: events[-1]["seq"]} if body.get("more") and events else None
        return _read(_json(uri, shown, following))

    async def _status(
        self, principal: Principal, uri: str, run_id: str, after_seq: int | None
    ) -> tuple[JsonObject, tuple[str, ...]]:
        view = await self._desk.status(
            principal, call_id=None, run_id=run_id, after_seq=after_seq, offset=None, wait_s=0
        )
        body = view.wire()
        if view.is_error:
            raise unreadable(uri, body)
        return body, view.delivers

    async def _artifact(
        self, principal: Principal, uri: str, artifact_id: str, offset: int
    ) -> TextResourceContents | BlobResourceContents | None:
        part = await self._desk.artifact(principal, artifact_id, offset, self._part_bytes)
        if part is None:
            return None
        more = len(part) >= self._part_bytes
        text = _text(part, may_be_cut=more)
        used = len(part) if text is None else len(text.encode())
        meta = {NEXT_META: offset + used} if more else None
        if text is not None:
            return TextResourceContents(uri=uri, mime_type="text/plain", text=text, _meta=meta)
        blob = base64.b64encode(part).decode()
        return BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob, _meta=meta)


def not_found(what: str) -> MCPError:
    """The one answer to what does not exist and what is somebody else's."""
    return MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": what})


def unreadable(what: str, body: JsonObject) -> MCPError:
    """The protocol's error for a view that was refused: its own words are for those to whom it belongs."""
    error = body.get("error")
    said = error if isinstance(error, dict) else {}
    if said.get("code") in {ErrorCode.NOT_FOUND, ErrorCode.INVALID_ARGUMENTS}:
        return not_found(what)
    return MCPError(code=INTERNAL_ERROR, message=str(said.get("message", "it cannot be read")), data={"uri": what})


def _read(contents: TextResourceContents | BlobResourceContents, delivers: tuple[str, ...] = ()) -> Read:
    return Read(ReadResourceResult(contents=[contents], ttl_ms=0, cache_scope="private"), delivers)


def _json(uri: str, body: JsonObject, meta: dict[str, Any] | None = None) -> TextResourceContents:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return TextResourceContents(uri=uri, mime_type="application/json", text=text, _meta=meta)


def _text(part: bytes, *, may_be_cut: bool) -> str | None:
    """The text of a part, without a last character that was cut; None if it is no text."""
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        if may_be_cut and error.start >= len(part) - _CUT and error.reason == "unexpected end of data":
            return part[: error.start].decode()
        return None
