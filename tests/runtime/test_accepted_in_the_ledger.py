"""What the ledger keeps of a call that a far side has accepted: its resources, no owner, one question at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterfoil.ledger.admission import Unresolved
from counterfoil.ledger.check import check
from counterfoil.ledger.dispatching import Dispatched
from counterfoil.ledger.external import (
    Acceptance,
    Again,
    accept_after_probe,
    claim_poll,
    list_polls_due,
    stop_waiting,
    wake,
)
from counterfoil.ledger.recovering import note_probe, resend, resolve
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.settling import Settled, Settlement, settle
from counterfoil.ledger.verify import verify_database
from tests.runtime.bench import HOUR, LOST, SECOND, SUCCESS, UNSENT, Bench

pytestmark = pytest.mark.anyio


def accepted(bench: Bench) -> Settlement:
    at = bench.clock.now()
    how = Acceptance(at + HOUR, at + 5 * SECOND)
    return Settlement(
        "ambiguous", "yes", at, message="in the queue", evidence={"external_reference": "j"}, accepted=how
    )


async def waiting(bench: Bench) -> CallRow:
    row = await bench.dispatched(resources=["order:1"])
    done = await bench.settled(row, accepted(bench))
    assert isinstance(done, Settled)
    return done.row


def sound(bench: Bench) -> None:
    found = check(bench.ledger.path)
    assert found.ok, found.breaches
    assert verify_database(bench.ledger.path).ok


async def test_an_accepted_call_has_no_outcome_no_owner_and_keeps_its_resources(bench: Bench) -> None:
    row = await waiting(bench)
    assert (row.state, row.outcome, row.sent, row.code, row.owner_id, row.settled_at) == (
        "awaiting_external", None, "yes", None, None, None,
    )  # fmt: skip
    kept = await bench.row_of(row.call_id)
    assert (kept.external_until, kept.not_before) == (row.external_until, row.not_before)
    other = await bench.t1(bench.row(resources=["order:1"]))
    assert isinstance(other, Unresolved)
    sound(bench)


async def test_an_acceptance_whose_answer_was_lost_changes_nothing_the_second_time(bench: Bench) -> None:
    row = await bench.dispatched()
    said = accepted(bench)
    first = await bench.record(lambda: settle(row.call_id, 1, said, known=row))
    again = await bench.record(lambda: settle(row.call_id, 1, said, known=row))
    assert isinstance(first, Settled)
    assert isinstance(again, Settled)
    assert (again.row.revision, again.row.seq) == (first.row.revision, first.row.seq)


async def test_one_owner_asks_at_a_time_until_it_is_gone(bench: Bench) -> None:
    row, other = await waiting(bench), await bench.another_owner()
    early, due = row.not_before, row.not_before
    assert early is not None
    assert due is not None
    call_id = row.call_id
    assert await bench.record(lambda: list_polls_due(early - 1)) == []
    assert await bench.record(lambda: claim_poll(call_id, other, early - 1, HOUR)) is None
    assert [found.call_id for found in await bench.record(lambda: list_polls_due(due))] == [call_id]
    assert await bench.record(lambda: claim_poll(call_id, other, due, due + 60 * SECOND)) is not None
    later = due + 120 * SECOND
    assert await bench.record(lambda: claim_poll(call_id, bench.me, later, later + SECOND)) is None
    await bench.lapse(other)
    mine = await bench.record(lambda: claim_poll(call_id, bench.me, later, later + SECOND))
    assert mine is not None
    assert (mine.owner_id, mine.revision) == (bench.me, row.revision)
    sound(bench)


@pytest.mark.parametrize("woken", [False, True])
async def test_an_answer_frees_it_and_a_wake_meanwhile_is_not_lost(bench: Bench, woken: bool) -> None:
    row = await waiting(bench)
    due, call_id = row.not_before or 0, row.call_id
    mine = await bench.record(lambda: claim_poll(call_id, bench.me, due, due + 60 * SECOND))
    assert mine is not None
    if woken:
        await bench.record(lambda: wake(call_id, due + SECOND))
    again = Again(due + 10 * SECOND, mine.not_before)
    noted = await bench.record(
        lambda: note_probe(call_id, mine.revision, "pending", "call_p", due + 2 * SECOND, again=again)
    )
    assert noted is not None
    assert (noted.state, noted.owner_id) == ("awaiting_external", None)
    assert (await bench.row_of(call_id)).not_before == (due + SECOND if woken else due + 10 * SECOND)


async def test_a_wake_never_puts_a_question_off(bench: Bench) -> None:
    row = await waiting(bench)
    due, call_id = row.not_before or 0, row.call_id
    await bench.record(lambda: wake(call_id, due + SECOND))
    assert (await bench.row_of(call_id)).not_before == due
    await bench.record(lambda: wake(call_id, due - SECOND))
    assert (await bench.row_of(call_id)).not_before == due - SECOND
    settled = await bench.dispatched(tool="another")
    await bench.settled(settled, SUCCESS)
    assert await bench.record(lambda: wake(settled.call_id, due)) is None


async def test_a_far_side_that_calls_back_before_its_acceptance_is_recorded_is_asked_at_once(bench: Bench) -> None:
    row = await bench.dispatched()
    at = bench.clock.now()
    for later in (SECOND, 2 * SECOND):
        assert await bench.record(lambda later=later: wake(row.call_id, at + later)) is not None  # type: ignore[misc]  # bound in its turn
    bench.clock.pass_(1)
    said = accepted(bench)
    done = await bench.record(lambda: settle(row.call_id, 1, said, known=row))
    assert isinstance(done, Settled)
    assert (await bench.row_of(row.call_id)).not_before == done.row.not_before == at + SECOND
    assert [found.call_id for found in await bench.record(lambda: list_polls_due(at + SECOND))] == [row.call_id]
    sound(bench)


async def test_the_end_of_the_wait_is_unknown_and_lets_go_of_nothing(bench: Bench) -> None:
    row = await waiting(bench)
    at, me = bench.clock.now() + HOUR, bench.me
    assert await bench.record(lambda: stop_waiting(row.call_id, row.revision + 1, me, "over", at)) is None
    done = await bench.record(lambda: stop_waiting(row.call_id, row.revision, me, "over", at))
    assert done is not None
    assert (done.state, done.outcome, done.sent, done.code, done.owner_id) == (
        "awaiting_reconciliation", "ambiguous", "unknown", "ambiguous", me,
    )  # fmt: skip
    assert done.not_before is None
    assert isinstance(await bench.t1(bench.row(resources=["order:1"])), Unresolved)
    sound(bench)


async def test_a_probe_that_finds_it_at_work_and_then_done_lets_go_of_everything(bench: Bench) -> None:
    row = await bench.dispatched(resources=["order:1"])
    lost = (await bench.settled(row, LOST)).row
    at = bench.clock.now()
    how = Acceptance(at + HOUR, at + SECOND)
    again = await bench.record(lambda: accept_after_probe(row.call_id, lost.revision, how, at))
    assert again is not None
    assert (again.state, again.outcome, again.code) == ("awaiting_external", None, None)
    assert await bench.record(lambda: accept_after_probe(row.call_id, again.revision, how, at)) is None
    said = replace(SUCCESS, at=at, by="probe")
    done = await bench.record(lambda: resolve(row.call_id, again.revision, said))
    assert done is not None
    assert (done.state, done.outcome) == ("settled", "success")
    assert isinstance(await bench.t1(bench.row(resources=["order:1"])), Dispatched)
    sound(bench)


async def test_the_time_of_a_further_attempt_stands_in_its_row(bench: Bench) -> None:
    row = await bench.dispatched()
    retry_at = bench.clock.now() + 60 * SECOND
    done = await bench.settled(row, UNSENT, retry_at=retry_at)
    assert isinstance(done, Settled)
    assert (done.row.state, (await bench.row_of(row.call_id)).not_before) == ("queued", retry_at)


async def test_another_sending_does_not_wait_for_the_time_of_the_next_question(bench: Bench) -> None:
    row = await waiting(bench)
    me, at = bench.me, bench.clock.now()
    lost = await bench.record(lambda: stop_waiting(row.call_id, row.revision, me, "over", at))
    assert lost is not None
    again = await bench.record(lambda: resend(row.call_id, lost.revision, me, at, {"why": "a person says so"}))
    assert again is not None
    assert (again.state, again.not_before) == ("queued", None)
