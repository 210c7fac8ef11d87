"""DUR-07: one damaged event row takes down the call that it belongs to, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from counterfoil.server.app import App
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
DAMAGE = {
    "cut": "UPDATE events SET body = substr(body, 1, 40) WHERE run_id = ? AND seq = ?",
    "byte": 'UPDATE events SET body = replace(body, \'"tenant":"a"\', \'"tenant":"b"\') WHERE run_id = ? AND seq = ?',
}


@dataclass(frozen=True, slots=True)
class Filled:
    """What stands in the ledger: finished calls with their keys, and calls that wait for a decision."""

    done: list[str]
    waiting: list[tuple[str, str]]


async def filled(shop: Workshop) -> Filled:
    done: list[str] = []
    waiting: list[tuple[str, str]] = []
    async with shop.open() as app:
        for n in range(20):
            view = await app.call("kit_write_on", {"ref": f"r{n}"}, idempotency_key=f"k{n}")
            done.append(str(view.call_id))
        for n in range(3):
            view = await app.call("kit_delete", {"ref": f"d{n}"}, wait_s=0)
            assert view.approval is not None
            waiting.append((str(view.call_id), str(view.approval["approval_id"])))
    return Filled(done, waiting)


async def status(app: App, call_id: str) -> dict[str, Any]:
    return (await app.runtime.status(app.local, call_id=call_id)).wire()


def damaged(view: dict[str, Any], call_id: str, seq: int) -> bool:
    error = view.get("error")
    return error is not None and call_id in error["message"] and f"event {seq}" in error["message"]


async def verified(shop: Workshop) -> tuple[int, list[tuple[str, int]]]:
    said = await shop.command("ledger", "verify")
    return said.code, [(problem["run_id"], problem["seq"]) for problem in said.answer["problems"]]


@pytest.mark.promise("DUR-07")
@pytest.mark.parametrize("how", ["cut", "byte"])
async def test_a_damaged_row_of_a_finished_call_closes_that_calls_views_and_no_other(shop: Workshop, how: str) -> None:
    there = await filled(shop)
    bad = there.done[7]
    assert shop.book.change(DAMAGE[how], bad, 1) == 1
    rows = shop.book.rows("SELECT * FROM events ORDER BY id")

    async with shop.open() as app:
        assert damaged(await status(app, bad), bad, 1)
        replay = (await app.call("kit_write_on", {"ref": "r7"}, idempotency_key="k7")).wire()
        assert damaged(replay, bad, 1)
        assert replay["output"] is None
        for n, call_id in enumerate(there.done):
            if call_id == bad:
                continue
            assert (await status(app, call_id))["outcome"] == "success"
            again = await app.call("kit_write_on", {"ref": f"r{n}"}, idempotency_key=f"k{n}")
            assert (again.replayed, again.call_id) == (True, call_id)
        assert (await app.call("kit_write_on", {"ref": "new"})).outcome == "success"
        for _, approval_id in there.waiting:
            assert (await app.runtime.confirm(app.local, approval_id=approval_id)).wire()["state"] == "pending"

    assert await verified(shop) == (1, [(bad, 1)])
    export = await shop.command("ledger", "export")
    assert export.code == 0
    assert bad.encode() in export.stdout
    async with shop.serve() as served:
        assert (await served.base("status"))["server"]["ledger"] == "ok"
    assert shop.book.rows("SELECT * FROM events ORDER BY id")[: len(rows)] == rows
    assert [shop.world.count(f"r{n}") for n in range(20)] == [1] * 20


@pytest.mark.promise("DUR-07")
@pytest.mark.parametrize("how", ["cut", "byte"])
async def test_a_damaged_row_of_a_waiting_call_lets_nobody_decide_it_and_the_others_are_decided(
    shop: Workshop, how: str
) -> None:
    there = await filled(shop)
    (bad, bad_approval), *others = there.waiting
    assert shop.book.change(DAMAGE[how], bad, 1) == 1

    async with shop.open() as app:
        assert damaged(await status(app, bad), bad, 1)
        shown = (await app.runtime.confirm(app.local, approval_id=bad_approval)).wire()
        assert damaged(shown, bad, 1)
        assert "arguments" not in shown
        assert len((await shop.overview(app))["pending"]) >= 2
    refused = await shop.command("approvals", "approve", bad_approval, "--digest", approval(shop, bad_approval))
    assert refused.code == 1
    assert bad in refused.stderr + refused.stdout.decode()
    async with shop.open() as app:
        for call_id, approval_id in others:
            said = await shop.command("approvals", "approve", approval_id, "--digest", approval(shop, approval_id))
            assert said.code == 0, said.stderr
            assert (await app.runtime.status(app.local, call_id=call_id, wait_s=20)).wire()["outcome"] == "success"
    assert await verified(shop) == (1, [(bad, 1)])
    assert shop.book.call(bad)["state"] == "awaiting_approval"
    assert [shop.world.count(f"d{n}") for n in range(3)] == [0, 1, 1]


@pytest.mark.promise("DUR-07")
async def test_a_call_that_was_approved_before_its_row_was_damaged_is_not_sent(shop: Workshop) -> None:
    there = await filled(shop)
    bad, bad_approval = there.waiting[0]
    said = await shop.command("approvals", "approve", bad_approval, "--digest", approval(shop, bad_approval))
    assert said.code == 0, said.stderr
    assert shop.book.call(bad)["state"] == "queued"
    assert shop.book.change(DAMAGE["byte"], bad, 1) == 1
    async with shop.open() as app:
        assert damaged(await status(app, bad), bad, 1)
        assert (await app.call("kit_write_on", {"ref": "new"})).outcome == "success"
        beat = shop.book.rows("SELECT max(beat) AS beat FROM owners")[0]["beat"]
        while shop.book.rows("SELECT max(beat) AS beat FROM owners")[0]["beat"] < beat + 2:
            assert (await app.call("kit_echo", {"value": 1})).outcome == "success"
    assert shop.world.count("d0") == 0
    assert "dispatched" not in shop.book.history(bad)


def approval(shop: Workshop, approval_id: str) -> str:
    """The digest of a proposal."""
    (row,) = shop.book.rows("SELECT digest FROM approvals WHERE approval_id = ?", approval_id)
    return str(row["digest"])
