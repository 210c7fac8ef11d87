"""How the person at a client is asked, in its own era; what is asked, and what an answer means, is the runtime's.

A client of 2026-07-28 gets its question as the result of the request and asks again with the answer; the state that
it carries is sealed, holds no content, and is never enough by itself. An older one is asked while its request is open,
by a task of ours that outlives that request. One form at a time, each with its end.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from mcp.server import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types import CallToolRequestParams, ElicitResult
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from ...registry.principal import Principal
from ...registry.question import Question, Said
from .answers import WireResult
from .ports import Asked

Context = ServerRequestContext[dict[str, Any], Any]
FORM: Final = "decision"
MOST_FORMS: Final = 3
"""How often one request asks about one proposal, where the code that was typed is another one."""
_WRONG: Final = "The code was another one; nothing was decided."
OPEN_FORMS: Final = 32
"""How many forms are open at one older client: nobody's forms keep another's person from being asked."""
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["approve", "reject"], "title": "Decision"},
        "code": {
            "type": "string",
            "title": "Code",
            "description": "The six characters shown above",
            "minLength": 6,
            "maxLength": 6,
        },
    },
    "required": ["decision", "code"],
}
_log = logging.getLogger(__name__)


class Asks(Protocol):
    """An answer that may have a question first."""

    @property
    def question(self) -> Question | None: ...  # noqa: D102 (the class says it)


A = TypeVar("A", bound=Asks)
Late = Callable[[Said], Awaitable[object]]
"""Takes an answer that came after its request had its own."""


def boundary(
    name: str, keys: list[bytes], valid_s: float, principal_of: Callable[[Context], Principal]
) -> RequestStateBoundary:
    """Seals what clients carry between rounds: bound to the request, to who asks, and to the server's name."""

    def bound(ctx: ServerRequestContext[Any, Any]) -> str:
        who = principal_of(ctx)
        return json.dumps([who.tenant, who.subject, who.client])

    security = RequestStateSecurity(keys=keys, ttl=valid_s, bind_principal=bound)
    return RequestStateBoundary(security, default_audience=name)


class Forms:
    """Puts questions to people. `wait_s` is how long a request waits for an older client's dialog, in seconds."""

    def __init__(self, decided: Callable[[Principal, Said], Awaitable[object]], wait_s: float) -> None:
        self._decided = decided
        self._wait_s = wait_s
        self._open: dict[tuple[str, str, str, str], asyncio.Task[Said | None]] = {}
        self._following: set[asyncio.Task[None]] = set()

    def can_ask(self, ctx: Context) -> bool:
        """True if this client shows its person forms, and can be reached in its era."""
        capabilities = ctx.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        if elicitation is None or (elicitation.form is None and elicitation.url is not None):
            return False
        return is_modern(ctx) or ctx.session.can_send_request

    async def answered(
        self,
        ctx: Context,
        params: CallToolRequestParams,
        asked: Asked,
        work: Callable[[Asked], Awaitable[A]],
        late: Late | None = None,
    ) -> A | WireResult:
        """The answer of this request, once whoever must be asked has said something; or the question, as a result.

        What is said after this request had its answer is taken by `late`; unless given, as a decision.
        """
        asked = replace(asked, can_ask=self.can_ask(ctx))
        wrong, said = _returned(params) if is_modern(ctx) else (0, None)
        answer = await work(replace(asked, said=said))
        while answer.question is not None:
            wrong += said is not None and said.key == answer.question.key
            if wrong >= MOST_FORMS:
                break
            message = answer.question.message if not wrong else f"{_WRONG}\n{answer.question.message}"
            question = replace(answer.question, message=message)
            if is_modern(ctx):
                return _input_required(question, wrong)
            said = await self._elicit(ctx, asked.principal, question, late or partial(self._decided, asked.principal))
            if said is None:
                break
            answer = await work(replace(asked, said=said))
        return answer

    def close(self) -> None:
        """Wait for no form any more."""
        for task in (*self._open.values(), *self._following):
            task.cancel()

    async def _elicit(self, ctx: Context, principal: Principal, question: Question, late: Late) -> Said | None:
        """What the person at an older client says within the wait; what comes later is taken all the same."""
        client = (principal.tenant, principal.subject, principal.client)
        form = (*client, question.key)
        if form in self._open or sum(other[:3] == client for other in self._open) >= OPEN_FORMS:
            return None
        task = self._open[form] = asyncio.create_task(_shown(ctx, question))
        task.add_done_callback(lambda _: self._open.pop(form, None))
        taken = False
        try:
            await asyncio.wait({task}, timeout=self._wait_s)
            taken = task.done()
        finally:  # also where the request itself was given up: what the person says counts
            if not taken:
                following = asyncio.create_task(_follow(task, late))
                self._following.add(following)
                following.add_done_callback(self._following.discard)
        return task.result() if taken else None


async def _follow(task: asyncio.Task[Said | None], late: Late) -> None:
    said = await task
    if said is not None:
        await late(said)


def is_modern(ctx: Context) -> bool:
    """True for a client that is asked by a result, not by a request of ours."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _shown(ctx: Context, question: Question) -> Said | None:
    """A form at an older client, until it is answered or the proposal has expired. None if it cannot be shown."""
    try:
        async with asyncio.timeout(question.lasts_s):
            result = await ctx.session.elicit_form(question.message, _SCHEMA, related_request_id=ctx.request_id)
    except Exception as error:  # noqa: BLE001 (whatever a client makes of a form: unanswered)
        _log.warning("a form was not answered: %s", type(error).__name__)
        return None
    return _said(question.key, result)


def _said(key: str, result: ElicitResult) -> Said:
    content = result.content or {}
    decision, code = content.get("decision"), content.get("code")
    return Said(
        key,
        result.action,
        decision if isinstance(decision, str) else None,
        code if isinstance(code, str) else None,
    )


def _returned(params: CallToolRequestParams) -> tuple[int, Said | None]:
    """How often another code was typed, and what came back; the state was sealed by us, the answer is anybody's."""
    if params.request_state is None:
        return 0, None
    wrong, _, key = params.request_state.partition(":")
    result = (params.input_responses or {}).get(FORM)
    return int(wrong), _said(key, result) if isinstance(result, ElicitResult) else None


def _input_required(question: Question, wrong: int) -> WireResult:
    form = {"mode": "form", "message": question.message, "requestedSchema": _SCHEMA}
    return {
        "resultType": "input_required",
        "inputRequests": {FORM: {"method": "elicitation/create", "params": form}},
        "requestState": f"{wrong}:{question.key}",
    }
