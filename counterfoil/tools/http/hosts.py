"""Which hosts the outbound client may reach, and what a URL must look like to be sent at all.

Entries of `allow_hosts`:

    orders.example         that name, by https on port 443 alone
    orders.example:8080    that name on that port, by https; by http too, since the author named the port
    127.0.0.1:9000         that address on that port, as the line above; an address is never named without its port
    [::1]:9000             the same in IPv6

Names are compared as they stand on the wire: ASCII (punycode), lower case, no trailing dot. This machine is named by
its address and never as `localhost`. Nothing is resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from ...registry.nearest import hint

HTTP, HTTPS = "http", "https"
DEFAULT_PORTS: Final = {HTTP: 80, HTTPS: 443}
URL_MAX: Final = 16_000
PORT_MAX: Final = 65_535

_URL = re.compile(r"(https?)://([^/?#\\]*)([^?#\\]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE)
_VISIBLE = re.compile(r"[!-~]*")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_PLAIN = re.compile(r"[^@?#]{0,300}")


class UrlError(ValueError):
    """A URL, host or entry that cannot be used; the message says what may stand there."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL as it is sent. `host` is a lower-case name, or an address (IPv6 without brackets)."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """As in the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """A URL taken apart; nothing of it is changed but the letter case of scheme and host.

    Raises:
        UrlError: it is no absolute http or https URL, or has a user, or a host that could be mistaken for another.
    """
    if len(text) > URL_MAX:
        raise UrlError(f"expected at most {URL_MAX:,} characters, not {len(text):,}")
    parts = _URL.fullmatch(text) if _VISIBLE.fullmatch(text) else None
    if parts is None:
        raise UrlError("expected a URL of http or https in visible ASCII characters")
    scheme = parts[1].lower()
    host, port = _authority(parts[2])
    path, query = parts[3] or "/", parts[4] or ""
    return Url(scheme, host, DEFAULT_PORTS[scheme] if port is None else port, path + query)


class Hosts:
    """The hosts that may be reached.

    Raises:
        UrlError: an entry that is none; the message names it.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._allowed: dict[tuple[str, int | None], str] = {}
        for entry in entries:
            try:
                host, port = _authority(entry)
            except UrlError as error:
                raise UrlError(f"{_quoted(entry)}: {error}") from None
            if port is None and address_of(host) is not None:
                raise UrlError(f"{entry!r}: an address must be named with its port, as in '127.0.0.1:9000'")
            self._allowed[(host, port)] = entry

    def fault_of(self, url: Url) -> str | None:
        """Why this URL may not be reached; None if it may."""
        if (url.host, url.port) in self._allowed:
            return None
        if (url.host, None) in self._allowed and url.scheme == HTTPS and url.port == DEFAULT_PORTS[HTTPS]:
            return None
        wanted = url.host if url.origin == (HTTPS, url.host, DEFAULT_PORTS[HTTPS]) else _with_port(url)
        if address_of(url.host) is None and (url.host, None) in self._allowed:
            return f"allow_hosts has {url.host!r}, which means https on port 443 alone; add {wanted!r} to allow this"
        return f"the host {wanted!r} is not in allow_hosts{hint(wanted, self._allowed.values())}"

    def names_address(self, host: str, port: int) -> bool:
        """Whether this is an address that an entry names itself, and so may be a loopback one."""
        return address_of(host) is not None and (host, port) in self._allowed


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is written as; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _quoted(text: str) -> str:
    """A host as a message may show it: what has a user or a query in it may have a secret in it."""
    return repr(text) if _PLAIN.fullmatch(text) else "this entry"


def _with_port(url: Url) -> str:
    return f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"


def _authority(text: str) -> tuple[str, int | None]:
    if "@" in text:
        raise UrlError("a user or password in a URL is refused; send a header")
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise UrlError("expected [address] or [address]:port")
        return _address(host), _port(rest[1:]) if rest else None
    host, colon, port = text.partition(":")
    return _name(host.lower()), _port(port) if colon else None


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > PORT_MAX:
        raise UrlError(f"expected a port from 1 to {PORT_MAX} after the colon")
    return int(text)


def _address(text: str) -> str:
    address = address_of(text)
    if not isinstance(address, IPv6Address) or address.scope_id or str(address) != text.lower():
        raise UrlError(f"expected an IPv6 address in its shortest form between [ and ], not {_quoted(text)}")
    return str(address)


def _name(host: str) -> str:
    if not host.isascii():
        raise UrlError("a host is written in ASCII, an international name in its xn-- form")
    if host.endswith("."):
        raise UrlError("a host is written without a dot at its end")
    if _NUMBER.fullmatch(host):
        if address_of(host) is None:
            raise UrlError(f"{host!r} could be read as an address; write that as four decimal numbers")
        return host
    if host == "localhost" or host.endswith(".localhost"):
        raise UrlError(f"{host!r} is this machine by another word; write its address, such as 127.0.0.1:9000")
    if not _NAME.fullmatch(host) or len(host) > 253:  # noqa: PLR2004 (the longest name of the DNS)
        raise UrlError(f"expected a host name or address, not {_quoted(host)}")
    return host
