"""Where we listen, and which names and origins reach us there. Nothing here speaks HTTP.

PlaceError      the address cannot be had; the message says why and what to do
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LOOPBACK: Final = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}
"""The hosts that this version listens on, and the address of each: no name is looked up."""
BACKLOG: Final = 256
_PLAIN: Final = 80


class PlaceError(Exception):
    """`server.host`, `server.port` or `server.allowed_hosts`: what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address of ours, and the names that lead to it."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Where clients find MCP."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/mcp"

    def hosts(self) -> frozenset[str]:
        """What a Host header may say, in lower case."""
        loopback = [f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        loopback += ["127.0.0.1", "localhost", "[::1]"] if self.port == _PLAIN else []
        public = [name.lower() for name in self.allowed_hosts]
        return frozenset([*loopback, *public, *(f"{name}:{self.port}" for name in public)])

    def origins(self) -> frozenset[str]:
        """What an Origin header may say, in lower case."""
        return frozenset(f"{scheme}://{host}" for host in self.hosts() for scheme in ("http", "https"))


def address_of(host: str) -> str:
    """The loopback address of a host.

    Raises:
        PlaceError: it is none, or not in this version.
    """
    if host not in LOOPBACK:
        raise PlaceError(
            f"server.host: expected 127.0.0.1, ::1 or localhost, got {host!r}; any other host needs OAuth and "
            "allowed_hosts, which this version does not have"
        )
    return LOOPBACK[host]


def listen(host: str, port: int, allowed_hosts: Sequence[str] = ()) -> tuple[socket.socket, Place]:
    """Take the address; it can be had again as soon as this process has ended.

    Raises:
        PlaceError: it is in use, or not ours to take.
    """
    address = address_of(host)
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere this option would let two servers share one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 (the socket's own name for it)
    except OSError as error:
        listener.close()
        raise PlaceError(_why(error, address, port)) from None
    return listener, Place(address, listener.getsockname()[1], tuple(allowed_hosts))


def _why(error: OSError, address: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"server.port: {port} on {address} is in use by another process; choose another with --port, or 0"
    return f"server.port: {port} on {address} cannot be taken: {error.strerror}"
