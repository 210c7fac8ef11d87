"""Decisions as facts: one wins, a fresh one lets a call be sent again, and none makes an unknown call known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from counterfoil.ledger.admission import GrantLapsed, Held, Unresolved
from counterfoil.ledger.approving import Decided, Decision, NotDecided, expire, revoke, withdraw
from counterfoil.ledger.dispatching import ApprovalGone, Dispatched, Moved
from counterfoil.ledger.holding import set_hold
from counterfoil.ledger.proposals import Hindered, repropose
from counterfoil.ledger.queries import APPROVAL
from counterfoil.ledger.recovering import claim, rule_out
from tests.runtime.bench import HOUR, LOST, UNSENT, Bench

pytestmark = pytest.mark.anyio


async def test_of_two_decisions_one_wins(bench: Bench) -> None:
    _, approval = await bench.proposed()
    assert isinstance(await bench.decided(approval), Decided)
    second = await bench.decided(approval, approve=False)
    assert isinstance(second, NotDecided)
    assert second.why == "approved"


async def test_a_decision_about_another_digest_decides_nothing(bench: Bench) -> None:
    row, approval = await bench.proposed()
    assert isinstance(await bench.decided(approval, digest="0" * 64), NotDecided)
    assert (await bench.row_of(row.call_id)).state == "awaiting_approval"


async def test_a_decision_after_the_proposal_expired_refuses_the_call(bench: Bench) -> None:
    row, approval = await bench.proposed()
    bench.clock.pass_(3_601)
    assert isinstance(await bench.decided(approval), NotDecided)
    now = await bench.row_of(row.call_id)
    assert (now.state, now.code) == ("refused", "approval_expired")


async def test_a_clock_set_back_does_not_revive_an_expired_proposal(bench: Bench) -> None:
    _, approval = await bench.proposed()
    bench.clock.pass_(3_601)
    await bench.record(lambda: expire(approval.approval_id, bench.clock.now()))
    bench.clock.pass_(-3_601)
    assert isinstance(await bench.decided(approval), NotDecided)


async def test_a_cancelled_proposal_cannot_be_approved(bench: Bench) -> None:
    row, approval = await bench.proposed()
    await bench.record(lambda: withdraw(row.call_id, "me", "", bench.clock.now()))
    said = await bench.decided(approval)
    assert isinstance(said, NotDecided)
    assert said.why == "revoked"


async def test_cancelling_what_was_decided_first_wins_over_its_dispatch(bench: Bench) -> None:
    row, approval = await bench.proposed()
    await bench.decided(approval)
    done = await bench.record(lambda: withdraw(row.call_id, "me", "", bench.clock.now()))
    assert done is not None
    assert (done.state, done.sent) == ("settled", "no")
    assert await bench.record(lambda: claim(row.call_id, bench.me, bench.clock.now())) is None


async def test_a_further_attempt_uses_the_consumed_approval_within_its_window_only(bench: Bench) -> None:
    row, approval = await bench.approved()
    sent = await bench.again(row.call_id, digest=approval.digest)
    await bench.settled(sent.row, UNSENT, retry_at=bench.clock.now())
    bench.clock.pass_(901)
    assert isinstance(await bench.again(row.call_id, digest=approval.digest), ApprovalGone)
    bench.clock.pass_(-60)
    assert isinstance(await bench.again(row.call_id, digest=approval.digest), Dispatched)


async def test_a_fresh_approval_lets_a_call_be_sent_again_once(bench: Bench) -> None:
    row, approval = await bench.approved()
    sent = await bench.again(row.call_id, digest=approval.digest)
    lost = (await bench.settled(sent.row, LOST)).row
    ruled = await bench.record(lambda: rule_out(lost.call_id, lost.revision, bench.clock.now()))
    assert ruled is not None
    fresh = bench.approval(row, digest="e" * 64)
    await bench.record(lambda: repropose(row.call_id, fresh, "a person said so", bench.clock.now()))
    await bench.decided(fresh)
    await bench.record(lambda: claim(row.call_id, bench.me, bench.clock.now()))
    assert isinstance(await bench.again(row.call_id, digest=approval.digest), ApprovalGone)
    again = await bench.again(row.call_id, digest=fresh.digest)
    assert isinstance(again, Dispatched)
    assert again.row.generation == 2
    (consumed,) = await bench.ledger.reads.fetch(APPROVAL, approval_id=fresh.approval_id)
    assert consumed.state == "consumed"


@pytest.mark.parametrize("end", ["reject", "cancel"])
async def test_a_call_of_which_nobody_knows_stays_unknown_when_it_is_not_to_be_sent_again(
    bench: Bench, end: str
) -> None:
    row, approval = await bench.approved()
    sent = await bench.again(row.call_id, digest=approval.digest)
    await bench.settled(sent.row, LOST)
    fresh = bench.approval(row, digest="e" * 64)
    await bench.record(lambda: repropose(row.call_id, fresh, "its window passed", bench.clock.now()))
    if end == "reject":
        await bench.decided(fresh, approve=False)
    else:
        await bench.record(lambda: withdraw(row.call_id, "me", "", bench.clock.now()))
    now = await bench.row_of(row.call_id)
    assert (now.state, now.sent, now.outcome) == ("awaiting_reconciliation", "unknown", "ambiguous")


def taking_back(bench: Bench) -> Decision:
    return Decision(approve=False, by="os:dan", strength="same_user", via="cli", at=bench.clock.now())


@pytest.mark.parametrize("decided", [False, True])
async def test_what_was_taken_back_is_refused_whether_it_was_decided_or_not(bench: Bench, decided: bool) -> None:
    row, approval = await bench.proposed()
    if decided:
        await bench.decided(approval)
        await bench.record(lambda: claim(row.call_id, bench.me, bench.clock.now()))
    done = await bench.record(lambda: revoke(approval.approval_id, taking_back(bench)))
    assert isinstance(done, Decided)
    assert [(call.state, call.code, call.sent) for call in done.rows] == [("refused", "approval_invalid", "no")]
    assert isinstance(await bench.again(row.call_id, digest=approval.digest), Moved)
    assert isinstance(await bench.decided(approval), NotDecided)


async def test_what_was_sent_cannot_be_taken_back(bench: Bench) -> None:
    row, approval = await bench.proposed()
    await bench.decided(approval)
    await bench.record(lambda: claim(row.call_id, bench.me, bench.clock.now()))
    assert isinstance(await bench.again(row.call_id, digest=approval.digest), Dispatched)
    done = await bench.record(lambda: revoke(approval.approval_id, taking_back(bench)))
    assert isinstance(done, NotDecided)
    assert done.why == "consumed"
    assert (await bench.row_of(row.call_id)).state == "dispatched"


async def hold(bench: Bench) -> None:
    await bench.record(lambda: set_hold("tool", "refund", "os:alex", "", bench.clock.now()))


async def lapse(bench: Bench) -> None:
    bench.clock.pass_(3_600)


async def lose_the_holder(bench: Bench) -> None:
    await bench.settled(await bench.dispatched(resources=["order:1"], subject="another"), LOST)


@pytest.mark.parametrize(("arises", "expected"), [(hold, Held), (lapse, GrantLapsed), (lose_the_holder, Unresolved)])
async def test_a_fresh_proposal_is_made_only_when_nothing_but_the_decision_is_missing(
    bench: Bench, arises: Callable[[Bench], Awaitable[None]], expected: type
) -> None:
    row, _ = await bench.approved(resources=["order:1"], grant_expires_at=bench.clock.now() + HOUR)
    await arises(bench)
    done = await bench.record(lambda: repropose(row.call_id, bench.approval(row), "why", bench.clock.now()))
    assert isinstance(done, Hindered)
    assert isinstance(done.by, expected)
    assert await bench.row_of(row.call_id) == row
