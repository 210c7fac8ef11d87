"""Runs parked for an unresolved call elsewhere are woken by every way in which that call can end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counterfoil.ledger.approving import refuse_waiting, withdraw
from counterfoil.ledger.dispatching import Dispatched
from counterfoil.ledger.recovering import abandon, resend, rule_out
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.run_finding import list_wakes
from counterfoil.ledger.run_rows import PlanRow, RunRow
from counterfoil.ledger.runs import Parked, create_run, park
from counterfoil.ledger.settling import Settled
from counterfoil.ledger.sql import Fact
from tests.runtime.bench import HOUR, LOST, UNSENT, Bench

pytestmark = pytest.mark.anyio
End = Callable[[str, str, int], Fact[CallRow | None]]


def withdrawn(call_id: str, _: str, at: int) -> Fact[CallRow | None]:
    return withdraw(call_id, "me", "no more", at)


def refused(call_id: str, _: str, at: int) -> Fact[CallRow | None]:
    return refuse_waiting(call_id, "denied", "denied", "not any more", {}, at)


async def parked_for(bench: Bench, call_id: str) -> None:
    at, me = bench.clock.now(), bench.me
    run = RunRow("run_1", "plan_1", "t", "me", "c", "[]", "{}", "goal", "p" * 64, "i" * 64, "", "k", at + HOUR, at, at)
    plan = PlanRow("plan_1", "t", "me", "c", "goal", "p" * 64, "", 1, at)
    why = Parked("awaiting_reconciliation", waits_for=call_id)
    await bench.record(lambda: create_run(run, plan, (), owner_id=me))
    assert isinstance(await bench.record(lambda: park("run_1", me, why, at)), RunRow)


async def tried_again(bench: Bench, row: CallRow, lost: CallRow) -> None:
    """A call of which nobody knew, of which it is known by now that nothing has left, between two attempts."""
    me, at, call_id = bench.me, bench.clock.now(), row.call_id
    known = await bench.record(lambda: rule_out(call_id, lost.revision, at))
    assert known is not None
    assert await bench.record(lambda: resend(call_id, known.revision, me, at, {"why": "absent"})) is not None
    sent = await bench.again(call_id)
    assert isinstance(sent, Dispatched)
    waits = await bench.settled(sent.row, UNSENT, retry_at=at, known=None)
    assert isinstance(waits, Settled)
    assert (waits.row.state, waits.row.sent) == ("queued", "no")


@pytest.mark.parametrize("end", [withdrawn, refused, abandon], ids=["withdrawn", "refused", "abandoned"])
async def test_a_call_that_was_unresolved_and_ends_unsent_wakes_who_waits_for_it(bench: Bench, end: End) -> None:
    row = await bench.dispatched(resources=["order:1"])
    lost = (await bench.settled(row, LOST)).row
    await parked_for(bench, row.call_id)
    await tried_again(bench, row, lost)
    if end is abandon:  # of what is queued by decision another server takes care
        assert isinstance(await bench.again(row.call_id), Dispatched)
    me, at = bench.me, bench.clock.now()
    await bench.record(lambda: end(row.call_id, me, at))
    assert (await bench.row_of(row.call_id)).state in {"settled", "refused"}
    assert [wake.run_id for wake in await bench.record(lambda: list_wakes(me))] == ["run_1"]
