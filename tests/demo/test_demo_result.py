"""The demo judges itself by the order service's own database, and is content with nothing less than everything once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counterfoil.server.demo.order_store import Count
from counterfoil.server.demo.play import since_the_last_claim, together
from counterfoil.server.demo.result import Result
from counterfoil.server.demo.timeline import Timeline

LEDGER: dict[str, Any] = {"ok": True, "events": 40, "runs": 5, "problems": []}
GOOD = Result(
    run_id="run_1",
    call_id="call_1",
    before="ambiguous",
    after="success",
    run_status="succeeded",
    refunds=Count(1, 1),
    undone=(1, 1, 1, 1),
    compensation="complete",
    messages=Count(3, 3),
    contacts=3,
    killed=True,
    restarted=True,
    ledger=LEDGER,
    timeline=Timeline([], 1.0),
)


def test_a_good_play_is_ok_and_says_what_a_program_reads() -> None:
    assert GOOD.wire() == {
        "ok": True,
        "call_id": "call_1",
        "before": "ambiguous",
        "after": "success",
        "effects": 1,
        "killed": True,
        "restarted": True,
        "ledger": LEDGER,
        "run_id": "run_1",
        "run_status": "succeeded",
        "notifications": 3,
        "compensation": "complete",
    }


BAD: list[dict[str, Any]] = [
    {"before": "permanent_failure"},
    {"after": "ambiguous"},
    {"run_status": "failed"},
    {"refunds": Count(2, 2)},
    {"refunds": Count(1, 2)},
    {"messages": Count(3, 4)},
    {"messages": Count(2, 2)},
    {"undone": (1, 1, 0, 0)},
    {"undone": (1, 1, 1, 2)},
    {"compensation": "incomplete"},
    {"killed": False},
    {"restarted": False},
    {"ledger": LEDGER | {"ok": False}},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_anything_twice_lost_or_misnamed_makes_the_play_fail(bad: dict[str, Any]) -> None:
    assert not replace(GOOD, **bad).ok


def event(seq: int, kind: str, action_id: str, **data: str) -> dict[str, Any]:
    return {"seq": seq, "type": kind, "data": {"action_id": action_id, **data}}


def test_steps_ran_side_by_side_if_both_were_sent_before_one_ended() -> None:
    sent = [event(1, "dispatched", "a", step="policy"), event(2, "dispatched", "b", step="shipment")]
    ended = [event(3, "settled", "a"), event(4, "settled", "b")]
    assert together([*sent, *ended], "policy", "shipment")
    one_by_one = [sent[0], event(2, "settled", "a"), event(3, "dispatched", "b", step="shipment"), ended[1]]
    assert not together(one_by_one, "policy", "shipment")


def test_what_the_new_server_found_and_sent_is_counted_from_its_claim_on() -> None:
    old = [{"type": "run_claimed"}, event(2, "dispatched", "a"), event(3, "probed", "a", answer="happened")]
    new = [
        {"type": "run_claimed"},
        event(5, "probed", "b", answer="happened"),
        event(6, "probed", "c", answer="absent"),
    ]
    assert since_the_last_claim([*old, *new, event(7, "dispatched", "c")]) == (1, 1)
