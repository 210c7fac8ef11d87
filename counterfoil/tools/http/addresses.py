"""From a host to the addresses that are connected to: resolved once, every answer checked, and nothing resolved again.

A name never leads to this machine or its own link; a loopback address must be named itself, with its port. What is
checked is what is connected to, so a name that changes its answer between the two gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from .hosts import Hosts, address_of

Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


class AddressError(Exception):
    """A host that has no address now, or one that may not be connected to. Nothing was sent."""


class Addresses:
    """The addresses of hosts, each checked."""

    def __init__(self, hosts: Hosts, resolve: Resolver | None = None) -> None:
        self.hosts = hosts
        self._resolve = resolve or resolved

    async def of(self, host: str, port: int) -> list[str]:
        """The addresses to try, in order.

        Raises:
            AddressError: there is none, or one of them may not be connected to.
        """
        named = address_of(host)
        if named is not None:
            if not self.hosts.names_address(host, port):
                raise AddressError(f"the address {host} is not in allow_hosts with port {port}")
            return [host]
        try:
            found = await self._resolve(host, port)
        except OSError as error:
            raise AddressError(
                f"the name {host} has no address now ({error.strerror or type(error).__name__})"
            ) from error
        if not found:
            raise AddressError(f"the name {host} has no address now")
        for text in found:
            if fault := _fault_of(ip_address(text.partition("%")[0])):
                raise AddressError(f"the name {host} leads to {fault}; such an address must be in allow_hosts itself")
        return found


async def resolved(host: str, port: int) -> list[str]:
    """What the system's resolver says, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _fault_of(address: IPv4Address | IPv6Address) -> str | None:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    address = mapped or address
    if address.is_loopback or address.is_unspecified:
        return "this machine itself"
    if address.is_link_local:
        return "an address of the local link"
    return "a multicast address" if address.is_multicast else None
