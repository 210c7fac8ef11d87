"""The one client that sends HTTP for tools. It knows whether a byte left, and it never sends twice.

Only hosts of the allow list are reached, at addresses that were checked. There are no redirects but those that a read
asks for, no retries, no cookies, no proxy, nothing from the environment; one deadline bounds the whole exchange, and
one limit the body as it is after decoding. The library behind it is loaded with the first request.

    OutboundError
    +-- NotSentError      no byte of the request left
    +-- LostError         it may have arrived, and no whole answer came
    +-- UnreadableError   an answer came whose body cannot be read
    +-- RedirectError     a read was sent on to where it may not go
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urljoin

from ...secret_names import is_secret_name
from .addresses import Addresses
from .body import BodyError, Decoder
from .hosts import HTTP, HTTPS, Hosts, Url, UrlError, parse_url

if TYPE_CHECKING:
    import ssl

    import httpcore2

HOPS: Final = 5
FIRST_ERROR: Final = 400
BODY_BYTES: Final = 64_000_000
CONNECTIONS: Final = 100
KEEP_ALIVE_S: Final = 30.0
EARLY_S: Final = 0.05
"""So long before the deadline an exchange is given up here, where it is known whether a byte left."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD = frozenset({307, 308})
_BODY_HEADERS = frozenset({"content-type", "content-length"})
_IN_URL: Final = "%:/?#[]@!$&'()*+,;=~"

Now = Callable[[], datetime]
Guard = Callable[[], Awaitable[None]]


class OutboundError(Exception):
    """The message names hosts and reasons, never headers, values of headers, or bodies."""


class NotSentError(OutboundError):
    """No byte of the request left this process."""


class LostError(OutboundError):
    """The request may have arrived; no whole answer came."""


class UnreadableError(OutboundError):
    """An answer came, and its body is too large or wrongly encoded."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RedirectError(OutboundError):
    """A redirect of a read that is not followed."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request as it is sent; `secrets` are the headers, in lower case, that no other origin may see."""

    method: str
    url: Url
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    secrets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer. Header names are in lower case; of several of one name the values are joined by commas."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: Url


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for one exchange: `guard` is asked right before the first byte; only a read follows redirects."""

    deadline: datetime
    guard: Guard | None = None
    follow: bool = False
    body_bytes: int | None = None


class Outbound:
    """The client of one application; it keeps connections, and so is closed at the end.

    Raises:
        UrlError: an entry of `allow_hosts` that is none.
    """

    def __init__(
        self,
        allow_hosts: Iterable[str],
        *,
        now: Now = lambda: datetime.now(UTC),
        body_bytes: int = BODY_BYTES,
        addresses: Addresses | None = None,
        backend: httpcore2.AsyncNetworkBackend | None = None,
        trust: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.hosts = Hosts(allow_hosts)
        self.now = now
        self.body_bytes = body_bytes
        self._addresses = addresses or Addresses(self.hosts)
        self._backend = backend
        self._trust = trust
        self._pools: dict[bool, httpcore2.AsyncConnectionPool] = {}
        self._starting = asyncio.Lock()

    def allow(self, hosts: Hosts, body_bytes: int) -> None:
        """Reach other hosts from the next request on, redirects included, and read bodies of this size."""
        self.hosts = self._addresses.hosts = hosts
        self.body_bytes = body_bytes

    async def start(self) -> None:
        """Load the library and the certificates of the system, off the loop; at the first call only."""
        async with self._starting:
            if not self._pools:
                context = await asyncio.to_thread(self._trust or _system_trust)
                self._pools = {reused: self._pool(context, reused=reused) for reused in (True, False)}

    async def aclose(self) -> None:
        """Close every connection."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.aclose()

    async def send(self, message: Message, terms: Terms) -> Reply:
        """Send it once, and for a read that may, once more at each redirect.

        Raises:
            OutboundError: see the tree above.
            CallStoppedError: what the guard raised; no byte left.
        """
        for _ in range(HOPS + 1):
            if fault := self.hosts.fault_of(message.url):
                raise NotSentError(fault)
            reply = await self._exchange(message, terms)
            if not terms.follow or reply.status not in _REDIRECTS or "location" not in reply.headers:
                return reply
            message = self._redirected(message, reply)
        raise RedirectError(f"more than {HOPS} redirects, the last to {message.url.host}")

    def _redirected(self, message: Message, reply: Reply) -> Message:
        try:
            url = self.next_url(message.url, reply.headers["location"])
        except UrlError as error:
            raise RedirectError(f"a redirect that is not followed: {error}") from None
        return moved(message, url, keep=reply.status in _KEEP_METHOD)

    def next_url(self, base: Url, reference: str) -> Url:
        """A URL that the far side named.

        Raises:
            UrlError: it is none, is not in the allow list, or leaves https.
        """
        try:
            url = parse_url(quote(urljoin(str(base), reference.strip()), safe=_IN_URL))
        except UrlError:
            raise
        except ValueError as error:
            raise UrlError("it is no URL") from error
        if fault := self.hosts.fault_of(url):
            raise UrlError(fault)
        if base.scheme == HTTPS and url.scheme == HTTP:
            raise UrlError(f"it leads from https to http ({url.authority})")
        return url

    async def _exchange(self, message: Message, terms: Terms) -> Reply:
        await self.start()
        crossing = _Crossing(terms, self.now)
        left_s = (terms.deadline - self.now()).total_seconds()
        if left_s <= 0:
            raise crossing.failure(message.url, "the time is over")
        try:
            async with asyncio.timeout(left_s - min(EARLY_S, left_s / 10)):
                return await self._carry(message, crossing)
        except TimeoutError as error:
            raise crossing.failure(message.url, "the time is over") from error

    async def _carry(self, message: Message, crossing: _Crossing) -> Reply:
        import httpcore2  # noqa: PLC0415 (loaded with the first request: no server without HTTP tools pays for it)

        url, pool = message.url, self._pools[crossing.terms.guard is None]
        request = httpcore2.Request(
            message.method,
            httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=_wire_headers(message),
            content=message.body,
            extensions={"trace": crossing.trace},
        )
        try:
            response = await pool.handle_async_request(request)
        except _DeadlineError as error:
            raise crossing.failure(url, "the time is over") from error
        except _failures() as error:
            raise crossing.failure(url, _reason(error)) from error
        try:
            return await self._read(response, url, crossing.terms.body_bytes or self.body_bytes)
        except _failures() as error:
            raise crossing.failure(url, _reason(error)) from error
        finally:
            await response.aclose()

    async def _read(self, response: httpcore2.Response, url: Url, limit: int) -> Reply:
        """The whole answer. A status that is an error has said so, whatever becomes of the body after it."""
        headers, status = _joined(response.headers), response.status
        try:
            body = await _body(response, headers.get("content-encoding", ""), limit)
        except _failures():
            if status < FIRST_ERROR:
                raise
            body = b""
        except BodyError as error:
            if status < FIRST_ERROR:
                raise UnreadableError(f"{url.host} answered with status {status} and {error}", status) from error
            body = b""
        return Reply(status, headers, body, url)

    def _pool(self, context: ssl.SSLContext, *, reused: bool) -> httpcore2.AsyncConnectionPool:
        """What has an effect gets a connection of its own.

        One that the far side is just closing would make an outcome unknown for nothing.
        """
        import httpcore2  # noqa: PLC0415 (as above)

        from .network import GuardedNetwork  # noqa: PLC0415 (it stands on the library)

        return httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=CONNECTIONS,
            max_keepalive_connections=CONNECTIONS if reused else 0,
            keepalive_expiry=KEEP_ALIVE_S,
            retries=0,
            network_backend=GuardedNetwork(self._addresses, self._backend),
        )


class _DeadlineError(Exception):
    """The deadline came before the next byte was written."""


class _Crossing:
    """One exchange as the library tells of it: `sent` once the first byte may have left."""

    def __init__(self, terms: Terms, now: Now) -> None:
        self.terms = terms
        self._now = now
        self.sent = False

    async def trace(self, event: str, _info: dict[str, Any]) -> None:
        """Right before headers and body are written.

        A process that stood still may wake up here long after the deadline, before its timers run.
        """
        if event == "http11.send_request_headers.started":
            if self.terms.guard is not None:
                await self.terms.guard()
            self._check_time()
            self.sent = True
        elif event == "http11.send_request_body.started":
            self._check_time()

    def _check_time(self) -> None:
        if self._now() >= self.terms.deadline:
            raise _DeadlineError

    def failure(self, url: Url, reason: str) -> OutboundError:
        """What a failure means at this point."""
        if self.sent:
            return LostError(f"{url.host} gave no whole answer: {reason.rstrip('.')}")
        return NotSentError(f"{url.host} could not be reached: {reason.rstrip('.')}")


def moved(message: Message, url: Url, *, keep: bool) -> Message:
    """The same read at another URL; `keep` keeps method and body. No secret goes to another origin."""
    headers = dict(message.headers)
    if url.origin != message.url.origin:
        headers = {name: value for name, value in headers.items() if not _is_secret(name, message.secrets)}
    if keep or message.method in {"GET", "HEAD"}:
        return replace(message, url=url, headers=headers)
    headers = {name: value for name, value in headers.items() if name.lower() not in _BODY_HEADERS}
    return replace(message, method="GET", url=url, headers=headers, body=b"")


def _is_secret(name: str, secrets: frozenset[str]) -> bool:
    return name.lower() in secrets or is_secret_name(name)


def _wire_headers(message: Message) -> list[tuple[bytes, bytes]]:
    stated = {name.lower() for name in message.headers}
    own = {"Host": message.url.authority, "Accept": "*/*", "Accept-Encoding": "gzip", "User-Agent": "counterfoil"}
    if message.body or message.method in {"POST", "PUT", "PATCH"}:
        own["Content-Length"] = str(len(message.body))
    headers = {name: value for name, value in own.items() if name.lower() not in stated} | dict(message.headers)
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _body(response: httpcore2.Response, encoding: str, limit: int) -> bytes:
    decoder = Decoder(encoding, limit)
    async for chunk in response.aiter_stream():
        decoder.feed(chunk)
    return decoder.finish()


def _failures() -> tuple[type[Exception], ...]:
    import httpcore2  # noqa: PLC0415 (as above)

    return (
        httpcore2.NetworkError,
        httpcore2.TimeoutException,
        httpcore2.ProtocolError,
        httpcore2.UnsupportedProtocol,
        httpcore2.ConnectionNotAvailable,
        OSError,
    )


def _reason(error: Exception) -> str:
    """The library's own words say more than ours, apart from those of the operating system."""
    return str(error).rstrip(".") or type(error).__name__


def _system_trust() -> ssl.SSLContext:
    import httpx2  # noqa: PLC0415 (as above)

    return httpx2.create_ssl_context(trust_env=False)
