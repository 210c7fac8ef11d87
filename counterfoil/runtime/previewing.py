"""What a read shows whoever decides: run before a proposal is made, kept beside it, no part of what is decided.

A preview is a governed read of the requester's own: its scopes, its policy, its budgets, its record. It delays a
proposal by at most the time-out of its contract, and never prevents one: where none could be had, that and why is kept
in its place. Nothing here is run again when a decision is carried out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from ..ledger.errors import LedgerError
from ..ledger.redact import hide_values, redact_text
from ..registry.filling import ABSENT, Values, fill
from ..registry.request import CallRequest
from ..registry.secret_places import secret_texts
from ..registry.vocabulary import OutcomeClass, Route
from ..visible import visible
from .clock import rfc3339

if TYPE_CHECKING:
    from ..registry.catalogue import Entry
    from ..registry.contract import Contract
    from ..registry.principal import Principal
    from ..registry.vocabulary import JsonObject, JsonValue
    from .case import Case
    from .parts import Parts
    from .views import CallView

ITEMS: Final = 5
"""How many items of one proposal are previewed."""
SHOWN_BYTES: Final = 4_096
"""How much of what a preview said is kept, for all items together."""
ERROR_CHARACTERS: Final = 300
APPROVAL_NEEDED: Final = "A person would have to decide about the preview itself, so it was not asked for."
NOT_READ: Final = f"At most {ITEMS} items of a step are previewed at once, and this one was not among them."
LEFT: Final = "It was given up, since whoever asked had to be answered before it had anything to show."

Ask = Callable[[CallRequest], Awaitable["CallView"]]


@dataclass(frozen=True, slots=True)
class Proposed:
    """A call that is about to be proposed, and whose request may be watched meanwhile."""

    call_id: str
    action_id: str
    contract: Contract
    arguments: JsonObject
    principal: Principal
    item: int | None = None
    case: Case | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What one preview showed, redacted and made visible; or why there is none."""

    output: JsonValue = None
    error: str | None = None


class Previewer:
    """Runs previews. `ask` is the one way in for a call."""

    def __init__(self, parts: Parts, ask: Ask) -> None:
        self._parts = parts
        self._ask = ask

    async def of(self, proposed: Sequence[Proposed]) -> dict[str, Preview]:
        """The previews of the calls of one proposal, by call id; of the first few, where they are many."""
        named = [one for one in proposed[:ITEMS] if one.contract.gate.preview is not None]
        most = SHOWN_BYTES // max(1, len(named))
        found = await asyncio.gather(*(self._one(one, most) for one in named))
        return {one.call_id: preview for one, preview in zip(named, found, strict=True)}

    def kept(self, proposed: Sequence[Proposed], found: dict[str, Preview]) -> str | None:
        """What is kept beside the proposal of these calls, as JSON; None where their tool names no preview."""
        tool = proposed[0].contract.gate.preview
        if tool is None:
            return None
        told: JsonObject = {"tool": tool, "at": rfc3339(self._parts.clock.now()), "untrusted": True}
        if len(proposed) == 1:
            only = found.get(proposed[0].call_id, Preview(error=NOT_READ))
            return json.dumps({**told, "output": only.output, "error": only.error})
        items: list[JsonValue] = [
            {"n": one.item, "output": preview.output, "error": preview.error}
            for one in proposed
            if (preview := found.get(one.call_id)) is not None
        ]
        some = f"Previewed are {len(items)} of its {len(proposed)} items." if len(items) < len(proposed) else None
        return json.dumps({**told, "output": None, "error": some, "items": items})

    async def _one(self, one: Proposed, most: int) -> Preview:
        name = cast("str", one.contract.gate.preview)
        entry = self._parts.catalogue.get(name)
        if entry is None:
            return Preview(error=f"There is no tool {name} any more.")
        arguments = _arguments(one, entry.contract)
        request = CallRequest(
            principal=one.principal,
            tool=name,
            arguments=arguments,
            read_only=True,
            route=Route.PREVIEW,
            parent_call_id=one.call_id,
        )
        view = await self._in_time(request, entry.contract.limits.timeout_s, one.case)
        if isinstance(view, str):
            return Preview(error=view)
        return await self._shown(one, entry, arguments, view, most)

    async def _in_time(self, request: CallRequest, timeout_s: float, case: Case | None) -> CallView | str:
        """The read's answer, or why it was not waited for. A read that is given up is stopped."""
        asked = asyncio.ensure_future(self._ask(request))
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        try:
            while not asked.done():
                if case is not None and (case.unwanted or (case.wants_row and case.row is None)):
                    return LEFT
                if (left := ends - loop.time()) <= 0:
                    return f"It gave no answer within {timeout_s:g} s."
                watched = {asked, *({case.nudged} if case is not None else ())}
                await asyncio.wait(watched, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if case is not None:
                    case.heard()
            return asked.result()
        finally:
            asked.cancel()
            await asyncio.wait({asked})

    async def _shown(self, one: Proposed, entry: Entry, arguments: JsonValue, view: CallView, most: int) -> Preview:
        secrets = (
            *secret_texts(one.arguments, one.contract.gate.sensitive),
            *secret_texts(arguments, entry.contract.gate.sensitive),
        )
        if view.outcome == OutcomeClass.NO_RESULT.value:
            return Preview(error="It found nothing.")
        if view.error is not None or view.outcome not in {OutcomeClass.SUCCESS.value, OutcomeClass.PARTIAL.value}:
            told = view.error.message if view.error is not None else f"It is {view.state.value}."
            return Preview(error=visible(redact_text(str(hide_values(told, secrets)), ERROR_CHARACTERS)))
        try:
            output = await self._whole(view)
        except LedgerError:
            return Preview(error="It was read, and what it showed cannot be read back now.")
        return Preview(made_visible(self._parts.ledger.project(hide_values(output, secrets), (), most)))

    async def _whole(self, view: CallView) -> JsonValue:
        """What it showed, also where that is too large for a caller: it is redacted as a whole, then cut."""
        if view.truncated is None:
            return view.output
        value: JsonValue = json.loads(await self._parts.ledger.open_payload(view.truncated.payload_id))
        return value


def _arguments(one: Proposed, preview: Contract) -> JsonValue:
    """By the contract's template, or those of the call's own that the preview takes."""
    template = one.contract.gate.preview_arguments
    if template is not None:
        filled = fill(template, Values(one.arguments, one.call_id, one.action_id))
        return None if filled is ABSENT else filled
    takes = preview.schemas.input.get("properties")
    known: JsonObject = takes if isinstance(takes, dict) else {}
    return {name: value for name, value in one.arguments.items() if name in known}


def made_visible(value: JsonValue) -> JsonValue:
    """A value of the far side whose texts hide nothing from whoever looks at it."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [made_visible(item) for item in value]
    if isinstance(value, dict):
        return {visible(name): made_visible(item) for name, item in value.items()}
    return value
