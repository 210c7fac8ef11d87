"""Every class of answer of design section 5 through the whole runtime: outcome, sent, code, effect, requests.

A write is told no failure that is not known to be one, and is sent once; a read is tried again where that may help.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil.server.app import App, open_app
from counterfoil.tools.http import outbound
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.http_hands import no_trust
from tests.kit.raw_far_side import RawFarSide, raw_far_side
from tests.kit.rules import check_call_view

pytestmark = pytest.mark.anyio

HEAD: Final = """
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
durability = "normal"
[policy_defaults]
write = "allow"
[http]
allow_hosts = [{hosts}]
"""
PAIR: Final = """
[tools.{name}_write]
description = "A write."
effect = "write"
resources = ["order:{{order}}"]
timeout_s = 15
input = {{ order = "string" }}
[tools.{name}_write.http]
method = "POST"
url = "{url}/orders/{{order}}/refunds"
json = {{ n = 1 }}
{stated}
[tools.{name}_read]
description = "A read."
effect = "read"
timeout_s = 15
retry = {{ attempts = 2, backoff_s = 0.001, least_s = 0.01 }}
input = {{ order = "string" }}
[tools.{name}_read.http]
method = "GET"
url = "{url}/orders/{{order}}"
{stated}
"""
STATED: Final = "no_result_status = [404]\nrefused_status = [500, 302]\nunknown_status = [400, 429]"
LATER_S: Final = 9_000
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for the module, since it has one application."""
    return "asyncio"


@dataclass(frozen=True)
class Told:
    """What a call view says, and how often the far side was asked."""

    outcome: str
    sent: str
    code: str | None
    effect: str | None
    retryable: bool
    requests: int

    @classmethod
    def of(cls, view: dict[str, Any], requests: int) -> Told:
        """That of a view, which keeps the table of design section 7."""
        check_call_view(view)
        error: dict[str, Any] | None = view["error"]
        if error is None:
            return cls(view["outcome"], view["sent"], None, None, retryable=False, requests=requests)
        details: dict[str, Any] = error["details"] or {}
        effect = details.get("effect")
        return cls(view["outcome"], view["sent"], error["code"], effect, error["retryable"], requests)


SUCCESS: Final = Told("success", "yes", None, None, retryable=False, requests=1)
NO_RESULT: Final = replace(SUCCESS, outcome="no_result")
REFUSED: Final = Told("permanent_failure", "yes", "tool_failed", "none", retryable=False, requests=1)
AGAIN: Final = Told("retryable_failure", "yes", "tool_failed", "none", retryable=True, requests=1)
LOST: Final = replace(AGAIN, sent="unknown")
UNKNOWN: Final = Told("ambiguous", "unknown", "ambiguous", None, retryable=False, requests=1)
NOT_SENT: Final = Told("retryable_failure", "no", "unavailable", None, retryable=True, requests=0)


def twice(told: Told) -> Told:
    """A read that is tried again."""
    return replace(told, requests=2)


@dataclass(frozen=True)
class Place:
    """The application of the module, and its far sides."""

    app: App
    far: FarSide
    raw: RawFarSide

    async def ask(self, tool: str, answer: Answer | None = None) -> tuple[dict[str, Any], list[Any]]:
        """One call on an order of its own; its view and the requests that arrived for it."""
        order = f"o{next(_NUMBERS)}"
        if answer is not None:
            self.far.script(f"/orders/{order}/refunds" if "write" in tool else f"/orders/{order}", answer)
        view = (await self.app.call(tool, {"order": order}, wait_s=40)).wire()
        return view, [one for one in self.far.seen if order in one.target]


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarSide]:
    with FarSide(tmp_path_factory.mktemp("far") / "effects.db") as far:
        yield far


@pytest.fixture(scope="module")
def closed_port() -> Iterator[int]:
    """A port that is taken and that nobody listens at."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory, far: FarSide, closed_port: int) -> AsyncIterator[Place]:
    folder: Path = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbound, "_system_trust", no_trust)
        async with raw_far_side() as raw:
            urls = {
                "plain": far.url, "stated": far.url, "raw": f"http://127.0.0.1:{raw.port}",
                "closed": f"http://127.0.0.1:{closed_port}", "tls": f"https://127.0.0.1:{far.port}",
            }  # fmt: skip
            hosts = ", ".join(f'"127.0.0.1:{port}"' for port in (far.port, raw.port, closed_port))
            text = HEAD.format(hosts=hosts) + "".join(
                PAIR.format(name=name, url=url, stated=STATED if name == "stated" else "") for name, url in urls.items()
            )
            (folder / "counterfoil.toml").write_text(text)
            async with open_app(folder / "counterfoil.toml") as app:
                yield Place(app, far, raw)


def wish(value: object) -> dict[str, str]:
    return {"Retry-After": str(value)}


def in_the_future() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=LATER_S), usegmt=True)


REFUSALS = (400, 401, 403, 404, 405, 409, 410, 412, 413, 415, 422, 428)
ANSWERS: Final[dict[str, tuple[Answer, Told, Told]]] = {
    "200": (Answer(200, '{"a": 1}'), SUCCESS, SUCCESS),
    "201 empty": (Answer(201, ""), SUCCESS, SUCCESS),
    "204": (Answer(204, ""), SUCCESS, SUCCESS),
    **{str(status): (Answer(status), REFUSED, REFUSED) for status in REFUSALS},
    "429": (Answer(429), AGAIN, twice(AGAIN)),
    "429 in 0 s": (Answer(429, headers=wish(0)), AGAIN, twice(AGAIN)),
    "429 later": (Answer(429, headers=wish(LATER_S)), AGAIN, AGAIN),
    "429 at a date": (Answer(429, headers=wish("DATE")), AGAIN, AGAIN),
    "429 at a past date": (
        Answer(429, headers=wish("Fri, 02 Jan 2026 00:00:00 GMT")), AGAIN, twice(AGAIN),
    ),
    "429 at nonsense": (Answer(429, headers=wish("soon")), AGAIN, twice(AGAIN)),
    "503": (Answer(503), UNKNOWN, twice(AGAIN)),
    "503 later": (Answer(503, headers=wish(LATER_S)), AGAIN, AGAIN),
    "503 at a date": (Answer(503, headers=wish("DATE")), AGAIN, AGAIN),
    **{str(status): (Answer(status), UNKNOWN, twice(AGAIN)) for status in (500, 501, 502, 504, 507, 408, 425)},
    "500 with a wish": (Answer(500, headers=wish(0)), UNKNOWN, twice(AGAIN)),
    **{str(status): (Answer(status), UNKNOWN, REFUSED) for status in (402, 418, 423)},
    **{
        f"{status} elsewhere": (Answer(status, headers={"Location": "http://elsewhere.example/"}), UNKNOWN, REFUSED)
        for status in (301, 302, 303, 307, 308)
    },
    **{
        f"{status} here": (Answer(status, headers={"Location": "/orders/ord_1"}), UNKNOWN, SUCCESS)
        for status in (301, 302, 303, 307, 308)
    },
    "302 to nowhere": (Answer(302), UNKNOWN, REFUSED),
    "304": (Answer(304, ""), UNKNOWN, REFUSED),
    "no JSON": (Answer(200, "{"), UNKNOWN, REFUSED),
    "NaN": (Answer(200, "NaN"), UNKNOWN, REFUSED),
    "foreign encoding": (Answer(200, headers={"Content-Encoding": "br"}), UNKNOWN, REFUSED),
    "no gzip": (Answer(200, headers={"Content-Encoding": "gzip"}), UNKNOWN, REFUSED),
    "longer than said": (Answer(200, "{}", length=1), UNKNOWN, REFUSED),
    "shorter than said": (Answer(200, "{}", length=50), UNKNOWN, twice(LOST)),
    "dropped": (Answer(then="drop"), UNKNOWN, twice(LOST)),
    "reset in the middle": (Answer(200, '{"a": "b"}', then="reset"), UNKNOWN, twice(LOST)),
    "a refusal that is reset in the middle": (Answer(422, '{"a": "b"}', then="reset"), REFUSED, REFUSED),
    "a 500 that is reset in the middle": (Answer(500, '{"a": "b"}', then="reset"), UNKNOWN, twice(AGAIN)),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_to_a_write_says_no_more_than_is_known_and_is_not_asked_for_again(
    place: Place, name: str
) -> None:
    answer, expected, _ = ANSWERS[name]
    view, seen = await place.ask("plain_write", dated(answer))
    assert Told.of(view, len(seen)) == expected
    assert_wish(view, answer)


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_to_a_read_is_asked_for_again_only_where_that_may_help(place: Place, name: str) -> None:
    answer, _, expected = ANSWERS[name]
    view, seen = await place.ask("plain_read", dated(answer))
    assert Told.of(view, len(seen)) == expected
    assert view["attempts"] == len(seen)
    assert_wish(view, answer)


def dated(answer: Answer) -> Answer:
    headers = {name: in_the_future() if value == "DATE" else value for name, value in answer.headers.items()}
    return replace(answer, headers=headers)


def assert_wish(view: dict[str, Any], answer: Answer) -> None:
    """A wish that can be read is passed on where the call may be tried again."""
    wanted = {"DATE": LATER_S, str(LATER_S): LATER_S}.get(answer.headers.get("Retry-After", ""))
    if wanted is not None:
        assert view["error"]["details"]["retry_after_s"] == pytest.approx(wanted, abs=60)


@pytest.mark.parametrize(
    ("status", "write", "read"),
    [
        (404, NO_RESULT, NO_RESULT),
        (500, REFUSED, REFUSED),
        (302, REFUSED, REFUSED),
        (400, UNKNOWN, twice(LOST)),
        (429, UNKNOWN, twice(LOST)),
        (422, REFUSED, REFUSED),
        (502, UNKNOWN, twice(AGAIN)),
    ],
)
async def test_what_a_tool_states_of_a_status_comes_before_what_the_protocol_says(
    place: Place, status: int, write: Told, read: Told
) -> None:
    for tool, expected in (("stated_write", write), ("stated_read", read)):
        view, seen = await place.ask(tool, Answer(status))
        assert Told.of(view, len(seen)) == expected


OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
RAW: Final[dict[str, tuple[bytes, Told, Told]]] = {
    "103 first": (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK, SUCCESS, SUCCESS),
    "100 first": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, SUCCESS, SUCCESS),
    "100 alone": (b"HTTP/1.1 100 Continue\r\n\r\n", UNKNOWN, twice(LOST)),
    "101": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", UNKNOWN, twice(LOST)),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", UNKNOWN, twice(LOST)),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", UNKNOWN, twice(LOST)),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", UNKNOWN, twice(LOST)),
    "a length that is none": (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}", UNKNOWN, twice(LOST)),
    "a broken chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", UNKNOWN, twice(LOST),
    ),
    "a chunk too few": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", UNKNOWN, twice(LOST),
    ),
    "a status beyond all": (b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", UNKNOWN, twice(AGAIN)),
}  # fmt: skip


@pytest.mark.parametrize("name", RAW)
async def test_bytes_that_are_no_answer_leave_a_write_unknown(place: Place, name: str) -> None:
    says, write, read = RAW[name]
    for tool, expected in (("raw_write", write), ("raw_read", read)):
        place.raw.script(says)
        view, _ = await place.ask(tool)
        assert Told.of(view, len(place.raw.requests)) == expected


@pytest.mark.parametrize("deaf", [True, False], ids=["before anything was read", "after everything was read"])
async def test_a_connection_that_is_reset_leaves_a_write_unknown(place: Place, *, deaf: bool) -> None:
    for tool, expected in (("raw_write", UNKNOWN), ("raw_read", twice(LOST))):
        place.raw.script(resets=True, deaf=deaf)
        view, _ = await place.ask(tool)
        assert Told.of(view, len(place.raw.requests)) == expected


@pytest.mark.parametrize("tool", ["closed_write", "tls_write", "closed_read", "tls_read"])
async def test_a_far_side_that_cannot_be_reached_was_sent_nothing(place: Place, tool: str) -> None:
    before = len(place.far.seen)
    view, _ = await place.ask(tool)
    assert Told.of(view, len(place.far.seen) - before) == NOT_SENT
    assert view["attempts"] == (1 if "write" in tool else 2)
