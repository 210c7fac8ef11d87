"""resources/*: what can be read about one tool, and the parts of one artifact.

An id that belongs to somebody else and one that nobody has get the same answer.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Final

from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourceTemplatesResult,
    ReadResourceResult,
    ResourceTemplate,
    TextResourceContents,
)

from ...registry.principal import Principal
from .ports import Catalogue, Desk

NEXT_META: Final = "counterfoil/next_offset"
_TOOL = re.compile(r"counterfoil://tools/([a-z0-9_]{1,64})")
_ARTIFACT = re.compile(r"counterfoil://artifacts/([A-Za-z0-9_-]{1,128})(?:\?offset=([0-9]{1,15}))?")
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
        description=f"A large output, in parts: `_meta` has `{NEXT_META}` for as long as there is more.",
    ),
)


class Resources:
    """Reads of tools and artifacts."""

    def __init__(self, desk: Desk, catalogue: Catalogue, part_bytes: int) -> None:
        """`part_bytes` is how much of an artifact one read gives."""
        self._desk = desk
        self._catalogue = catalogue
        self._part_bytes = max(part_bytes, _CUT + 1)

    @staticmethod
    def templates() -> ListResourceTemplatesResult:
        """What can be read."""
        return ListResourceTemplatesResult(resource_templates=list(TEMPLATES), ttl_ms=3_600_000, cache_scope="public")

    async def read(self, principal: Principal, uri: str) -> ReadResourceResult:
        """One resource.

        Raises:
            MCPError: this principal has none of that address.
        """
        contents: TextResourceContents | BlobResourceContents | None = None
        if found := _TOOL.fullmatch(uri):
            contents = self._tool(principal, uri, found[1])
        elif found := _ARTIFACT.fullmatch(uri):
            contents = await self._artifact(principal, uri, found[1], int(found[2] or 0))
        if contents is None:
            raise MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": uri})
        return ReadResourceResult(contents=[contents], ttl_ms=0, cache_scope="private")

    def _tool(self, principal: Principal, uri: str, name: str) -> TextResourceContents | None:
        card = self._catalogue.card(principal, name)
        if card is None:
            return None
        text = json.dumps(card, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return TextResourceContents(uri=uri, mime_type="application/json", text=text)

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


def _text(part: bytes, *, may_be_cut: bool) -> str | None:
    """The text of a part, without a last character that was cut; None if it is no text."""
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        if may_be_cut and error.start >= len(part) - _CUT and error.reason == "unexpected end of data":
            return part[: error.start].decode()
        return None
