"""Reads that follow: pages by cursor, by URL and by Link header, and redirects, on listed hosts alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from counterfoil.registry.vocabulary import ErrorCode, OutcomeClass
from counterfoil.tools.http.outbound import Outbound
from counterfoil.tools.http.spec import Pages
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.http_hands import TOKEN, Hands, no_trust, output_of

pytestmark = pytest.mark.anyio


async def test_pages_are_followed_by_cursor_up_to_their_limit(hands: Hands, far: FarSide) -> None:
    far.script(
        "/x", *(Answer(body=json.dumps({"data": [n], "cursor": f"c {n}"})) for n in (1, 2)), Answer(body='{"data": []}')
    )
    pages = Pages("/data", next="/cursor", parameter="from", argument="start", most=2)
    outcome = await hands.read("/x?a=1", pages=pages)
    assert outcome.output == {"items": [1, 2], "next": "c 2"}
    outcome = await hands.read("/x?a=1", {"start": "c 2"}, pages=pages)
    assert outcome.output == {"items": [], "next": None}
    assert [seen.target for seen in far.seen] == ["/x?a=1", "/x?a=1&from=c%201", "/x?a=1&from=c%202"]


@pytest.mark.parametrize("by", ["link", "body"])
async def test_pages_are_followed_by_url_and_gone_on_from_by_query_alone(hands: Hands, far: FarSide, by: str) -> None:
    following = "/x?page=2"
    link = {"Link": f'<{far.url}/x?page=0>; rel="prev", <{following}>; rel="next"'} if by == "link" else {}
    far.script(
        "/x", Answer(body=json.dumps({"data": [1], "more": following}), headers=link), Answer(body='{"data": [2]}')
    )
    pages = Pages("/data", next="" if by == "link" else "/more", argument="start", most=1)
    assert (await hands.read("/x", pages=pages)).output == {"items": [1], "next": "page=2"}
    assert (await hands.read("/x", {"start": "page=2"}, pages=pages)).output == {"items": [2], "next": None}
    assert [seen.target for seen in far.seen] == ["/x", "/x?page=2"]
    for planted in (f"{far.url}/admin?x=1#y", "", 7):
        outcome = await hands.read("/x", {"start": planted}, pages=pages)
        assert outcome.code is ErrorCode.INVALID_ARGUMENTS


@pytest.mark.parametrize(
    "second", [Answer(500), Answer(body='{"data": 1}'), Answer(body="[]", then="drop")], ids=["500", "no list", "lost"]
)
async def test_a_page_that_fails_fails_the_read(hands: Hands, far: FarSide, second: Answer) -> None:
    far.script("/x", Answer(body='{"data": [1], "cursor": "c"}'), second)
    outcome = await hands.read(pages=Pages("/data", next="/cursor", parameter="from"))
    assert outcome.kind in {OutcomeClass.RETRYABLE_FAILURE, OutcomeClass.PERMANENT_FAILURE}
    assert outcome.output is None


async def test_a_hostile_link_header_costs_no_time(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(body='{"data": [1]}', headers={"Link": "<" * 60_000}))
    begun = time.process_time()
    assert (await hands.read(pages=Pages("/data"))).output == {"items": [1], "next": None}
    assert time.process_time() - begun < 5  # it was hours


async def test_a_next_page_on_a_host_that_is_not_listed_is_not_read(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(body=json.dumps({"data": [1], "more": "http://127.0.0.1:1/steal"})))
    outcome = await hands.read(pages=Pages("/data", next="/more"))
    assert outcome.kind is OutcomeClass.PERMANENT_FAILURE
    assert "not in allow_hosts" in outcome.message


async def test_a_read_follows_redirects_on_listed_hosts_and_keeps_its_secret_at_home(
    hands: Hands, far: FarSide, tmp_path: Path
) -> None:
    with FarSide(tmp_path / "other.db") as other:
        outbound = Outbound([far.host, other.host], trust=no_trust)
        both = Hands(far, outbound, hands.make_call)
        far.script("/x", Answer(302, headers={"Location": "/orders/near"}))
        assert output_of(await both.read())["order_id"] == "near"
        assert far.seen[-1].headers["authorization"] == TOKEN
        far.script("/x", Answer(307, headers={"Location": f"{other.url}/orders/far"}))
        assert output_of(await both.read())["order_id"] == "far"
        assert "authorization" not in other.seen[-1].headers
        assert TOKEN not in repr(other.seen)
        await outbound.aclose()


async def test_a_read_is_not_redirected_to_what_is_not_listed_nor_for_ever(hands: Hands, far: FarSide) -> None:
    for place in ("http://127.0.0.1:1/", "https://orders.example/", "file:///etc/passwd", "http://a@127.0.0.1/"):
        far.script("/x", Answer(302, headers={"Location": place}))
        outcome = await hands.read()
        assert (outcome.kind, outcome.details["reason"]) == (OutcomeClass.PERMANENT_FAILURE, "redirect")
    far.seen.clear()
    far.script("/x", Answer(302, headers={"Location": "/x"}))
    assert (await hands.read()).details["reason"] == "redirect"
    assert len(far.seen) == 6
