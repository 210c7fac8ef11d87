"""What every HTTP request passes before MCP sees it: Host, Origin, identity, number, size, strict JSON.

Nothing that fails here is looked up, recorded or answered with content. What a message means is the surface's; how its
answer travels is the SDK's; whether that answer was written is noted here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest

from ...registry.strict_json import Bounds
from ..strict import Broken, Id, message_of
from ..surface.answers import log_failure
from ..surface.exchange import Exchange
from . import replies
from .callbacks import PATH, Knock, called_back, nobody
from .line import LINE, LineProtocol
from .open import OpenRequests

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ...registry.principal import Principal
    from .doorman import Doorman, Headers
    from .place import Place
    from .sessions import Sessions

EXCHANGE: Final = "counterfoil.exchange"
WRITE_S: Final = 60.0
"""How long a client may take to read what was sent so far, in seconds."""
DROPPED: Final = 32
"""So many times the largest body are read and dropped before a client that sends too much is cut off."""
_OPEN: Final = "initialize"
_LISTEN: Final = "subscriptions/listen"
_CANCELLED: Final = "notifications/cancelled"
_METHODS: Final = frozenset({"GET", "POST", "DELETE"})


class Answered(Protocol):
    """Is told whether the answer of an exchange was written; the runtime knows it when this is done."""

    async def __call__(self, exchange: Exchange, *, written: bool) -> None: ...  # noqa: D102 (the class says it)


def exchange_of(ctx: ServerRequestContext[Any, Any]) -> Exchange:
    """The exchange of a request that came through the edge."""
    request: Any = ctx.request
    return cast("Exchange", request.scope[EXCHANGE])


class RefusedError(Exception):
    """A request ends here, with this reply."""

    def __init__(self, reply: Response) -> None:
        super().__init__()
        self.reply = reply


class Edge:
    """The ASGI application around the SDK's. `answered` is told whether an exchange's answer was written.

    `knock` is asked about each token of a callback.
    """

    def __init__(
        self,
        place: Place,
        doorman: Doorman,
        bounds: Bounds,
        sessions: Sessions,
        answered: Answered,
        knock: Knock = nobody,
    ) -> None:
        self._hosts, self._origins = place.hosts(), place.origins()
        self._doorman = doorman
        self._bounds = bounds
        self._sessions = sessions
        self._mcp: ASGIApp = sessions.handle_request
        self._answered = answered
        self._knock = knock
        self.open = OpenRequests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        try:
            await self._serve(scope, receive, send)
        except RefusedError as refused:
            await refused.reply(scope, receive, send)
        except Exception as error:  # noqa: BLE001 (where a request enters: uvicorn would log what it was about)
            log_failure("an HTTP request", error)
            await _cut(scope)
        except asyncio.CancelledError:  # the stop, of a stream that else never ends: uvicorn would call it an error
            await _cut(scope)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._require_known_names(scope["headers"])
        if scope["path"] == "/health" and scope["method"] in {"GET", "HEAD"}:
            raise RefusedError(replies.healthy())
        if scope["path"].startswith(PATH):
            raise RefusedError(await called_back(scope, receive, self._knock))
        exchange = Exchange(self._authenticated(scope["headers"]))
        if scope["path"] != "/mcp":
            raise RefusedError(replies.nothing_here())
        if scope["method"] not in _METHODS:
            raise RefusedError(replies.wrong_method())
        if self.open.full:
            raise RefusedError(replies.too_many_requests())
        scope["user"] = _user(exchange.principal)
        scope[EXCHANGE] = exchange
        match scope["method"]:
            case "POST":
                await self._post(scope, receive, send)
            case "GET":  # a session's own stream
                await self._stream(scope, receive, send, None)
            case _:
                await self._mcp(scope, receive, send)

    def _require_known_names(self, headers: Headers) -> None:
        hosts = _values(headers, b"host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise RefusedError(replies.foreign_host())
        if any(origin not in self._origins for origin in _values(headers, b"origin")):
            raise RefusedError(replies.foreign_origin())

    def _authenticated(self, headers: Headers) -> Principal:
        principal = self._doorman.who(headers)
        if principal is None:
            raise RefusedError(replies.unauthenticated(tried=bool(_values(headers, b"authorization"))))
        return principal

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._body(scope["headers"], receive)
        message = message_of(body, self._bounds)
        if isinstance(message, Broken):
            raise RefusedError(replies.broken(message.answer))
        session = next(iter(_values(scope["headers"], MCP_SESSION_ID_HEADER.encode())), None)
        request_id = message.id if isinstance(message, JSONRPCRequest) else None
        if request_id is None:
            self._cancel_meant(scope[EXCHANGE], session, message)
        elif not await self.open.takes(session, request_id):
            raise RefusedError(replies.id_in_use(request_id))
        elif _method(message) == _LISTEN:
            await self._stream(scope, _Replay(body, receive), send, request_id)
            return
        if session is None and _method(message) == _OPEN and self._sessions.full_for(scope[EXCHANGE].principal):
            raise RefusedError(replies.too_many_sessions(request_id))
        if request_id is not None and not await self.open.departed(scope[EXCHANGE].principal):
            raise RefusedError(replies.still_leaving())
        with self.open.request(scope[EXCHANGE], scope[LINE], session, request_id):
            await self._exchange(scope, _Replay(body, None), send)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        if not any(value.startswith("application/json") for value in _values(headers, b"content-type")):
            raise RefusedError(replies.no_json())
        limit = self._bounds.bytes
        try:
            async with asyncio.timeout(replies.WHOLE_BODY_S):
                body = await _whole(headers, receive, limit)
        except TimeoutError:
            raise RefusedError(replies.too_slow()) from None
        if body is None:
            raise RefusedError(replies.too_large(limit))
        return body

    async def _stream(self, scope: Scope, receive: Receive, send: Send, request_id: Id) -> None:
        """What lasts until its client or the server ends it: the one thing that the end of a stream ends."""
        exchange: Exchange = scope[EXCHANGE]
        with self.open.stream(exchange.principal) as has_room:
            if not has_room:
                raise RefusedError(replies.too_many_streams(request_id))
            await self._mcp(scope, receive, send)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One message and its answer, which counts as written once its last byte has left this process.

        Whoever had hung up before its content was sent has not got it; whoever does before its empty end may have.
        """
        exchange: Exchange = scope[EXCHANGE]
        line: LineProtocol = scope[LINE]
        written = gone = False

        async def sending(message: Message) -> None:
            nonlocal written, gone
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            exchange.answered = last
            if message.get("body"):
                gone = line.gone
            async with asyncio.timeout(WRITE_S):
                await send(message)
                if last:
                    written = await line.all_written() and not gone

        line.when_gone.add(exchange.leave)
        if line.gone:
            exchange.leave()
        try:
            await self._mcp(scope, receive, sending)
        finally:
            line.when_gone.discard(exchange.leave)
            await self._answered(exchange, written=written)

    def _cancel_meant(self, exchange: Exchange, session: str | None, message: JSONRPCMessage) -> None:
        """The 2026 protocol has no such message over HTTP and the SDK drops it; a client that sends it means it."""
        if session is None and isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            request_id = (message.params or {}).get("requestId")
            if isinstance(request_id, str | int) and not isinstance(request_id, bool):
                self.open.cancel(exchange.principal, request_id)


class _Replay:
    """The body once more for the SDK; after it the client's going away, where that is to end something."""

    def __init__(self, body: bytes, further: Receive | None) -> None:
        self._body: bytes | None = body
        self._further = further

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if self._further is None:
            await asyncio.Event().wait()
        return await cast("Receive", self._further)()


async def _whole(headers: Headers, receive: Receive, limit: int) -> bytes | None:
    """The whole body; None if it is larger than the limit.

    What is too much is still read, up to a bound: bytes that nobody reads make the kernel reset the connection, and its
    client never sees why.
    """
    declared = next(iter(_values(headers, b"content-length")), "0")
    size = int(declared) if declared.isdigit() else 0
    waits = "100-continue" in _values(headers, b"expect")
    if size > limit * DROPPED or (size > limit and waits):
        return None
    body, come = bytearray(), 0
    while come <= limit * DROPPED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise TimeoutError
        part = message.get("body", b"")
        come += len(part)
        if come <= limit:
            body += part
        if not message.get("more_body", False):
            return bytes(body) if come <= limit else None
    return None


async def _cut(scope: Scope) -> None:
    """End the connection; once that is known, uvicorn finds nothing wrong with an answer that was not ended."""
    cast("LineProtocol", scope[LINE]).cut()
    await asyncio.sleep(0)


def _method(message: JSONRPCMessage) -> str | None:
    return message.method if isinstance(message, JSONRPCRequest) else None


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip().lower() for key, value in headers if key == name]


def _user(principal: Principal) -> AuthenticatedUser:
    """Whose session it is, in the SDK's words; the token itself goes no further than the doorman."""
    claims = {"iss": principal.tenant}
    token = AccessToken(token="-", client_id=principal.client, scopes=[], subject=principal.subject, claims=claims)  # noqa: S106 (none)
    return AuthenticatedUser(token)
