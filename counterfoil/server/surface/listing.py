"""tools/list: the base tools and what is listed for a principal, in one fixed order, page by page.

The list depends on the principal's scopes alone. It must not change as a side effect of a call (MCP 2026-07-28).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, ListToolsResult, Tool, ToolAnnotations

from ...canonical import JsonObject, JsonValue
from ...registry.contract import Contract
from ...registry.principal import Principal
from ...registry.vocabulary import Effect, Idempotency
from .ports import BaseTool, Hints

PAGE: Final = 200
TTL_MS: Final = 60_000
ALWAYS_LOAD: Final = "anthropic/alwaysLoad"
DIGEST_META: Final = "counterfoil/schema_digest"


class Listing:
    """The lists of all principals."""

    def __init__(
        self,
        base_tools: Sequence[BaseTool],
        listed: Callable[[Principal], Sequence[Contract]],
        call_view: JsonObject,
        page: int = PAGE,
    ) -> None:
        """`call_view` is the JSON Schema of a call view, without `$defs`."""
        self._base = [_base_tool(tool) for tool in base_tools]
        self._listed = listed
        self._call_view = call_view
        self._page = page

    def page(self, principal: Principal, cursor: str | None) -> ListToolsResult:
        """One page.

        Raises:
            MCPError: the cursor is none of ours, or what it pointed at is gone; begin anew.
        """
        contracts = sorted(self._listed(principal), key=lambda contract: contract.name)
        names = [*(tool.name for tool in self._base), *(contract.name for contract in contracts)]
        start = 0 if cursor is None else _after(cursor, names)
        end = start + self._page
        size = len(self._base)
        shown = self._base[start:end]
        shown += [self._tool(contract) for contract in contracts[max(0, start - size) : max(0, end - size)]]
        following = _cursor(names[end - 1]) if end < len(names) else None
        return ListToolsResult(tools=shown, next_cursor=following, ttl_ms=TTL_MS, cache_scope="private")

    def _tool(self, contract: Contract) -> Tool:
        return Tool(
            name=contract.name,
            title=contract.text.title,
            description=contract.text.description,
            input_schema=contract.schemas.input,
            output_schema=advertised(contract.schemas.output, self._call_view),
            annotations=ToolAnnotations(
                read_only_hint=contract.is_read,
                destructive_hint=contract.gate.effect is Effect.DESTRUCTIVE,
                idempotent_hint=contract.is_read or contract.recovery.idempotency is not Idempotency.NONE,
                open_world_hint=contract.gate.open_world,
            ),
            _meta={DIGEST_META: contract.short_digest},
        )


def advertised(output: JsonObject | None, call_view: JsonObject) -> dict[str, Any] | None:
    """The output schema of a listed tool: its own output, or the call view, which a direct call may answer instead.

    Definitions move to the root, where references look for them. A value that is no object travels as `result`.
    """
    if output is None:
        return None
    own = {name: part for name, part in output.items() if name not in {"$defs", "definitions", "$schema", "$id"}}
    wrapped: JsonObject = {"type": "object", "properties": {"result": own}, "required": ["result"]}
    kind = own.get("type")
    forms: list[JsonValue] = [own] if kind == "object" else [wrapped] if isinstance(kind, str) else [own, wrapped]
    moved: dict[str, JsonValue] = {name: part for name, part in output.items() if name in {"$defs", "definitions"}}
    return {"type": "object", "anyOf": [*forms, call_view], **moved}


def _base_tool(tool: BaseTool) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=_hints(tool.annotations),
        _meta={ALWAYS_LOAD: True},
    )


def _hints(hints: Hints) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=hints.read_only,
        destructive_hint=hints.destructive,
        idempotent_hint=hints.idempotent,
        open_world_hint=hints.open_world,
    )


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(f"after:{name}".encode()).decode()


def _after(cursor: str, names: list[str]) -> int:
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
        return names.index(text.removeprefix("after:")) + 1 if text.startswith("after:") else _refuse()
    except (binascii.Error, ValueError):
        return _refuse()


def _refuse() -> int:
    raise MCPError(code=INVALID_PARAMS, message="Invalid cursor; list again without one") from None
