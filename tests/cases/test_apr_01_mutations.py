"""APR-01: whatever of an approved call is changed afterwards, by whoever can write the file, is not sent under it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.ledger.approving import Decision, decide
from counterfoil.server.app import App
from tests.kit.bench import bench, furnish
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CHANGES = {
    "tenant": "UPDATE calls SET tenant = 'another'",
    "requester": "UPDATE calls SET subject = 'another'",
    "client": "UPDATE calls SET client = 'another'",
    "step": "UPDATE calls SET step = 'another', item = -1",
    "assurance": "UPDATE approvals SET assurance = 'client'",
    "arguments": (
        "UPDATE calls SET args_payload = (SELECT other.args_payload FROM calls AS other WHERE other.state != 'queued') "
        "WHERE state = 'queued'"
    ),
    "if_version": "UPDATE calls SET if_version = 'another'",
    "rule": "UPDATE approvals SET rule_id = 'another'",
    "expiry": "UPDATE approvals SET expires_at = expires_at + 1",
    "place": "UPDATE places SET call_id = 'another'",
    "digest": "UPDATE places SET digest = 'another'",
    "state": "UPDATE approvals SET state = 'revoked'",
}


async def approved(shop: Workshop) -> str:
    """A call that a person has approved while no server was up to carry it on."""
    async with bench(shop) as at:
        waiting = await at.seat.call("kit_delete", {"ref": "r"})
        await at.seat.call("kit_delete", {"ref": "other"})
        app: App = at.app
        said = Decision(approve=True, by="os:carol", strength="same_user", via="cli", at=app.ledger.now())
        named = waiting["approval"]["approval_id"]
        app.runtime.begin_stop(0)  # nothing is taken up any more
        await app.ledger.record(lambda: decide(named, said))
        return str(waiting["call_id"])


def change(ledger: Path, statement: str) -> None:
    with closing(sqlite3.connect(ledger)) as hand:
        hand.execute(statement)
        hand.commit()


async def restarted(shop: Workshop, call_id: str) -> None:
    async with furnish(shop).open(role="serve") as app:
        await app.runtime.status(app.local, call_id=call_id, wait_s=1.5)


@pytest.mark.promise("APR-01")
async def test_as_it_was_approved_it_is_sent_once(shop: Workshop) -> None:
    await restarted(shop, await approved(shop))
    assert shop.world.count("r") == 1


@pytest.mark.promise("APR-01")
@pytest.mark.parametrize("what", CHANGES)
async def test_changed_afterwards_it_is_not_sent(shop: Workshop, what: str) -> None:
    call_id = await approved(shop)
    change(shop.ledger, CHANGES[what])
    await restarted(shop, call_id)
    assert [shop.world.count(ref) for ref in ("r", "other")] == [0, 0]
