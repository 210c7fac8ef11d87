"""Our tools as MCP, in both eras of the protocol: the SDK's low-level server with handlers that ask the other rooms.

The SDK validates neither arguments nor outputs and hides what a handler raises, so everything that a model should read
is a result. Effects run in tasks of the runtime: a request that ends here never abandons a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, TypeVar

from mcp.server import CacheHint, Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CompleteRequestParams,
    CompleteResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from ..canonical import JsonObject, pointer
from ..registry.principal import Principal
from ..registry.problem import Problem, as_json
from ..registry.question import Question, Said
from ..registry.request import KEY_MAX, CallRequest
from ..registry.vocabulary import ErrorCode
from .prompts import Prompts
from .surface.answers import WireResult, log_failure, own_output, refusal, refused_view, result
from .surface.asking import Forms, boundary
from .surface.delivery import Deliveries
from .surface.ending import cancelled_by_client, told_why
from .surface.exchange import Exchange
from .surface.listeners import SUBSCRIBED_MAX, Concerns, Listeners
from .surface.listing import DIGEST_META, PAGE, Listing
from .surface.notices import may_change
from .surface.ports import Answered, Asked, BaseTool, Catalogue, Desk, View
from .surface.progress import HEARTBEAT_S, Progress
from .surface.resources import Resources, not_found

Context = ServerRequestContext[dict[str, Any], Any]
T = TypeVar("T")
KEY_META: Final = "counterfoil/idempotency_key"
WITHOUT_PROGRESS_S: Final = 4.0
"""How long calls wait where the client shows no progress: one common client cuts off at 5 s."""
OPEN_CALLS: Final = 1_000
"""How many calls of one process wait for their answers at once."""
_LONGEST_CLAIM: Final = 200
_OPENINGS: Final = frozenset({"initialize", "server/discover"})
_CALL_TOOLS: Final = frozenset({"tool_call", "tool_read"})
_WORKING_TOOLS: Final = _CALL_TOOLS | {"plan", "run"}
_TAKES_WORDS: Final = "reconcile"
"""The base tool whose arguments are a part of what its form is about, so that a late answer needs them too."""
_STOPPABLE: Final = "run"
"""The base tool whose work goes on without its request, so that it has to know why that ended."""
_SAYS_MORE: Final = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False},
}
"""What is true of our lists: the SDK takes it that whoever serves subscriptions tells of every kind."""
_STOPPING: Final = "the server is stopping and takes no new calls; nothing was sent; ask again once it runs"
_TOO_MANY: Final = f"{OPEN_CALLS} calls are open here already; nothing was sent; ask again when some have ended"
_INTERNAL: Final = "the server failed before anything was sent; its log says where"


class Surface:
    """One MCP server. `server` is the SDK's; the rest is what transports need of it."""

    def __init__(  # noqa: PLR0913 (the parts that the composition root puts together)
        self,
        *,
        name: str,
        version: str,
        instructions: Callable[[Principal], str],
        base_tools: Sequence[BaseTool],
        desk: Desk,
        catalogue: Catalogue,
        principal_of: Callable[[Context], Principal],
        call_view: JsonObject,
        exchange_of: Callable[[Context], Exchange | None] = lambda _ctx: None,
        state_keys: Sequence[bytes],
        state_s: float = 86_400.0,
        client_wait_s: float = 8.0,
        wait_s: float = 20.0,
        part_bytes: int = 60_000,
        heartbeat_s: float = HEARTBEAT_S,
        page: int = PAGE,
    ) -> None:
        """`call_view` is the JSON Schema of call views; `wait_s` how long calls wait where progress is shown.

        `state_keys` seal what a client carries between the rounds of a request, for `state_s`; `client_wait_s` is how
        long a request waits for an older client's own dialog. `exchange_of` gives a request's exchange, over a
        transport where each answer has a stream of its own.
        """
        self._instructions = instructions
        self._exchange_of = exchange_of
        self._base = {tool.name: tool for tool in base_tools}
        self._desk = desk
        self._catalogue = catalogue
        self._principal_of = principal_of
        self._wait_s = wait_s
        self._heartbeat_s = heartbeat_s
        self._listing = Listing(base_tools, catalogue.listed, call_view, page)
        self._resources = Resources(desk, catalogue, part_bytes)
        self._prompts = Prompts(desk)
        self._deliveries = Deliveries(desk)
        self._forms = Forms(desk.answer, client_wait_s)
        self._listeners = Listeners()
        self._open = 0
        self._refusing = False
        self.server = self._server(name, version)
        self.server.middleware.append(boundary(name, list(state_keys), state_s, principal_of))

    def _server(self, name: str, version: str) -> Server[dict[str, Any]]:
        """The SDK's server with our handlers."""
        server: Server[dict[str, Any]] = Server(
            name,
            version=version,
            cache_hints={"server/discover": CacheHint(ttl_ms=60_000, scope="private")},
            on_list_tools=self._list_tools,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            get_tool_input_schema=lambda _name: None,  # else the SDK lists all tools to read a header that we have not
        )
        server.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        server.middleware.append(self._open_for)
        server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)
        return server

    async def announce_tools_changed(self, concerns: Concerns = lambda _principal: True) -> None:
        """Tell the clients whom it concerns, each in its own era, that the catalogue itself has changed."""
        await self._listeners.tell(concerns)

    def run_changed(self, run_id: str, owner: Principal) -> None:
        """Tell the owner's subscribers that a run has changed. On the loop; it waits for nothing."""
        self._listeners.run_changed(run_id, owner)

    async def answered(self, exchange: Exchange, *, written: bool) -> None:
        """The answer of an exchange has been written to its transport, or never will be; the runtime then knows it."""
        await (self._deliveries.written if written else self._deliveries.lost)(exchange)

    def receipt(self) -> Callable[[], None] | None:
        """What to do once the answer of the current task has been written to the transport."""
        return self._deliveries.receipt()

    async def receipts_done(self) -> None:
        """Wait until the runtime knows all that was written."""
        await self._deliveries.done()

    def refuse_calls(self) -> None:
        """Answer new calls as `unavailable` from now on."""
        self._refusing = True

    def end_streams(self) -> None:
        """End every subscription in order."""
        self._listeners.close()
        self._forms.close()

    async def _open_for(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """What a server says of itself depends on who asks; the SDK knows only one text for all."""
        result = await call_next(ctx)
        if ctx.method not in _OPENINGS or not isinstance(result, dict):
            return result
        stated = result["capabilities"]
        more = {name: stated.get(name, {}) | said for name, said in _SAYS_MORE.items()}
        capabilities = {**stated, **more}
        return {**result, "capabilities": capabilities, "instructions": self._instructions(self._principal_of(ctx))}

    async def _initialized(self, ctx: Context, _params: NotificationParams) -> None:
        self._listeners.add(self._principal_of(ctx), ctx.session)

    async def _listen(self, ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        return await self._listeners.listen(self._principal_of(ctx), ctx, params)

    async def _list_tools(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return self._listing.page(self._principal(ctx), params.cursor if params else None)

    async def _list_resources(self, _ctx: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=[], ttl_ms=3_600_000, cache_scope="public")

    async def _list_templates(
        self, _ctx: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return self._resources.templates()

    async def _read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        principal = self._principal(ctx)
        read = await self._resources.read(principal, params.uri)
        self._deliveries.note(read.delivers, principal, self._exchange_of(ctx))
        return read.result

    async def _subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        if not may_change(params.uri):
            raise not_found(params.uri)
        if not self._listeners.subscribe(self._principal_of(ctx), ctx.session, params.uri):
            raise MCPError(code=INVALID_PARAMS, message=f"At most {SUBSCRIBED_MAX} subscriptions; end some first")
        return EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        self._listeners.unsubscribe(self._principal_of(ctx), ctx.session, params.uri)
        return EmptyResult()

    async def _list_prompts(self, _ctx: Context, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        return self._prompts.offered()

    async def _get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        principal = self._principal(ctx)
        prompt = await self._prompts.get(principal, params.name, params.arguments or {})
        self._deliveries.note(prompt.delivers, principal, self._exchange_of(ctx))
        return prompt.result

    async def _complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        asked = params.argument
        return CompleteResult(completion=await self._prompts.complete(self._principal(ctx), asked.name, asked.value))

    async def _call_tool(self, ctx: Context, params: CallToolRequestParams) -> WireResult:
        tool = self._base.get(params.name)
        is_call = tool is None or params.name in _WORKING_TOOLS  # the other base tools are how open calls are followed
        if self._refusing and is_call:
            return self._no(params.name, ErrorCode.UNAVAILABLE, _STOPPING)
        if self._open >= OPEN_CALLS and is_call:
            return self._no(params.name, ErrorCode.UNAVAILABLE, _TOO_MANY)
        self._open += is_call
        try:
            work = self._base_call(ctx, params, tool) if tool else self._direct_call(ctx, params)
            exchange = self._exchange_of(ctx)
            return await (work if exchange is None else exchange.awaited(work))
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 (where a request enters: the SDK would hide it from the model)
            log_failure("a base tool" if tool else "a direct call", error)
            return self._no(params.name, ErrorCode.INTERNAL, _INTERNAL)
        finally:
            self._open -= is_call

    async def _base_call(self, ctx: Context, params: CallToolRequestParams, tool: BaseTool) -> WireResult:
        asked = self._asked(ctx)

        def work(again: Asked) -> Awaitable[Answered]:
            done: Awaitable[Answered] = tool.handler(params.arguments or {}, again)
            stoppable = tool.name == _STOPPABLE
            return _patient(told_why(done, lambda: cancelled_by_client(ctx)) if stoppable else done, again)

        def late(said: Said) -> Awaitable[Answered]:
            return work(replace(asked, progress=None, can_ask=True, said=said))

        said_later = late if tool.name == _TAKES_WORDS else None
        answer = await self._forms.answered(ctx, params, asked, work, said_later)
        if isinstance(answer, dict):
            return answer
        answered = _shown(tool.name, answer.body, is_error=answer.is_error)
        self._deliveries.note(answer.delivers, asked.principal, self._exchange_of(ctx))
        return answered

    async def _direct_call(self, ctx: Context, params: CallToolRequestParams) -> WireResult:
        asked = self._asked(ctx)
        meta: Mapping[str, object] = ctx.meta or {}
        for name in (DIGEST_META, KEY_META):
            if not isinstance(meta.get(name, ""), str):
                return self._no_meta(params.name, name, "a string", "something else")
        if len(str(meta.get(KEY_META, ""))) > KEY_MAX:
            return self._no_meta(params.name, KEY_META, f"at most {KEY_MAX} characters", "more")
        found = await self._forms.answered(ctx, params, asked, lambda again: self._direct(params, again, meta))
        if isinstance(found, dict):
            return found
        view = found.view
        body = view.wire()
        if _names_nothing(body):
            raise _unknown(params.name)
        output = own_output(body)
        call = None if output is None else body
        answered = _shown(params.name, body if output is None else output, is_error=view.is_error, call=call)
        self._deliveries.note(view.delivers, asked.principal, self._exchange_of(ctx))
        return answered

    async def _direct(self, params: CallToolRequestParams, asked: Asked, meta: Mapping[str, Any]) -> _Direct:
        said, principal = asked.said, asked.principal
        if said is None:
            view = await _patient(self._desk.call(_request(params, asked, meta)), asked)
        else:
            call_id = str((await self._desk.answer(principal, said)).wire().get("call_id"))
            view = await _patient(self._desk.follow(principal, call_id, asked.default_wait_s), asked)
        asks = asked.can_ask and bool(view.pending) and (said is None or said.action == "accept")
        return _Direct(view, await self._desk.question(principal, view.pending) if asks else None)

    def _asked(self, ctx: Context) -> Asked:
        """Who asks, how long they wait, and whether they are shown progress meanwhile."""
        principal = self._principal(ctx)
        if (ctx.meta or {}).get("progress_token") is None:
            return Asked(principal, None, min(self._wait_s, WITHOUT_PROGRESS_S))
        return Asked(principal, Progress(ctx.session, self._heartbeat_s), self._wait_s, has_progress_token=True)

    def _principal(self, ctx: Context) -> Principal:
        principal = self._principal_of(ctx)
        client = ctx.session.client_params
        if client is None:
            return principal
        info = client.client_info
        claims = (*principal.claimed.items(), ("name", info.name[:_LONGEST_CLAIM]))
        return _claiming(principal, (*claims, ("version", info.version[:_LONGEST_CLAIM])))

    def _no(self, name: str, code: ErrorCode, message: str, details: JsonObject | None = None) -> WireResult:
        shows_a_call = name in _CALL_TOOLS or name not in self._base
        body = refused_view(name, code, message, details) if shows_a_call else refusal(code, message, details)
        return result(body, is_error=True)

    def _no_meta(self, name: str, member: str, expected: str, got: str) -> WireResult:
        problem = Problem.of(pointer(("_meta", member)), expected, got)
        return self._no(name, ErrorCode.INVALID_ARGUMENTS, problem.message, {"problems": as_json([problem])})


@dataclass(frozen=True, slots=True)
class _Direct:
    """A direct call as it stands, and what the person at the client is to be asked first."""

    view: View
    question: Question | None


@lru_cache(maxsize=256)
def _claiming(principal: Principal, claims: tuple[tuple[str, str], ...]) -> Principal:
    """The same principal with what its client says of itself: the same with every call of a session."""
    return replace(principal, claimed=dict(claims))


async def _patient(work: Awaitable[T], asked: Asked) -> T:
    """What the work comes to; where the client is shown progress it is kept patient meanwhile."""
    if not isinstance(asked.progress, Progress):
        return await work
    async with asked.progress.alive():
        return await work


def _request(params: CallToolRequestParams, asked: Asked, meta: Mapping[str, Any]) -> CallRequest:
    return CallRequest(
        asked.principal,
        tool=params.name,
        arguments=params.arguments or {},
        schema_digest=meta.get(DIGEST_META),
        needs_digest=True,  # unless the tool is listed, which admission knows
        idempotency_key=meta.get(KEY_META),
        wait_s=asked.default_wait_s,
        progress=asked.progress,
    )


def _shown(name: str, body: JsonObject, *, is_error: bool, call: JsonObject | None = None) -> WireResult:
    """The result of a body that says what happened.

    Raises:
        MCPError: it is not strict JSON. No code of ours may deny what it would have said, so nothing is said.
    """
    try:
        return result(body, is_error=is_error, call=call)
    except ValueError as error:
        log_failure("showing an answer", error)
        call_id = (call or body).get("call_id")
        message = f"The answer of {name} cannot be shown; use status to see what happened"
        raise MCPError(code=INTERNAL_ERROR, message=message, data={"call_id": call_id}) from None


def _names_nothing(body: JsonObject) -> bool:
    """True for the refusal of a name that the caller does not know, the sixth time too; it has been recorded by now."""
    error = body.get("error")
    if not isinstance(error, dict):
        return False
    details = error.get("details")
    last = details.get("last_code") if isinstance(details, dict) else None
    return ErrorCode.UNKNOWN_TOOL in (error.get("code"), last)


def _unknown(name: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {name[:_LONGEST_CLAIM]}")
