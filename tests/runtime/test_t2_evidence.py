"""T2, and what comes too late for it: once, by whoever made the attempt, and never one attempt's word for another's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from counterfoil.ledger import owners
from counterfoil.ledger.admission import Duplicate, Relation, Unresolved
from counterfoil.ledger.bookkeeping import request_cancel
from counterfoil.ledger.check import check
from counterfoil.ledger.dispatching import Dispatched, LateFound, Moved
from counterfoil.ledger.finding import LATE, PARKED, list_calls
from counterfoil.ledger.holding import set_hold
from counterfoil.ledger.queries import EVENTS
from counterfoil.ledger.recovering import abandon, adopt, resend, resolve, rule_out, take_over
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.settling import Settled, Settlement, Superseded, settle, take_late
from tests.runtime.bench import FAILED, HOUR, LOST, SUCCESS, UNSENT, Bench

pytestmark = pytest.mark.anyio


async def types(bench: Bench, row: CallRow) -> list[str]:
    return [event.type for event in await bench.ledger.reads.fetch(EVENTS, run_id=row.run_id, after_seq=0)]


async def lost_by_another(bench: Bench, **changes: Any) -> tuple[CallRow, CallRow]:
    """A call that another process sent and lost to us; as that process knows it, and as it is now."""
    other = await bench.another_owner()
    sent = await bench.dispatched(bench.attempt(other), **changes)
    await bench.lapse(other)
    taken = await bench.record(lambda: take_over(sent.call_id, bench.me, bench.clock.now()))
    assert taken is not None
    return sent, taken.row


async def sent_again(bench: Bench, row: CallRow) -> CallRow:
    queued = await bench.record(lambda: resend(row.call_id, row.revision, bench.me, bench.clock.now(), {}))
    assert queued is not None
    done = await bench.again(row.call_id)
    assert isinstance(done, Dispatched), done
    return done.row


async def test_a_second_settlement_of_the_same_attempt_changes_nothing(bench: Bench) -> None:
    row = await bench.dispatched()
    said = replace(SUCCESS, at=bench.clock.now())
    first = await bench.record(lambda: settle(row.call_id, 1, said))
    again = await bench.record(lambda: settle(row.call_id, 1, said))
    assert isinstance(again, Settled)
    assert again.row == first.row


@pytest.mark.parametrize("knows", [True, False])
async def test_a_row_that_was_changed_since_its_t1_is_settled_as_it_is_now(bench: Bench, *, knows: bool) -> None:
    row = await bench.dispatched()
    asked = await bench.record(lambda: request_cancel(row.call_id, "me", "enough", bench.clock.now()))
    assert asked is not None
    done = await bench.settled(row, SUCCESS, known=row if knows else None)
    assert isinstance(done, Settled)
    assert (done.row.state, done.row.outcome, done.row.revision) == ("settled", "success", asked.revision + 1)
    assert done.row.cancel_reason == "enough"
    assert await bench.row_of(row.call_id) == done.row
    assert await types(bench, row) == ["dispatched", "cancel_requested", "settled"]


async def test_a_settlement_whose_answer_was_lost_changes_nothing_when_it_is_tried_again(bench: Bench) -> None:
    row = await bench.dispatched()
    said = replace(SUCCESS, at=bench.clock.now())
    first = await bench.record(lambda: settle(row.call_id, 1, said, known=row))
    again = await bench.record(lambda: settle(row.call_id, 1, said, known=row))
    assert isinstance(again, Settled)
    assert again.row == first.row
    assert await types(bench, row) == ["dispatched", "settled"]


async def test_a_lost_attempt_settled_late_is_answered_by_that(bench: Bench) -> None:
    sent, _ = await lost_by_another(bench)
    assert isinstance(await bench.settled(sent, SUCCESS), Superseded)
    assert (await bench.row_of(sent.call_id)).state == "awaiting_reconciliation"
    done = await bench.record(lambda: take_late(sent.call_id, bench.clock.now()))
    assert done is not None
    assert (done.state, done.outcome, done.settled_by) == ("settled", "success", "late")


async def test_an_ambiguous_late_word_answers_nothing(bench: Bench) -> None:
    sent, _ = await lost_by_another(bench)
    await bench.settled(sent, LOST)
    assert await bench.record(lambda: take_late(sent.call_id, bench.clock.now())) is None


async def test_one_attempt_without_effect_says_nothing_of_the_one_before(bench: Bench) -> None:
    _, now = await lost_by_another(bench)
    second = await sent_again(bench, now)
    done = await bench.settled(second, UNSENT)
    assert (done.row.state, done.row.sent) == ("awaiting_reconciliation", "unknown")


async def test_a_late_word_that_one_attempt_sent_nothing_says_nothing_of_the_next(bench: Bench) -> None:
    sent, now = await lost_by_another(bench)
    second = await sent_again(bench, now)
    await bench.settled(second, LOST)
    await bench.settled(sent, UNSENT)
    assert await bench.record(lambda: take_late(sent.call_id, bench.clock.now())) is None
    assert (await bench.row_of(sent.call_id)).state == "awaiting_reconciliation"


async def test_an_attempt_without_effect_settles_the_call_once_the_others_are_ruled_out(bench: Bench) -> None:
    _, now = await lost_by_another(bench)
    ruled = await bench.record(lambda: rule_out(now.call_id, now.revision, bench.clock.now()))
    assert ruled is not None
    done = await bench.settled(await sent_again(bench, ruled), FAILED)
    assert (done.row.state, done.row.outcome) == ("settled", "permanent_failure")


async def test_a_call_that_reported_late_is_not_sent_again(bench: Bench) -> None:
    sent, now = await lost_by_another(bench)
    await bench.record(lambda: resend(now.call_id, now.revision, bench.me, bench.clock.now(), {}))
    await bench.settled(sent, SUCCESS)
    assert isinstance(await bench.again(sent.call_id), LateFound)


async def test_what_a_call_reported_late_is_read_though_it_is_held(bench: Bench) -> None:
    sent, now = await lost_by_another(bench)
    await bench.record(lambda: resend(now.call_id, now.revision, bench.me, bench.clock.now(), {}))
    await bench.settled(sent, SUCCESS)
    await bench.record(lambda: set_hold("all", "", "os:alex", "", bench.clock.now()))
    assert isinstance(await bench.again(sent.call_id), LateFound)


async def test_a_call_is_not_sent_again_after_the_far_side_may_have_forgotten_its_key(bench: Bench) -> None:
    _, now = await lost_by_another(bench)
    await bench.record(lambda: resend(now.call_id, now.revision, bench.me, bench.clock.now(), {}))
    bench.clock.at += HOUR
    assert isinstance(await bench.again(now.call_id), Moved)
    assert (await bench.row_of(now.call_id)).state == "awaiting_reconciliation"


@pytest.mark.parametrize("idempotency", ["none", "natural"])
async def test_a_call_is_not_sent_again_where_its_contract_makes_that_harmful(bench: Bench, idempotency: str) -> None:
    _, now = await lost_by_another(bench, resources=["shared:order:1"])
    await bench.record(lambda: resend(now.call_id, now.revision, bench.me, bench.clock.now(), {}))
    assert isinstance(await bench.again(now.call_id, idempotency=idempotency), Moved)


async def test_a_natural_call_is_sent_again_while_it_alone_holds_its_resources(bench: Bench) -> None:
    _, now = await lost_by_another(bench, resources=["order:1"])
    await bench.record(lambda: resend(now.call_id, now.revision, bench.me, bench.clock.now(), {}))
    assert isinstance(await bench.again(now.call_id, idempotency="natural"), Dispatched)


async def test_an_attempt_that_was_never_made_does_not_settle_what_an_earlier_one_may_have_done(bench: Bench) -> None:
    _, now = await lost_by_another(bench)
    second = await sent_again(bench, now)
    done = await bench.record(lambda: abandon(second.call_id, bench.me, bench.clock.now()))
    assert done is not None
    assert (done.state, done.sent) == ("awaiting_reconciliation", "unknown")


async def test_a_first_attempt_that_was_never_made_is_settled_as_not_sent(bench: Bench) -> None:
    first = await bench.dispatched()
    done = await bench.record(lambda: abandon(first.call_id, bench.me, bench.clock.now()))
    assert done is not None
    assert (done.state, done.sent, done.code) == ("settled", "no", "unavailable")


async def by_word(bench: Bench, row: CallRow, outcome: str, by: str) -> CallRow:
    details: Any = {"effect": "none"} if outcome == "permanent_failure" else None
    said = Settlement(outcome, "unknown", bench.clock.now(), by=by, details=details)
    done = await bench.record(lambda: resolve(row.call_id, row.revision, said, word={"by": "carol"}))
    assert done is not None
    return done


@pytest.mark.parametrize("by", ["person", "probe"])
async def test_late_evidence_against_a_word_reopens_the_call(bench: Bench, by: str) -> None:
    sent, now = await lost_by_another(bench, resources=["order:1"], key="k")
    await by_word(bench, now, "permanent_failure", by)
    await bench.settled(sent, SUCCESS)
    row = await bench.row_of(sent.call_id)
    assert (row.state, row.outcome, row.sent, row.code) == (
        "awaiting_reconciliation",
        "ambiguous",
        "unknown",
        "ambiguous",
    )
    assert "contradiction" in await types(bench, row)


async def test_a_reopened_call_holds_its_resources_and_its_key_again(bench: Bench) -> None:
    sent, now = await lost_by_another(bench, resources=["order:1"], key="k")
    await by_word(bench, now, "permanent_failure", "person")
    await bench.settled(sent, SUCCESS)
    bench.clock.at += 2 * HOUR
    assert isinstance(await bench.t1(bench.row(resources=["order:1"], subject="another")), Unresolved)
    found = await bench.t1(bench.row(resources=["order:1"], key="k"))
    assert isinstance(found, Duplicate)
    assert found.relation is Relation.REPLAY


async def test_a_reopened_call_waits_for_a_reconcile_and_not_for_the_next_sweep(bench: Bench) -> None:
    sent, now = await lost_by_another(bench)
    await by_word(bench, now, "permanent_failure", "person")
    await bench.settled(sent, SUCCESS)
    assert await bench.ledger.reads.look(lambda: list_calls(LATE)) == []
    assert await bench.record(lambda: take_late(sent.call_id, bench.clock.now())) is not None


async def test_late_evidence_against_an_execution_is_an_event_and_changes_nothing(bench: Bench) -> None:
    sent, now = await lost_by_another(bench)
    ruled = await bench.record(lambda: rule_out(now.call_id, now.revision, bench.clock.now()))
    assert ruled is not None
    await bench.settled(await sent_again(bench, ruled), FAILED)
    await bench.settled(sent, SUCCESS)
    row = await bench.row_of(sent.call_id)
    assert (row.state, row.outcome) == ("settled", "permanent_failure")
    assert "contradiction" in await types(bench, row)


async def test_an_effect_that_was_ruled_out_and_comes_after_the_call_was_sent_again_is_told(bench: Bench) -> None:
    sent, now = await lost_by_another(bench)
    ruled = await bench.record(lambda: rule_out(now.call_id, now.revision, bench.clock.now()))
    assert ruled is not None
    await bench.settled(await sent_again(bench, ruled), SUCCESS)
    assert check(bench.ledger.path).breaches == ()
    await bench.settled(sent, SUCCESS)
    row = await bench.row_of(sent.call_id)
    assert (row.state, row.outcome) == ("settled", "success")
    assert "contradiction" in await types(bench, row)
    assert [breach.rule for breach in check(bench.ledger.path).breaches] == ["effect_once"]


async def test_late_evidence_that_agrees_is_no_contradiction(bench: Bench) -> None:
    sent, now = await lost_by_another(bench)
    await by_word(bench, now, "success", "person")
    await bench.settled(sent, SUCCESS)
    assert "contradiction" not in await types(bench, now)


async def test_no_retry_follows_once_somebody_asked_for_the_call_to_stop(bench: Bench) -> None:
    row = await bench.dispatched()
    await bench.record(lambda: request_cancel(row.call_id, "me", "", bench.clock.now()))
    done = await bench.settled(row, UNSENT, retry_at=bench.clock.now())
    assert done.row.state == "settled"


async def test_a_living_owner_loses_nothing(bench: Bench) -> None:
    other = await bench.another_owner()
    sent = await bench.dispatched(bench.attempt(other))
    assert await bench.record(lambda: take_over(sent.call_id, bench.me, bench.clock.now())) is None


async def test_a_process_without_the_tool_leaves_the_follow_up_to_one_that_has_it(bench: Bench) -> None:
    other = await bench.another_owner()
    sent = await bench.dispatched(bench.attempt(other))
    await bench.lapse(other)
    taken = await bench.record(lambda: take_over(sent.call_id, bench.me, bench.clock.now(), serves=False))
    assert taken is not None
    assert taken.row.state == "awaiting_reconciliation"
    assert await bench.ledger.reads.look(lambda: list_calls(PARKED)) == [sent.call_id]
    third = await bench.another_owner()
    adopted = await bench.record(lambda: adopt(sent.call_id, third, bench.clock.now()))
    assert adopted is not None
    assert adopted.owner_id == third


async def test_a_parked_call_is_adopted_once(bench: Bench) -> None:
    other = await bench.another_owner()
    sent = await bench.dispatched(bench.attempt(other))
    await bench.settled(sent, LOST)
    await bench.record(lambda: owners.end(other, bench.clock.now()))
    assert await bench.record(lambda: adopt(sent.call_id, bench.me, bench.clock.now())) is not None
    assert await bench.record(lambda: adopt(sent.call_id, bench.me, bench.clock.now())) is None


async def test_details_of_a_contradiction_stay_readable(bench: Bench) -> None:
    sent, now = await lost_by_another(bench)
    await by_word(bench, now, "permanent_failure", "person")
    await bench.settled(sent, SUCCESS)
    events = await bench.ledger.reads.fetch(EVENTS, run_id=sent.run_id, after_seq=0)
    said = json.loads(next(event for event in events if event.type == "contradiction").body)["data"]
    assert said == {"stated": "permanent_failure", "stated_by": "person", "late": "success"}
