"""APR-05: two decisions at the same instant are one, and whoever lost is told; what is finished stays as it is."""

from __future__ import annotations

import asyncio

import pytest

from counterfoil.runtime.deciding import Decider
from tests.kit.bench import OPERATOR, Bench, bench
from tests.kit.seat import View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
ANOTHER = Decider("os:dan", "same_user", "cli")
TIMES = 20


async def both(at: Bench, ref: str, *words: str) -> tuple[View, list[View]]:
    """A fresh proposal and what each of two deciders is told who speak at once."""
    waiting = await at.seat.call("kit_delete", {"ref": ref})
    named = waiting["approval"]["approval_id"]
    deciders = zip(words, (OPERATOR, ANOTHER), strict=True)
    told = await asyncio.gather(*(at.app.runtime.decide(named, word, decider=who) for word, who in deciders))
    return waiting, [view.wire() for view in told]


async def require_record(at: Bench, waiting: View, told: list[View]) -> None:
    """Both are in the ledger: the decision in the call's chain, and the attempt of whoever lost among the refusals."""
    (lost,) = [by.by for view, by in zip(told, (OPERATOR, ANOTHER), strict=True) if view.get("error")]
    (won,) = [event["by"] for event in await at.events(waiting["call_id"]) if event["type"] == "decided"]
    assert {won, lost} == {OPERATOR.by, ANOTHER.by}
    digest = waiting["approval"]["digest"]
    kept = [(one["subject"], one["code"]) for one in await at.refusals() if one["args_digest"] == digest]
    assert kept == [(lost, "approval_invalid")]


@pytest.mark.promise("APR-05")
async def test_approved_twice_at_once_it_is_sent_once_and_the_second_is_told(shop: Workshop) -> None:
    async with bench(shop) as at:
        for number in range(TIMES):
            waiting, told = await both(at, f"r{number}", "approve", "approve")
            (lost,) = [view for view in told if view.get("error")]
            assert (lost["error"]["code"], lost["call_id"]) == ("approval_invalid", waiting["call_id"])
            done = await at.seat.ask("status", call_id=waiting["call_id"], wait_s=20)
            assert (done["state"], at.world.count(f"r{number}")) == ("settled", 1)
            types = [event["type"] for event in await at.events(waiting["call_id"])]
            assert (types.count("decided"), types.count("dispatched")) == (1, 1)
            await require_record(at, waiting, told)


@pytest.mark.promise("APR-05")
async def test_of_a_yes_and_a_no_at_once_one_wins_and_nothing_else_happens(shop: Workshop) -> None:
    async with bench(shop) as at:
        for number in range(TIMES):
            ref = f"r{number}"
            words = ("approve", "reject") if number % 2 else ("reject", "approve")
            waiting, told = await both(at, ref, *words)
            (won,) = [view for view in told if not view.get("error")]
            done = await at.seat.ask("status", call_id=waiting["call_id"], wait_s=20)
            agreed = won["state"] in {"approved", "consumed"}
            assert (done["state"], at.world.count(ref)) == (("settled", 1) if agreed else ("refused", 0))
            await require_record(at, waiting, told)


@pytest.mark.promise("APR-05")
async def test_a_late_word_about_a_finished_proposal_changes_nothing(shop: Workshop) -> None:
    async with bench(shop) as at:
        waiting = await at.seat.call("kit_delete", {"ref": "r"})
        await at.approve(waiting)
        for word in ("approve", "reject"):
            late = (await at.app.runtime.decide(waiting["approval"]["approval_id"], word, decider=ANOTHER)).wire()
            assert isinstance(late["error"], dict)
            assert (late["error"]["code"], late["call_id"]) == ("approval_invalid", waiting["call_id"])
        assert at.world.count("r") == 1
