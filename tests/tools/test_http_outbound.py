"""The outbound client on a network that only records: what it would connect to, and when not at all."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import httpcore2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from counterfoil.tools.http.addresses import Addresses
from counterfoil.tools.http.hosts import Hosts, UrlError, parse_url
from counterfoil.tools.http.outbound import Message, NotSentError, Outbound, Terms
from tests.kit.http_far_side import FarSide

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


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("http://orders.example:8080/x", "from https to http"),
        ("//evil.example/x", "not in allow_hosts"),
        ("https://a@orders.example/x", "user or password"),
        ("https://[::1/x", "no URL"),
    ],
)
async def test_a_url_of_the_far_side_is_no_way_out(reference: str, said: str) -> None:
    outbound = Outbound(["orders.example", "orders.example:8080"])
    base = parse_url("https://orders.example/a/b?c")
    with pytest.raises(UrlError, match=said):
        outbound.next_url(base, reference)
    assert str(outbound.next_url(base, "../x y?z=1#f")) == "https://orders.example/x%20y?z=1"


class Elsewhere(Recorder):
    """Connects to a server of the test, whatever address is wanted."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the library's interface)
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.wanted.append((host, port))
        inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        return await inner.connect_tcp("127.0.0.1", self.port, timeout)


@pytest.mark.parametrize(("name", "reached"), [("orders.example", True), ("other.example", False)])
async def test_the_certificate_is_that_of_the_name_although_the_address_was_chosen(
    tmp_path: Path, name: str, *, reached: bool
) -> None:
    certificate = write_certificate(tmp_path, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, tmp_path / "key.pem")
    with FarSide(tmp_path / "effects.db") as far:
        far.socket = context.wrap_socket(far.socket, server_side=True)
        recorder = Elsewhere(far.port)
        addresses = Addresses(Hosts(ALLOWED), Names(["192.0.2.1"]))
        trust = ssl.create_default_context(cafile=str(certificate))
        outbound = Outbound(ALLOWED, addresses=addresses, backend=recorder, trust=lambda: trust)
        message = Message("GET", parse_url("https://orders.example/orders/o1"))
        terms = Terms(datetime.now(UTC) + timedelta(seconds=10))
        if reached:
            assert (await outbound.send(message, terms)).status == 200
            assert far.seen[0].headers["host"] == "orders.example"
        else:
            with pytest.raises(NotSentError, match="certificate"):
                await outbound.send(message, terms)
            assert far.seen == []
        assert recorder.wanted == [("192.0.2.1", 443)]
        await outbound.aclose()


def write_certificate(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(secret)
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    return folder / "certificate.pem"


async def test_after_its_deadline_nothing_is_connected() -> None:
    outbound, recorder = client(Names(["192.0.2.1"]))
    with pytest.raises(NotSentError, match="time is over"):
        await outbound.send(
            Message("GET", parse_url("https://orders.example/")), Terms(datetime(2020, 1, 1, tzinfo=UTC))
        )
    assert recorder.wanted == []
