"""The seam beneath the outbound client's library: it connects to checked addresses alone, and to no socket file.

Host header and TLS name stay those of the URL, since only the address of the connection is chosen here. Nobody but
`outbound` imports this, and that only with the first request, because it stands on the library.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import httpcore2

from .addresses import AddressError, Addresses


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Resolves once, checks, and connects to what was checked; `inner` opens the sockets. Socket files it has none."""

    def __init__(self, addresses: Addresses, inner: httpcore2.AsyncNetworkBackend | None = None) -> None:
        self._addresses = addresses
        self._inner: httpcore2.AsyncNetworkBackend = inner or cast(
            "httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend()
        )

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the library's interface)
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """The first of the host's addresses that takes the connection.

        Raises:
            httpcore2.ConnectError: none does, or one of them may not be connected to.
        """
        try:
            addresses = await self._addresses.of(host, port)
        except AddressError as error:
            raise httpcore2.ConnectError(str(error)) from error
        failed: Exception | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed or httpcore2.ConnectError("no address")
