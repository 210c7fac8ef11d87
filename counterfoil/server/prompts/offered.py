"""prompts/*: the list, one prompt with its state, and completion of ids. All of it as its principal may see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    Completion,
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from ...canonical import JsonObject, JsonValue
from ...registry.principal import Principal
from ..surface.ports import View
from ..surface.resources import unreadable
from . import state, texts

UNTRUSTED_META: Final = "counterfoil/untrusted"
LONGEST: Final = 4_000
"""Characters of one argument."""
VALUES_MAX: Final = 100
"""So many completions one answer may have (MCP)."""


def _argument(name: str, description: str, *, required: bool = False) -> PromptArgument:
    return PromptArgument(name=name, description=description, required=required)


OFFERED: Final = (
    Prompt(
        name="plan_chain",
        title="Plan a chain",
        description="Reach a goal with one checked plan instead of single calls.",
        arguments=[_argument("goal", "What is to be reached, in plain words", required=True)],
    ),
    Prompt(
        name="explain_run",
        title="Explain a run",
        description="How one of your runs stands, why, and what can be done.",
        arguments=[_argument("run_id", "The run", required=True)],
    ),
    Prompt(
        name="review_pending",
        title="Review what waits for a person",
        description="Your calls and steps that wait for a decision, and where it is taken.",
        arguments=[],
    ),
    Prompt(
        name="settle_unknown",
        title="Settle what is unknown",
        description="Find out what happened to calls of which nobody knows; of all your calls if you name none.",
        arguments=[_argument("call_id", "One call"), _argument("run_id", "All of one run")],
    ),
)
_BY_NAME: Final = {prompt.name: prompt for prompt in OFFERED}


class Desk(Protocol):
    """What prompts ask of the runtime."""

    async def status(
        self,
        principal: Principal,
        *,
        call_id: str | None,
        run_id: str | None,
        after_seq: int | None,
        offset: int | None,
        wait_s: float,
    ) -> View:
        """A call or run; without an id the principal's overview."""
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """A prompt, and the calls whose settled state it shows."""

    result: GetPromptResult
    delivers: tuple[str, ...] = ()


class Prompts:
    """The prompts of one surface."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @staticmethod
    def offered() -> ListPromptsResult:
        """The list, the same for everybody."""
        return ListPromptsResult(prompts=list(OFFERED), ttl_ms=3_600_000, cache_scope="public")

    async def get(self, principal: Principal, name: str, arguments: Mapping[str, str]) -> Shown:
        """One prompt.

        Raises:
            MCPError: there is none of that name, an argument does not fit, or what it names is not this principal's.
        """
        prompt = _BY_NAME.get(name)
        if prompt is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt: {name[:100]}")
        stated = _stated(prompt, arguments)
        match name:
            case "plan_chain":
                return _shown(prompt, texts.plan_chain(stated["goal"]))
            case "explain_run":
                return await self._explain(prompt, principal, stated["run_id"])
            case "review_pending":
                return await self._review(prompt, principal)
            case _:
                return await self._settle(prompt, principal, stated)

    async def complete(self, principal: Principal, argument: str, begun: str) -> Completion:
        """Ids of this principal that begin so; `argument` is `run_id` or `call_id`, and nothing else has any."""
        if argument not in {"run_id", "call_id"}:
            return Completion(values=[], total=0, has_more=False)
        overview, _ = await self._status(principal)
        listed = "runs" if argument == "run_id" else "unresolved"
        found = [one for one in state.ids(overview.get(listed), argument) if one.startswith(begun)]
        return Completion(values=found[:VALUES_MAX], total=len(found), has_more=len(found) > VALUES_MAX)

    async def _explain(self, prompt: Prompt, principal: Principal, run_id: str) -> Shown:
        body, delivers = await self._status(principal, run_id=run_id)
        return _shown(prompt, texts.explain_run(run_id), "run", state.view(body), delivers)

    async def _review(self, prompt: Prompt, principal: Principal) -> Shown:
        overview, delivers = await self._status(principal)
        pending: list[JsonValue] = [state.undecided(one) for one in state.objects(overview.get("pending"))]
        text = texts.review_pending(state.ids(overview.get("pending"), "approval_id"))
        return _shown(prompt, text, "pending", pending, delivers)

    async def _settle(self, prompt: Prompt, principal: Principal, stated: Mapping[str, str]) -> Shown:
        if len(stated) > 1:
            raise MCPError(code=INVALID_PARAMS, message="settle_unknown takes call_id or run_id, or neither; not both")
        body, delivers = await self._status(principal, **stated)
        if stated:
            named: JsonObject = dict(stated)
            unknown = body.get("state") == "awaiting_reconciliation" or bool(body.get("unresolved"))
            text = texts.settle_unknown([named]) if unknown else texts.not_unknown(named)
            return _shown(prompt, text, "run" if "run_id" in stated else "call", state.view(body), delivers)
        unresolved: list[JsonValue] = [state.view(one) for one in state.objects(body.get("unresolved"))]
        ids: list[JsonObject] = [{"call_id": one} for one in state.ids(body.get("unresolved"), "call_id")]
        return _shown(prompt, texts.settle_unknown(ids), "unresolved", unresolved, delivers)

    async def _status(
        self, principal: Principal, call_id: str | None = None, run_id: str | None = None
    ) -> tuple[JsonObject, tuple[str, ...]]:
        view = await self._desk.status(principal, call_id=call_id, run_id=run_id, after_seq=None, offset=None, wait_s=0)
        body = view.wire()
        if view.is_error:
            raise unreadable(call_id or run_id or "", body)
        return body, view.delivers


def _stated(prompt: Prompt, arguments: Mapping[str, str]) -> dict[str, str]:
    """The arguments that say something.

    Raises:
        MCPError: one is missing, too long or unknown.
    """
    known = {argument.name: bool(argument.required) for argument in prompt.arguments or []}
    stated = {name: value.strip() for name, value in arguments.items() if value.strip()}
    problems = [f"{name[:100]} is no argument of it" for name in stated if name not in known]
    problems += [f"{name} is missing" for name, required in known.items() if required and name not in stated]
    problems += [f"{name} has more than {LONGEST} characters" for name in known if len(stated.get(name, "")) > LONGEST]
    if problems:
        raise MCPError(code=INVALID_PARAMS, message=f"Prompt {prompt.name}: {'; '.join(problems)}")
    return stated


def _shown(prompt: Prompt, text: str, kind: str = "", about: JsonValue = None, delivers: tuple[str, ...] = ()) -> Shown:
    """A prompt's text, then its state in a message of its own, which is marked as data from outside."""
    messages = [PromptMessage(role="user", content=TextContent(text=text))]
    if about:
        data = TextContent(text=state.text_of(kind, about), _meta={UNTRUSTED_META: True})
        messages.append(PromptMessage(role="user", content=data))
    return Shown(GetPromptResult(description=prompt.description, messages=messages), delivers)
