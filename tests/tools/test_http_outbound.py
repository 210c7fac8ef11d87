"""The outbound client on a network that only records: what it would connect to, and when not at all."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import httpcore2
import pytest

from counterfoil.tools.http.addresses import Addresses
from counterfoil.tools.http.hosts import Hosts, parse_url
from counterfoil.tools.http.outbound import Message, NotSentError, Outbound, Terms

pytestmark = pytest.mark.anyio


class Recorder(httpcore2.AsyncNetworkBackend):
    """Notes where a connection would go, and refuses it."""

    def __init__(self) -> None:
        self.wanted: list[tuple[str, int]] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the library's interface)
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.wanted.append((host, port))
        raise httpcore2.ConnectError("recorded")


class Names:
    """A resolver whose answers change with every question."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.answers.pop(0)


ALLOWED = ["orders.example", "127.0.0.1:9000", "[::1]:9000"]


def client(names: Names) -> tuple[Outbound, Recorder]:
    recorder = Recorder()
    addresses = Addresses(Hosts(ALLOWED), names)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return Outbound(ALLOWED, addresses=addresses, backend=recorder, trust=lambda: trust), recorder


async def send(outbound: Outbound, url: str) -> str:
    terms = Terms(datetime.now(UTC) + timedelta(seconds=10))
    with pytest.raises(NotSentError) as error:
        await outbound.send(Message("GET", parse_url(url)), terms)
    await outbound.aclose()
    return str(error.value)


async def test_it_connects_to_the_addresses_that_were_checked_and_asks_for_them_once() -> None:
    names = Names(["192.0.2.1", "2001:db8::1"], ["127.0.0.1"])
    outbound, recorder = client(names)
    assert "recorded" in await send(outbound, "https://orders.example/")
    assert recorder.wanted == [("192.0.2.1", 443), ("2001:db8::1", 443)]
    assert names.asked == 1


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["192.0.2.1", "::1"], ["169.254.169.254"], []])
async def test_it_does_not_connect_if_any_answer_is_forbidden(answer: list[str]) -> None:
    outbound, recorder = client(Names(answer))
    assert "orders.example" in await send(outbound, "https://orders.example/")
    assert recorder.wanted == []


@pytest.mark.parametrize("url", ["https://evil.example/", "http://orders.example/", "http://127.0.0.1:9001/"])
async def test_it_does_not_even_resolve_what_is_not_listed(url: str) -> None:
    names = Names()
    outbound, recorder = client(names)
    assert "allow_hosts" in await send(outbound, url)
    assert (names.asked, recorder.wanted) == (0, [])


@pytest.mark.parametrize(("url", "host"), [("http://127.0.0.1:9000/", "127.0.0.1"), ("http://[::1]:9000/", "::1")])
async def test_a_listed_address_is_connected_to_as_it_is(url: str, host: str) -> None:
    outbound, recorder = client(Names())
    await send(outbound, url)
    assert recorder.wanted == [(host, 9000)]


async def test_after_its_deadline_nothing_is_connected() -> None:
    outbound, recorder = client(Names(["192.0.2.1"]))
    with pytest.raises(NotSentError, match="time is over"):
        await outbound.send(
            Message("GET", parse_url("https://orders.example/")), Terms(datetime(2020, 1, 1, tzinfo=UTC))
        )
    assert recorder.wanted == []
