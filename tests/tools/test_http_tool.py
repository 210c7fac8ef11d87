"""HTTP tools against a real far side: what is sent, and what its answer means for a read and for what has an effect."""

from __future__ import annotations

import base64
import gzip
import json
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from counterfoil.registry.adapter import CallStoppedError, NotReadyError
from counterfoil.registry.outcome import Outcome
from counterfoil.registry.vocabulary import ErrorCode, OutcomeClass, Sent
from counterfoil.tools.http.outbound import Outbound
from counterfoil.tools.http.spec import HttpTool, Request
from counterfoil.tools.http.tool import HttpAdapter
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.http_hands import TOKEN, Hands, no_trust, output_of, secret
from tests.kit.rules import PROBLEM

pytestmark = pytest.mark.anyio

REFUSALS = [400, 401, 403, 404, 405, 409, 410, 412, 413, 415, 422, 428]


async def test_a_write_sends_its_body_key_and_secret_and_brings_the_answer(hands: Hands, far: FarSide) -> None:
    outcome = await hands.refund("/orders/{order_id}/refunds", {"order_id": "a/b", "amount": 5})
    assert outcome.kind is OutcomeClass.SUCCESS
    assert output_of(outcome)["order_id"] == "a/b"
    seen = far.seen[-1]
    assert (seen.method, seen.target, seen.body) == ("POST", "/orders/a%2Fb/refunds", b'{"amount":5}')
    assert seen.headers["idempotency-key"] == "act_1"
    assert seen.headers["authorization"] == TOKEN
    assert seen.headers["content-type"] == "application/json"


async def test_query_form_and_headers_are_filled_and_lose_what_is_absent(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer())
    request = hands.request(
        "POST",
        "/x?a={no}&b={yes}",
        headers={"X-Ref": "ref {yes}", "X-No": "{no}"},
        query={"many": "{many}", "flag": "{flag}", "no": "{no}"},
        form={"text": "{text}", "no": "{no}"},
    )
    await hands.read(arguments={"yes": 1, "many": ["p", "q&r"], "flag": True, "text": "ü=&"}, request=request)
    seen = far.seen[-1]
    assert seen.target == "/x?b=1&many=p&many=q%26r&flag=true"
    assert seen.headers["x-ref"] == "ref 1"
    assert "x-no" not in seen.headers
    assert seen.body == b"text=%C3%BC%3D%26"


@pytest.mark.parametrize(("kind", "text"), [("json", '{"a": 1}'), ("vnd.x+json; charset=utf-8", '{"a": 1}')])
async def test_json_is_read_by_its_type_and_output_points_into_it(
    hands: Hands, far: FarSide, kind: str, text: str
) -> None:
    far.script("/x", Answer(body=text, headers={"Content-Type": f"application/{kind}"}))
    assert (await hands.read()).output == {"a": 1}
    assert (await hands.read(output="/a")).output == 1
    assert (await hands.read(output="/b")).output is None


async def test_text_is_a_string_and_other_bytes_are_told_as_base64(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(raw="ü".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"}))
    assert (await hands.read()).output == "ü"
    far.script("/x", Answer(raw=b"\xff\x00", headers={"Content-Type": "image/png"}))
    assert (await hands.read()).output == {
        "content_type": "image/png",
        "base64": base64.b64encode(b"\xff\x00").decode(),
    }


@pytest.mark.parametrize("answer", [Answer(204), Answer(200, "")])
async def test_an_empty_success_has_no_output(hands: Hands, far: FarSide, answer: Answer) -> None:
    far.script("/x", answer)
    for outcome in (await hands.read(), await hands.refund()):
        assert (outcome.kind, outcome.output) == (OutcomeClass.SUCCESS, None)


async def test_evidence_comes_from_headers_by_default_and_from_where_the_tool_says(hands: Hands, far: FarSide) -> None:
    outcome = await hands.read("/orders/o1")
    assert outcome.evidence == {"external_version": '"v7"', "request_id": "req-1"}
    stated = {"external_version": "/etag", "external_reference": "header:x-request-id", "request_id": "/none"}
    outcome = await hands.read("/orders/o1", evidence=stated)
    assert outcome.evidence == {"external_version": "v7", "external_reference": "req-1", "request_id": "req-1"}


@pytest.mark.parametrize("status", REFUSALS)
async def test_a_refusal_of_a_write_is_a_failure_without_effect(hands: Hands, far: FarSide, status: int) -> None:
    far.script("/x", Answer(status, '{"error": {"message": "too late"}}'))
    outcome = await hands.refund()
    assert (outcome.kind, outcome.sent) == (OutcomeClass.PERMANENT_FAILURE, Sent.YES)
    assert outcome.details == {"status": status}
    assert outcome.message == f"refund: 127.0.0.1 answered with status {status}: too late."


@pytest.mark.parametrize("status", [300, 302, 304, 402, 406, 408, 418, 500, 502, 503, 504, 599])
async def test_any_other_status_leaves_a_write_unknown(hands: Hands, far: FarSide, status: int) -> None:
    far.script("/x", Answer(status, headers={"Location": "/orders/o1"}))
    outcome = await hands.refund()
    assert (outcome.kind, outcome.sent) == (OutcomeClass.AMBIGUOUS, Sent.UNKNOWN)
    assert len(far.seen) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (500, "retryable"),
        (503, "retryable"),
        (408, "retryable"),
        (404, "permanent"),
        (403, "permanent"),
        (304, "permanent"),
    ],
)
async def test_a_failed_read_is_tried_again_only_where_that_can_help(
    hands: Hands, far: FarSide, status: int, kind: str
) -> None:
    far.script("/x", Answer(status))
    outcome = await hands.read()
    assert (outcome.kind, outcome.sent) == (OutcomeClass(f"{kind}_failure"), Sent.YES)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_wish_to_come_later_is_passed_on_in_seconds(hands: Hands, far: FarSide, status: int) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    for wish, least, most in (("7", 7, 7), (later, 90, 100), (format_datetime(datetime(2020, 1, 1, tzinfo=UTC)), 0, 0)):
        far.script("/x", Answer(status, headers={"Retry-After": wish}))
        outcome = await hands.refund()
        assert (outcome.kind, outcome.sent) == (OutcomeClass.RETRYABLE_FAILURE, Sent.YES)
        assert outcome.after_s is not None
        assert least <= outcome.after_s <= most


async def test_429_alone_is_retryable_and_a_wish_that_is_none_is_no_wish(hands: Hands, far: FarSide) -> None:
    wishes = ("soon", "Thu, 01 Jan 99999999999 00:00:00 GMT", "Thu, 01 Jan 2020 00:00:00 +99999999999999999999")
    far.script("/x", Answer(429), *(Answer(429, headers={"Retry-After": wish}) for wish in wishes))
    for _ in range(4):
        outcome = await hands.refund()
        assert (outcome.kind, outcome.after_s) == (OutcomeClass.RETRYABLE_FAILURE, None)


async def test_a_tools_own_statuses_override_the_protocols(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(404))
    assert (await hands.read(no_result_status=frozenset({404}))).kind is OutcomeClass.NO_RESULT
    assert (await hands.refund(unknown_status=frozenset({404}))).kind is OutcomeClass.AMBIGUOUS
    far.script("/x", Answer(502))
    assert (await hands.refund(refused_status=frozenset({502}))).kind is OutcomeClass.PERMANENT_FAILURE


def gzipped(data: bytes, cut: int = 0) -> Answer:
    packed = gzip.compress(data)
    return Answer(raw=packed[: len(packed) - cut], headers={"Content-Encoding": "gzip"})


UNREADABLE = {
    "no json": Answer(body="<html>"),
    "half json": Answer(body='{"a": '),
    "twice the same member": Answer(body='{"a": 1, "a": 2}'),
    "an infinite number": Answer(body='{"a": 1e999}'),
    "bad gzip": Answer(raw=b"no gzip", headers={"Content-Encoding": "gzip"}),
    "cut gzip": gzipped(b'{"a": 1}', cut=6),
    "an encoding nobody asked for": Answer(headers={"Content-Encoding": "br"}),
    "a bomb": gzipped(b" " * 5_000_000),
    "too large": Answer(body=json.dumps("x" * 200_000)),
}
LOST = {
    "cut short": Answer(body='{"a": 1}', length=100),
    "reset in the body": Answer(body='{"a": 1}', then="reset"),
    "no answer": Answer(then="drop"),
}


@pytest.mark.parametrize("what", [*UNREADABLE, *LOST])
async def test_an_answer_that_cannot_be_read_leaves_a_write_unknown(hands: Hands, far: FarSide, what: str) -> None:
    far.script("/x", (UNREADABLE | LOST)[what])
    outcome = await hands.refund()
    assert (outcome.kind, outcome.sent, outcome.output) == (OutcomeClass.AMBIGUOUS, Sent.UNKNOWN, None)
    assert len(far.seen) == 1


@pytest.mark.parametrize("what", [*UNREADABLE, *LOST])
async def test_an_answer_that_cannot_be_read_fails_a_read_which_a_lost_one_may_repeat(
    hands: Hands, far: FarSide, what: str
) -> None:
    far.script("/x", (UNREADABLE | LOST)[what])
    outcome = await hands.read()
    assert outcome.kind is (OutcomeClass.RETRYABLE_FAILURE if what in LOST else OutcomeClass.PERMANENT_FAILURE)
    assert outcome.sent is (Sent.UNKNOWN if what in LOST else Sent.YES)


async def test_a_refusal_stands_even_if_its_body_cannot_be_read(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(409, "{}", length=100), Answer(409, "x" * 200_000))
    for _ in range(2):
        assert (await hands.refund()).kind is OutcomeClass.PERMANENT_FAILURE


async def test_gzip_within_the_limit_is_read(hands: Hands, far: FarSide) -> None:
    far.script("/x", gzipped(b'{"a": 1}'))
    assert (await hands.read()).output == {"a": 1}


async def test_a_commit_whose_reply_is_dropped_is_unknown_and_was_sent_once(hands: Hands, far: FarSide) -> None:
    far.script("/orders/drop/refunds", Answer(then="drop", commit=True))
    call = replace(hands.call(), action_id="act_drop")
    outcome = await hands.refund("/orders/drop/refunds", call=call)
    assert outcome.kind is OutcomeClass.AMBIGUOUS
    assert [one["order_id"] for one in far.effects.all("act_drop")] == ["drop"]
    assert len(far.seen) == 1


async def test_no_answer_by_the_deadline_is_unknown_for_a_write_and_the_connection_is_closed(
    hands: Hands, far: FarSide
) -> None:
    far.release.clear()
    far.script("/x", Answer(then="hold"))
    assert (await hands.refund(call=hands.call(timeout_s=0.3))).kind is OutcomeClass.AMBIGUOUS
    outcome = await hands.read(call=hands.call(timeout_s=0.3))
    assert (outcome.kind, outcome.sent) == (OutcomeClass.RETRYABLE_FAILURE, Sent.UNKNOWN)
    far.release.set()


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_refused_connection_or_handshake_sent_nothing(hands: Hands, far: FarSide, scheme: str) -> None:
    port = closed_port() if scheme == "http" else far.port
    outbound = Outbound([f"127.0.0.1:{port}"], trust=no_trust)
    request = Request("POST", f"{scheme}://127.0.0.1:{port}/x", json={})
    outcome = await Hands(far, outbound, hands.make_call).refund(request=request)
    assert (outcome.kind, outcome.sent, outcome.code) == (
        OutcomeClass.RETRYABLE_FAILURE,
        Sent.NO,
        ErrorCode.UNAVAILABLE,
    )
    assert far.seen == []
    await outbound.aclose()


async def test_a_host_that_is_not_listed_is_never_connected_to(hands: Hands, far: FarSide) -> None:
    outcome = await hands.refund(request=Request("POST", "https://orders.example/x"))
    assert (outcome.sent, outcome.code) == (Sent.NO, ErrorCode.UNAVAILABLE)
    assert "not in allow_hosts" in outcome.message


async def test_the_guard_is_asked_once_when_connected_and_its_no_means_nothing_was_sent(
    hands: Hands, far: FarSide
) -> None:
    before: list[tuple[int, int]] = []
    connections = far.connections

    async def guard() -> None:
        before.append((len(far.seen), far.connections - connections))
        if len(before) > 1:
            raise CallStoppedError("cancelled")

    far.script("/x", Answer())
    assert (await hands.refund(call=hands.call(guard))).kind is OutcomeClass.SUCCESS
    with pytest.raises(CallStoppedError):
        await hands.refund(call=hands.call(guard))
    assert len(before) == 2
    assert len(far.seen) == 1


async def test_a_write_after_its_deadline_is_not_made_although_its_timer_has_not_run(
    hands: Hands, far: FarSide
) -> None:
    times = iter([datetime.now(UTC), datetime.now(UTC) + timedelta(hours=1)])
    outbound = Outbound([far.host], now=lambda: next(times), trust=no_trust)
    outcome = await Hands(far, outbound, hands.make_call).refund()
    assert (outcome.sent, outcome.code) == (Sent.NO, ErrorCode.UNAVAILABLE)
    assert far.seen == []
    await outbound.aclose()


async def test_a_write_takes_a_new_connection_and_reads_share_one(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer())
    before = far.connections
    for _ in range(3):
        await hands.read()
    assert far.connections - before == 1
    for _ in range(3):
        await hands.refund()
    assert far.connections - before == 4


async def test_cookies_are_not_kept(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(headers={"Set-Cookie": "a=b"}))
    for _ in range(2):
        await hands.read()
    assert "cookie" not in far.seen[-1].headers


async def test_no_proxy_of_the_environment_is_used(hands: Hands, far: FarSide, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    far.script("/x", Answer())
    assert (await hands.read()).kind is OutcomeClass.SUCCESS


async def test_a_version_is_sent_where_the_tool_can_and_else_the_call_is_refused(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer())
    await hands.refund(call=hands.call(if_version='"v7"'), precondition_header="If-Match")
    assert far.seen[-1].headers["if-match"] == '"v7"'
    for outcome in (
        await hands.refund(call=hands.call(if_version="v7")),
        await hands.refund(call=hands.call(if_version="v7\r\nX: y"), precondition_header="If-Match"),
    ):
        assert (outcome.kind, outcome.sent) == (OutcomeClass.INVALID_REQUEST, Sent.NO)
        assert outcome.code is ErrorCode.INVALID_ARGUMENTS
    assert len(far.seen) == 1


@pytest.mark.parametrize("value", ["..", ".", "", "a/../b"])
async def test_arguments_that_would_change_the_path_are_refused_before_anything_is_sent(
    hands: Hands, far: FarSide, value: str
) -> None:
    outcome = await hands.refund("/orders/{order_id}", {"order_id": value})
    assert outcome.code is ErrorCode.INVALID_ARGUMENTS
    (problem,) = outcome.details["problems"]
    assert (problem.keys(), problem["path"]) == (PROBLEM, "/order_id")
    assert far.seen == []


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "ü", " a", "a\x00"])
async def test_an_argument_that_no_header_can_hold_is_refused(hands: Hands, far: FarSide, value: str) -> None:
    outcome = await hands.refund("/x", {"ref": value}, request=hands.request("POST", "/x", headers={"X-Ref": "{ref}"}))
    assert outcome.code is ErrorCode.INVALID_ARGUMENTS
    assert far.seen == []


@pytest.mark.parametrize("text", ["a b", "a%2Fb", "?x=1#y", "a&b=c", "ü\x00\r\n", "{x}", "a;b", "~", "a//b"])
async def test_on_the_wire_an_argument_is_one_segment(hands: Hands, far: FarSide, text: str) -> None:
    outcome = await hands.read("/orders/{id}", {"id": text})
    assert output_of(outcome)["order_id"] == text
    assert far.seen[-1].target.count("/") == 2


async def test_secrets_never_stand_in_what_the_far_side_echoes(hands: Hands, far: FarSide) -> None:
    body = json.dumps({"message": f"no {TOKEN}", "token": TOKEN.split()[1]})
    headers = {"ETag": TOKEN, "X-Request-Id": TOKEN.split()[1]}
    far.script("/x", Answer(200, body, headers), Answer(400, body, headers), Answer(500, body, headers))
    outcomes: list[Outcome[Any]] = [await hands.refund() for _ in range(3)]
    assert TOKEN.split()[1] not in repr(outcomes)
    assert outcomes[1].message.endswith("status 400: no [redacted].")


async def test_a_secret_without_a_value_is_named_by_its_reference_alone(hands: Hands) -> None:
    spec = HttpTool(Request("GET", hands.far.url, {"X-Key": "env:MISSING"}))
    adapter = HttpAdapter("look", spec, hands.outbound, secret, is_read=True)
    with pytest.raises(NotReadyError, match="env:MISSING") as refused:
        await adapter.ready()
    assert TOKEN not in str(refused.value)
    outcome = await adapter.invoke({}, hands.call(), {})
    assert (outcome.code, outcome.sent) == (ErrorCode.UNAVAILABLE, Sent.NO)


async def test_a_secret_that_no_header_can_hold_is_not_sent(hands: Hands, far: FarSide) -> None:
    spec = HttpTool(Request("GET", far.url, {"X-Key": "env:KEY"}))
    adapter = HttpAdapter("look", spec, hands.outbound, lambda _: "tok\r\nX: y", is_read=True)
    with pytest.raises(NotReadyError, match="env:KEY"):
        await adapter.ready()


async def test_a_long_message_of_the_far_side_is_cut_and_a_page_is_not_quoted(hands: Hands, far: FarSide) -> None:
    page = Answer(400, "<html>x</html>", {"Content-Type": "text/html"})
    far.script("/x", Answer(400, json.dumps({"detail": "n" * 5_000})), page)
    assert len((await hands.refund()).message) < 400
    assert (await hands.refund()).message == "refund: 127.0.0.1 answered with status 400."


async def test_a_compensation_may_send_what_the_first_call_brought(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer())
    spec = HttpTool(hands.request("POST", "/x", json={"undo": "{output.refund_id}"}))
    adapter = HttpAdapter("refund__undo", spec, hands.outbound, secret, is_read=False)
    await adapter.invoke({}, hands.call(), {"output": {"refund_id": "ref_1"}})
    assert far.seen[-1].body == b'{"undo":"ref_1"}'


async def test_an_http_tool_claims_its_hard_deadline_and_no_thread(hands: Hands) -> None:
    adapter = HttpAdapter("look", HttpTool(hands.request("GET", "/")), hands.outbound, secret, is_read=True)
    assert (adapter.hard_deadline, adapter.blocking) == (True, False)
