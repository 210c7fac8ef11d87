"""APR-01: whatever of an approved call is changed afterwards, by whoever can write the file, is not sent under it.

One ledger holds a call for each change; each is changed by itself, between the decision and the server that comes up.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil.ledger.approving import Decision, decide
from counterfoil.server.app import App
from tests.kit.bench import bench, furnish
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
AS_IT_WAS: Final = "nothing"
SWEEPS: Final = 2
"""How often the server looks around once nothing moves any more."""
BEATS: Final = "SELECT sum(beat) AS n FROM owners"
OTHER: Final = "other"
"""The call whose arguments another one is given; nobody approved it."""
CALL: Final = "UPDATE calls SET {} WHERE call_id = :call"
APPROVAL: Final = "UPDATE approvals SET {} WHERE approval_id = :approval"
PLACE: Final = "UPDATE places SET {} WHERE approval_id = :approval"
CHANGES: Final[dict[str, str]] = {
    AS_IT_WAS: "SELECT 1",
    # the call
    "tenant": CALL.format("tenant = 'another'"),
    "requester": CALL.format("subject = 'another'"),
    "client": CALL.format("client = 'another'"),
    "run": CALL.format("run_id = 'another'"),
    "step": CALL.format("step = 'another', item = -1"),
    "tool": CALL.format("tool = 'kit_purge'"),
    "tool of less effect": CALL.format("tool = 'kit_write'"),
    "version": CALL.format("version = '2'"),
    "schema digest": CALL.format("schema_digest = 'another'"),
    "arguments": CALL.format("args_payload = (SELECT args_payload FROM calls WHERE call_id = :other)"),
    "effect": CALL.format("effect = 'write'"),
    "if_version": CALL.format("if_version = 'another'"),
    "which approval": CALL.format("approval_id = (SELECT approval_id FROM calls WHERE call_id = :other)"),
    "no approval": CALL.format("approval_id = NULL"),
    # what a person was shown
    "shown tenant": APPROVAL.format("tenant = 'another'"),
    "shown requester": APPROVAL.format("requester = 'another'"),
    "shown client": APPROVAL.format("client = 'another'"),
    "shown run": APPROVAL.format("run_id = 'another'"),
    "shown step": APPROVAL.format("step = 'another'"),
    "shown tool": APPROVAL.format("tool = 'kit_read'"),
    "shown version": APPROVAL.format("version = '2'"),
    "shown schema digest": APPROVAL.format("schema_digest = 'another'"),
    "shown effect": APPROVAL.format("effect = 'read'"),
    "assurance": APPROVAL.format("assurance = 'client'"),
    "stronger assurance": APPROVAL.format("assurance = 'second_person'"),
    "rule": APPROVAL.format("rule_id = 'another'"),
    "expiry": APPROVAL.format("expires_at = expires_at + 1"),
    "window": APPROVAL.format("execute_until = decided_at - 1"),
    "no window": APPROVAL.format("execute_until = NULL"),
    "revoked": APPROVAL.format("state = 'revoked'"),
    "consumed": APPROVAL.format("state = 'consumed'"),
    # its place
    "place": PLACE.format("call_id = 'another'"),
    "digest": PLACE.format("digest = 'another'"),
    "taken place": PLACE.format("consumed_at = 1"),
}
ASKED_AGAIN: Final = ("awaiting_approval", None, "superseded")
"""Whatever no longer is what was decided is put to a person anew."""
ENDS: Final = dict.fromkeys(CHANGES, ASKED_AGAIN) | {
    AS_IT_WAS: ("settled", None, "consumed"),
    "tenant": ("refused", "authority_expired", "revoked"),  # of somebody whom no configuration knows
    "requester": ("refused", "authority_expired", "revoked"),
    "run": ("queued", None, "approved"),  # a chain without its run: it stands still, and `verify` names it
    "step": ("queued", None, "approved"),
    "version": ("queued", None, "approved"),  # nobody serves it; it is asked again once its window has passed
    "tool": ("refused", "invalid_arguments", "revoked"),  # the arguments are not that tool's
    "which approval": ("awaiting_approval", None, "approved"),  # the one that it had covers no call any more
    "no approval": ("awaiting_approval", None, "approved"),
    "revoked": ("awaiting_approval", None, "revoked"),
    "consumed": ("awaiting_approval", None, "consumed"),
    OTHER: ("awaiting_approval", None, "pending"),
}


async def approved(shop: Workshop) -> dict[str, dict[str, str]]:
    """A call for each change, which a person has approved while no server was up to carry it on."""
    made: dict[str, dict[str, str]] = {}
    async with bench(shop, approvals="automation = true\npending_max = 100") as at:
        app: App = at.app
        for what in (*CHANGES, OTHER):
            view = await at.seat.call("kit_delete", {"ref": what})
            made[what] = {"call": view["call_id"], "approval": view["approval"]["approval_id"]}
        app.runtime.begin_stop(0)  # nothing is taken up any more
        said = Decision(approve=True, by="os:carol", strength="same_user", via="cli", at=app.ledger.now())
        for what in CHANGES:
            await app.ledger.record(partial(decide, made[what]["approval"], said))
    return made


def change(ledger: Path, made: dict[str, dict[str, str]]) -> None:
    """Each by itself, in the file."""
    with closing(sqlite3.connect(ledger)) as hand:
        for what, statement in CHANGES.items():
            hand.execute(statement, made[what] | {"other": made[OTHER]["call"]})
        hand.commit()


def queued(shop: Workshop) -> list[dict[str, Any]]:
    """What waits to be sent, or is under way."""
    return shop.book.calls("state IN ('queued', 'dispatched')")


def end(shop: Workshop, ids: dict[str, str]) -> tuple[Any, ...]:
    """State and code of a call, and the state of the approval that it had."""
    row = shop.book.call(ids["call"])
    (approval,) = shop.book.rows("SELECT state FROM approvals WHERE approval_id = ?", ids["approval"])
    return row["state"], row["code"], approval["state"]


@pytest.mark.promise("APR-01")
async def test_changed_afterwards_it_is_not_sent_and_as_it_was_approved_it_is_sent_once(shop: Workshop) -> None:
    made = await approved(shop)
    change(shop.ledger, made)
    still = {made[what]["call"] for what, (state, *_) in ENDS.items() if state == "queued"}
    async with furnish(shop).open(role="serve"):
        await shop.world.until(lambda: {row["call_id"] for row in queued(shop)} <= still, "some are not taken up")
        beats = shop.book.rows(BEATS)[0]["n"]
        await shop.world.until(lambda: shop.book.rows(BEATS)[0]["n"] >= beats + SWEEPS, "nobody sweeps")
        assert {what: end(shop, ids) for what, ids in made.items()} == ENDS
    assert {what: shop.world.count(what) for what in made} == dict.fromkeys(made, 0) | {AS_IT_WAS: 1}
