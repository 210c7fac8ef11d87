"""HTTP probes: one sign decides, and everything else is unknown, above all what only looks like an absence."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil.registry.outcome import Probe
from counterfoil.registry.predicates import PredicateError
from counterfoil.tools.http.spec import Sign
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.http_hands import TOKEN, Hands

pytestmark = pytest.mark.anyio

SIGNS: dict[str, Any] = {
    "happened": Sign("/0/state", {"in": ["done"]}),
    "pending": Sign("/0/state", {"in": ["processing"]}),
    "absent": Sign("/0", {"exists": False}),
    "output": "/0",
}


async def test_it_asks_for_what_only_this_call_has(hands: Hands, far: FarSide) -> None:
    assert await hands.ask("/refunds?key={call.action_id}", **SIGNS) == Probe.absent()
    await hands.refund("/orders/o1/refunds")
    done = await hands.ask("/refunds?key={call.action_id}", **SIGNS, evidence={"external_reference": "/0/refund_id"})
    assert done.answer == "happened"
    assert done.output["order_id"] == "o1"
    assert done.evidence == {"external_reference": "ref_1"}
    assert far.seen[-1].target == "/refunds?key=act_1"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(body='[{"state": "processing"}]'), "pending"),
        (Answer(body="[]"), "absent"),
        (Answer(body='[{"state": "new"}]'), "unknown"),
        (Answer(body='[{"state": 1}]'), "unknown"),
        (Answer(body='{"error": "try later"}'), "unknown"),
        (Answer(body="null"), "unknown"),
        (Answer(body="<login>", headers={"Content-Type": "text/html"}), "unknown"),
        (Answer(body="[", headers={"Content-Type": "application/json"}), "unknown"),
        (Answer(204), "unknown"),
        (Answer(404, "[]"), "unknown"),
        (Answer(500, "[]"), "unknown"),
        (Answer(body="[]", length=9), "unknown"),
        (Answer(then="drop"), "unknown"),
        (Answer(302, headers={"Location": "http://127.0.0.1:1/"}), "unknown"),
    ],
)
async def test_one_sign_decides_and_doubt_is_unknown(hands: Hands, far: FarSide, answer: Answer, expected: str) -> None:
    far.script("/x", answer)
    assert (await hands.ask(**SIGNS)).answer == expected


async def test_signs_of_two_things_at_once_are_unknown(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(body='[{"state": "done"}]'))
    signs: dict[str, Any] = SIGNS | {"pending": Sign("/0", {"exists": True})}
    assert (await hands.ask(**signs)).answer == "unknown"


async def test_a_sign_may_be_a_status_alone_or_with_tests(hands: Hands, far: FarSide) -> None:
    signs: dict[str, Any] = {
        "happened": Sign("/a", {"eq": 1}, frozenset({200})),
        "absent": Sign(status=frozenset({404, 410})),
    }
    for answer, expected in ((Answer(410, ""), "absent"), (Answer(body='{"a": 1}'), "happened"), (Answer(), "unknown")):
        far.script("/x", answer)
        assert (await hands.ask(**signs)).answer == expected


async def test_all_tests_of_a_sign_must_hold(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(body='{"n": 5}'))
    assert (await hands.ask(happened=Sign("/n", {"gt": 1, "lt": 9}))).answer == "happened"
    assert (await hands.ask(happened=Sign("/n", {"gt": 1, "lt": 5}))).answer == "unknown"


async def test_a_member_that_is_missing_is_absent_where_an_object_could_have_it(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(body="{}"))
    absent = Sign("/refund/id", {"exists": False})
    assert (await hands.ask(happened=Sign("/refund", {"exists": True}), absent=absent)).answer == "absent"


async def test_a_page_that_is_no_json_shows_no_absence(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(body="<login>", headers={"Content-Type": "text/html"}))
    absent = Sign("/id", {"exists": False})
    assert (await hands.ask(happened=Sign("/id", {"exists": True}), absent=absent)).answer == "unknown"


async def test_secrets_stay_out_of_what_a_probe_brings(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(body=f'{{"a": "{TOKEN}"}}', headers={"ETag": TOKEN}))
    found = await hands.ask(happened=Sign("/a", {"exists": True}), evidence={"request_id": "/a"})
    assert found.answer == "happened"
    assert TOKEN not in repr(found)


async def test_an_operator_that_is_none_is_refused_when_the_probe_is_built(hands: Hands) -> None:
    with pytest.raises(PredicateError, match="did you mean 'exists'"):
        await hands.ask(happened=Sign("/a", {"exist": True}))
