"""DUP-01: the far side goes away in the middle of a call; it is never sent again on a guess."""

from __future__ import annotations

import pytest

from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


@pytest.mark.promise("DUP-01")
@pytest.mark.parametrize(("dies", "effects"), [("after", 1), ("before", 0)])
async def test_a_write_whose_far_side_dies_unanswered_is_unknown_and_is_not_sent_again(
    shop: Workshop, dies: str, effects: int
) -> None:
    shop.world.arm("r", dies=dies)
    async with shop.open() as app:
        view = await app.call("kit_far_write", {"ref": "r"}, wait_s=5)
        again = await app.call("kit_far_write", {"ref": "r"}, wait_s=5)
    assert view.call_id is not None
    assert (view.state, view.outcome, view.sent) == ("awaiting_reconciliation", "ambiguous", "unknown")
    assert view.error is not None
    assert view.error.code == "ambiguous"
    assert again.replayed or (again.error is not None and again.error.details["call_id"] == view.call_id)
    assert shop.book.history(view.call_id) == ["dispatched", "lost"]
    assert shop.world.marks("r") == ["asked"]
    assert shop.world.count("r") == effects
    async with shop.open() as app:
        (unresolved,) = (await shop.overview(app))["unresolved"]
        assert unresolved["call_id"] == view.call_id
    assert shop.book.history(view.call_id) == ["dispatched", "lost"]
    assert shop.world.marks("r") == ["asked"]


@pytest.mark.promise("DUP-01")
async def test_a_person_settles_a_write_whose_far_side_died_and_only_then_is_the_way_free(shop: Workshop) -> None:
    shop.world.arm("r", dies="after")
    async with shop.open() as app:
        lost = await app.call("kit_far_write", {"ref": "r"})
    said = await shop.command("reconcile", str(lost.call_id), "--resolution", "happened", "--evidence", "W has it")
    assert (said.code, said.answer["outcome"]) == (0, "success"), said.stderr
    assert shop.world.count("r") == 1
    async with shop.open() as app:
        new = await app.call("kit_far_write", {"ref": "r"})
        assert (new.outcome, new.replayed) == ("success", False)
    assert shop.world.count("r") == 2


@pytest.mark.promise("DUP-01")
async def test_a_read_whose_far_side_dies_is_sent_once_more_and_succeeds(shop: Workshop) -> None:
    shop.world.arm("r", dies="before")
    async with shop.open() as app:
        view = await app.call("kit_far_read", {"ref": "r"})
    assert (view.outcome, view.output, view.attempts) == ("success", {"ref": "r", "number": 0}, 2)
    assert shop.world.marks("r") == ["asked", "asked"]


@pytest.mark.promise("DUP-01")
async def test_a_far_sides_own_error_reaches_the_caller_and_nothing_is_sent_twice(shop: Workshop) -> None:
    shop.world.arm("r", refuse="amount must be positive")
    async with shop.serve() as served:
        view = await served.call("kit_far_write", {"ref": "r"})
    assert (view["state"], view["outcome"], view["sent"]) == ("settled", "permanent_failure", "yes")
    assert view["error"]["code"] == "tool_failed"
    assert "amount must be positive" in view["error"]["message"]
    assert view["error"]["details"]["effect"] == "none"
    assert shop.world.marks("r") == ["asked"]
    assert shop.world.count("r") == 0
