"""Which URLs the outbound client sends to: the allow list, compared as names stand on the wire, and nothing like it."""

from __future__ import annotations

import pytest

from counterfoil.tools.http.addresses import AddressError, Addresses
from counterfoil.tools.http.hosts import Hosts, UrlError, parse_url

pytestmark = pytest.mark.anyio

HOSTS = Hosts(["orders.example", "Docs.Example:8080", "127.0.0.1:9000", "[::1]:9000", "10.0.0.7:443"])


@pytest.mark.parametrize(
    "url",
    [
        "https://orders.example/x",
        "HTTPS://ORDERS.EXAMPLE:443/",
        "https://docs.example:8080/",
        "http://docs.example:8080/",
        "http://127.0.0.1:9000/",
        "https://127.0.0.1:9000/",
        "http://[::1]:9000/",
        "https://10.0.0.7/",
    ],
)
def test_what_is_listed_may_be_reached(url: str) -> None:
    assert HOSTS.fault_of(parse_url(url)) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://orders.example/",
        "https://orders.example:8443/",
        "https://docs.example/",
        "https://orders.example.evil.example/",
        "https://evilorders.example/",
        "http://127.0.0.1/",
        "http://127.0.0.1:9001/",
        "http://127.0.0.2:9000/",
        "http://[::ffff:7f00:1]:9000/",
    ],
)
def test_what_is_not_listed_may_not(url: str) -> None:
    assert HOSTS.fault_of(parse_url(url))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://orders.example/",
        "//orders.example/",
        "https://",
        "https://user@orders.example/",
        "https://orders.example@evil.example/",
        "https://orders.example\\@evil.example/",
        "https://orders.example./",
        "https://оrders.example/",
        "https://orders。example/",
        "https://orders.example:0/",
        "https://orders.example:99999/",
        "https://orders.example:/",
        "https://orders .example/",
        "https://orders.example/a b",
        "https://orders.example/\r\nX: y",
        "https://orders%2eexample/",
        "http://2130706433:9000/",
        "http://0x7f000001:9000/",
        "http://0177.0.0.1:9000/",
        "http://127.1:9000/",
        "http://localhost:9000/",
        "http://a.localhost:9000/",
        "http://127.0.0.1.:9000/",
        "http://[0:0:0:0:0:0:0:1]:9000/",
        "http://[::1%25eth0]:9000/",
        "http://[::1]x/",
    ],
)
def test_what_could_be_mistaken_for_another_host_is_no_url(url: str) -> None:
    with pytest.raises(UrlError):
        parse_url(url)


@pytest.mark.parametrize(
    "entry", ["127.0.0.1", "[::1]", "https://a.example", "a.example/x", "*.example", "", "ä.example"]
)
def test_an_entry_that_is_none_is_refused_by_name(entry: str) -> None:
    with pytest.raises(UrlError, match=r"^'" + entry.replace("*", r"\*").replace("[", r"\[").replace(".", r"\.")):
        Hosts([entry])


def test_a_refusal_says_what_to_write() -> None:
    assert "add 'orders.example:80'" in str(HOSTS.fault_of(parse_url("http://orders.example/")))
    assert "did you mean 'orders.example'?" in str(HOSTS.fault_of(parse_url("https://order.example/")))


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], ["::1"], ["::"], ["::ffff:127.0.0.1"], ["169.254.169.254"], ["192.0.2.1", "127.0.0.1"]],
)
async def test_a_name_never_leads_to_this_machine_not_even_by_one_answer_of_several(answers: list[str]) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return answers

    with pytest.raises(AddressError, match=r"orders\.example leads to"):
        await Addresses(HOSTS, resolve).of("orders.example", 443)


async def test_an_address_is_used_only_where_it_is_listed_itself() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise AssertionError(host)

    assert await Addresses(HOSTS, resolve).of("127.0.0.1", 9000) == ["127.0.0.1"]
    with pytest.raises(AddressError):
        await Addresses(HOSTS, resolve).of("127.0.0.1", 9001)


async def test_a_name_without_an_address_is_an_error_of_its_own() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise OSError(-2, "unknown name")

    with pytest.raises(AddressError, match="has no address now"):
        await Addresses(HOSTS, resolve).of("orders.example", 443)


def test_a_url_that_is_too_long_is_refused_with_its_length() -> None:
    with pytest.raises(UrlError, match=r"at most 16,000 characters, not 20,0"):
        parse_url("https://orders.example/" + "x" * 20_000)
