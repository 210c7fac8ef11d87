"""The guards of T1, each alone: what they refuse changes nothing, and of many at once exactly one passes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from counterfoil.ledger.admission import Busy, Duplicate, OwnerLapsed, Relation, Unresolved
from counterfoil.ledger.approving import withdraw
from counterfoil.ledger.bookkeeping import Delivery, close_request, mark_delivered
from counterfoil.ledger.budgeting import Charge, OverBudget
from counterfoil.ledger.dispatching import ApprovalGone, Dispatched, Moved
from counterfoil.ledger.queries import APPROVAL, CALL
from counterfoil.ledger.recovering import attempt_again, resend
from tests.runtime.bench import FAILED, LOST, SUCCESS, UNSENT, Bench

pytestmark = pytest.mark.anyio
ORDER = ["order:1"]


async def test_a_lapsed_owner_sends_nothing_and_leaves_no_row(bench: Bench) -> None:
    other = await bench.another_owner()
    await bench.lapse(other)
    row = bench.row()
    assert isinstance(await bench.t1(row, bench.attempt(other)), OwnerLapsed)
    assert await bench.ledger.reads.fetch(CALL, call_id=row.call_id) == []


async def test_an_owner_that_nobody_knows_sends_nothing(bench: Bench) -> None:
    assert isinstance(await bench.t1(bench.row(), bench.attempt("own_nobody")), OwnerLapsed)


async def test_a_key_with_the_same_arguments_gives_the_call_under_way(bench: Bench) -> None:
    first = await bench.dispatched(key="k")
    found = await bench.t1(bench.row(key="k"))
    assert (found.relation, found.row.call_id) == (Relation.IN_PROGRESS, first.call_id)


async def test_a_key_with_other_arguments_is_a_conflict(bench: Bench) -> None:
    await bench.dispatched(key="k")
    found = await bench.t1(bench.row(key="k", args_digest="b" * 64))
    assert found.relation is Relation.CONFLICT


@pytest.mark.parametrize(
    ("end", "relation"),
    [(SUCCESS, Relation.REPLAY), (FAILED, Relation.REPLAY), (LOST, Relation.REPLAY), (UNSENT, Relation.AGAIN)],
    ids=["success", "failure", "unknown", "nothing left"],
)
async def test_a_key_replays_every_end_but_one_of_which_nothing_left(
    bench: Bench, end: Any, relation: Relation
) -> None:
    await bench.settled(await bench.dispatched(key="k"), end)
    assert (await bench.t1(bench.row(key="k"))).relation is relation


async def test_a_key_past_its_retention_is_a_tombstone_and_no_second_dispatch(bench: Bench) -> None:
    await bench.settled(await bench.dispatched(key="k"), SUCCESS)
    bench.clock.pass_(3_601)
    assert (await bench.t1(bench.row(key="k"))).relation is Relation.CONFLICT


async def test_a_key_never_expires_while_its_call_is_unknown(bench: Bench) -> None:
    await bench.settled(await bench.dispatched(key="k"), LOST)
    bench.clock.pass_(100_000)
    assert (await bench.t1(bench.row(key="k"))).relation is Relation.REPLAY


async def test_a_key_that_came_again_does_not_expire_during_its_next_attempt(bench: Bench) -> None:
    first = await bench.dispatched(key="k")
    await bench.settled(first, UNSENT)
    await bench.record(lambda: attempt_again(first.call_id, bench.me, bench.clock.now()))
    assert isinstance(await bench.again(first.call_id), Dispatched)
    bench.clock.pass_(3_601)
    assert (await bench.t1(bench.row(key="k"))).relation is Relation.IN_PROGRESS


async def test_a_delivery_of_the_end_before_does_not_mark_a_call_that_is_under_way_again(bench: Bench) -> None:
    first = await bench.dispatched(key="k")
    await bench.settled(first, UNSENT)
    await bench.record(lambda: attempt_again(first.call_id, bench.me, bench.clock.now()))
    late = bench.attempt(deliveries=(Delivery(first.call_id, bench.clock.now()),))
    await bench.again(first.call_id, late)
    assert (await bench.row_of(first.call_id)).delivered_at is None


async def test_an_identical_call_joins_one_whose_answer_nobody_got(bench: Bench) -> None:
    first = await bench.dispatched()
    await bench.record(lambda: close_request(first.call_id, bench.me))
    found = await bench.t1(bench.row())
    assert (found.relation, found.row.call_id) == (Relation.JOIN, first.call_id)


async def test_identical_calls_whose_requests_are_open_at_once_are_two_intents(bench: Bench) -> None:
    await bench.dispatched()
    assert isinstance(await bench.t1(bench.row()), Dispatched)


async def test_a_delivered_call_is_not_joined(bench: Bench) -> None:
    first = await bench.dispatched()
    await bench.settled(first, SUCCESS)
    await bench.record(lambda: mark_delivered([Delivery(first.call_id, bench.clock.now())]))
    assert isinstance(await bench.t1(bench.row()), Dispatched)


async def test_an_undelivered_end_is_joined_within_the_window_only(bench: Bench) -> None:
    first = await bench.dispatched()
    await bench.settled(first, SUCCESS)
    await bench.record(lambda: close_request(first.call_id, bench.me))
    bench.clock.pass_(899)
    assert isinstance(await bench.t1(bench.row()), Duplicate)
    bench.clock.pass_(2)
    assert isinstance(await bench.t1(bench.row()), Dispatched)


async def test_a_tool_without_resources_waits_for_its_unresolved_call_whatever_the_words(bench: Bench) -> None:
    first = await bench.dispatched()
    await bench.settled(first, LOST)
    found = await bench.t1(bench.row(args_digest="b" * 64))
    assert isinstance(found, Unresolved)
    assert found.row.call_id == first.call_id
    assert isinstance(await bench.t1(bench.row(subject="another", args_digest="b" * 64)), Dispatched)


async def test_two_unresolved_calls_of_one_tool_do_not_hold_back_each_others_next_attempt(bench: Bench) -> None:
    calls = [await bench.dispatched(args_digest=letter * 64) for letter in "ab"]
    rows = [(await bench.settled(call, LOST)).row for call in calls]
    for row in rows:
        await bench.record(partial(resend, row.call_id, row.revision, bench.me, bench.clock.now(), {}))
    assert isinstance(await bench.again(rows[0].call_id), Dispatched)


async def test_a_healthy_holder_of_a_resource_is_waited_for(bench: Bench) -> None:
    holder = await bench.dispatched(resources=ORDER)
    found = await bench.t1(bench.row(resources=ORDER, args_digest="b" * 64, subject="another"))
    assert isinstance(found, Busy)
    assert found.row.call_id == holder.call_id


async def test_an_unresolved_holder_refuses_everybody_in_the_tenant(bench: Bench) -> None:
    await bench.settled(await bench.dispatched(resources=ORDER), LOST)
    bench.clock.pass_(100_000)
    assert isinstance(await bench.t1(bench.row(resources=ORDER, subject="another", tool="other")), Unresolved)
    assert isinstance(await bench.t1(bench.row(resources=ORDER, tenant="other")), Dispatched)


async def test_readers_share_a_resource_and_a_writer_waits_for_them(bench: Bench) -> None:
    shared = ["shared:order:1"]
    await bench.dispatched(resources=shared)
    assert isinstance(await bench.t1(bench.row(resources=shared, args_digest="b" * 64)), Dispatched)
    assert isinstance(await bench.t1(bench.row(resources=ORDER, args_digest="c" * 64)), Busy)


async def test_a_settled_call_lets_go_of_its_resources(bench: Bench) -> None:
    await bench.settled(await bench.dispatched(resources=ORDER), SUCCESS)
    assert isinstance(await bench.t1(bench.row(resources=ORDER, args_digest="b" * 64)), Dispatched)


async def test_an_undecided_approval_sends_nothing(bench: Bench) -> None:
    row, approval = await bench.proposed()
    assert isinstance(await bench.again(row.call_id, digest=approval.digest), Moved)


async def test_an_approval_of_another_proposal_sends_nothing(bench: Bench) -> None:
    row, _ = await bench.approved()
    assert isinstance(await bench.again(row.call_id, digest="0" * 64), ApprovalGone)


async def test_an_approval_past_its_window_sends_nothing(bench: Bench) -> None:
    row, approval = await bench.approved()
    bench.clock.pass_(901)
    assert isinstance(await bench.again(row.call_id, digest=approval.digest), ApprovalGone)


async def test_an_approval_is_consumed_once_by_twenty_who_try_at_once(bench: Bench) -> None:
    row, approval = await bench.approved()
    found = await asyncio.gather(*(bench.again(row.call_id, digest=approval.digest) for _ in range(20)))
    assert sum(isinstance(one, Dispatched) for one in found) == 1
    (consumed,) = await bench.ledger.reads.fetch(APPROVAL, approval_id=approval.approval_id)
    assert consumed.state == "consumed"


async def test_a_cancelled_call_is_not_sent_whatever_was_decided(bench: Bench) -> None:
    row, approval = await bench.approved()
    await bench.record(lambda: withdraw(row.call_id, "me", "", bench.clock.now()))
    assert isinstance(await bench.again(row.call_id, digest=approval.digest), Moved)
    assert (await bench.row_of(row.call_id)).code == "cancelled"


async def test_a_budget_is_spent_exactly_by_twenty_calls_at_once(bench: Bench) -> None:
    charge = Charge("tenant:t", "calls", 0, 1, 7, None)

    async def one(number: int) -> Any:
        return await bench.t1(bench.row(args_digest=f"{number:064}"), bench.attempt(charges=(charge,)))

    found = await asyncio.gather(*(one(number) for number in range(20)))
    assert sum(isinstance(one, Dispatched) for one in found) == 7
    refused = [one for one in found if isinstance(one, OverBudget)]
    assert len(refused) == 13
    assert all(one.used == 7 for one in refused)


async def test_a_refused_call_takes_nothing_from_any_of_its_budgets(bench: Bench) -> None:
    wide, none = Charge("server", "calls", 0, 1, 5, None), Charge("tenant:t", "calls", 0, 1, 0, None)
    assert isinstance(await bench.t1(bench.row(), bench.attempt(charges=(wide, none))), OverBudget)
    five = [bench.row(args_digest=f"{number:064}") for number in range(5)]
    found = [await bench.t1(row, bench.attempt(charges=(wide,))) for row in five]
    assert all(isinstance(one, Dispatched) for one in found)


async def test_a_call_of_another_owner_is_not_sent(bench: Bench) -> None:
    other = await bench.another_owner()
    row, approval = await bench.approved()
    assert isinstance(await bench.again(row.call_id, bench.attempt(other), digest=approval.digest), Moved)
