"""DAG-04: steps that touch one resource never overlap, whatever it is called, and those of different ones do."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.chains import (
    LIMIT_S,
    MODULES,
    Ask,
    View,
    apart,
    becomes,
    calls_of,
    chained,
    intervals,
    of,
    plan,
    ran,
    settle,
    started,
    states,
    step,
    until,
)
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
REPEATS = 20


def edits(letters: str, *paths: str) -> View:
    """Independent steps, each of which appends one letter."""
    return plan(
        *(
            step(letter, "chain_edit", {"path": path, "letter": letter})
            for letter, path in zip(letters, paths, strict=True)
        ),
        max_parallel=8,
    )


def written(shop: Workshop, path: str) -> str:
    return (shop.folder / "files" / path).read_text()


def link(shop: Workshop, name: str, target: str) -> None:
    folder = shop.folder / "files"
    folder.mkdir(exist_ok=True)
    (folder / name).symlink_to(target)


@pytest.mark.promise("DAG-04")
@pytest.mark.parametrize("aliases", [("f", "f", "f"), ("f", "./f", "link-")], ids=["one name", "three names"])
async def test_three_edits_of_one_file_all_last_and_go_in_declared_order(
    shop: Workshop, aliases: tuple[str, str, str]
) -> None:
    async with chained(shop) as (_, ask):

        async def once(number: int) -> None:
            link(shop, f"link-{number}", f"f{number}")
            view = await ask("run", plan=edits("xyz", *(f"{name}{number}" for name in aliases)), wait_s=LIMIT_S)
            assert view["status"] == "succeeded", view
            assert written(shop, f"f{number}") == "xyz"
            assert apart(intervals(shop.book, *calls_of(view)))

        await asyncio.gather(*(once(number) for number in range(REPEATS)))


@pytest.mark.promise("DAG-04")
async def test_two_runs_at_once_on_one_file_lose_no_letter(shop: Workshop) -> None:
    async with chained(shop) as (_, ask):

        async def once(name: str) -> None:
            plans = (edits(letters, name, name, name) for letters in ("abc", "xyz"))
            views = await asyncio.gather(*(ask("run", plan=one, wait_s=LIMIT_S) for one in plans))
            assert [view["status"] for view in views] == ["succeeded"] * 2
            text = written(shop, name)
            assert sorted(text) == sorted("abcxyz"), text
            assert ["".join(letter for letter in text if letter in own) for own in ("abc", "xyz")] == ["abc", "xyz"]
            assert apart(intervals(shop.book, *(call for view in views for call in calls_of(view))))

        await asyncio.gather(*(once(f"f{number}") for number in range(REPEATS)))


@pytest.mark.promise("DAG-04")
async def test_runs_of_two_servers_on_one_file_lose_no_letter(shop: Workshop) -> None:
    shop.configure(head={"python": MODULES})
    async with shop.serve() as one, shop.serve() as other:
        views = await asyncio.gather(
            ran(one.base, edits("abcde", *["f"] * 5)), ran(other.base, edits("vwxyz", *["f"] * 5))
        )
    text = written(shop, "f")
    assert sorted(text) == sorted("abcdevwxyz"), text
    assert ["".join(letter for letter in text if letter in own) for own in ("abcde", "vwxyz")] == ["abcde", "vwxyz"]
    assert apart(intervals(shop.book, *(call for view in views for call in calls_of(view))))
    assert len({row["owner_id"] for row in shop.book.rows("SELECT DISTINCT owner_id FROM attempts")}) == 2


@pytest.mark.promise("DAG-04")
async def test_steps_on_different_resources_are_under_way_at_once(shop: Workshop) -> None:
    names = ("a", "b", "c")
    for name in names:
        shop.world.arm(name, hold="before")
    async with chained(shop) as (at, ask):
        run = await started(ask, plan(*(step(name, "kit_rmw", {"ref": name}) for name in names)))
        for name in names:
            await at.world.reached(name, "asked")
        for name in names:
            at.world.release(name)
        view = await becomes(ask, run["run_id"])
        assert view["status"] == "succeeded"
        found = intervals(shop.book, *calls_of(view))
        assert max(one.start for one in found) < min(one.end for one in found)


@pytest.mark.promise("DAG-04")
async def test_no_more_steps_than_the_plan_says_are_under_way_at_once(shop: Workshop) -> None:
    names = ("a", "b", "c")
    for name in names:
        shop.world.arm(name, hold="before")
    async with chained(shop) as (at, ask):
        document = plan(*(step(name, "kit_rmw", {"ref": name}) for name in names), max_parallel=1)
        run = await started(ask, document)
        for name, later in zip(names, ("bc", "c", ""), strict=True):
            await at.world.reached(name, "asked")
            assert [at.world.marks(other) for other in later] == [[]] * len(later)
            at.world.release(name)
        assert (await becomes(ask, run["run_id"]))["status"] == "succeeded"


@pytest.mark.promise("DAG-04")
async def test_dependencies_that_cross_the_order_of_resources_do_not_lock(shop: Workshop) -> None:
    document = plan(
        step("a", "chain_edit", {"path": "x", "letter": "a"}),
        step("c", "chain_edit", {"path": "y", "letter": "c"}),
        step("b", "chain_edit", {"path": "y", "letter": "b"}, after=["a"]),
        step("d", "chain_edit", {"path": "x", "letter": "d"}, after=["c"]),
    )
    async with chained(shop) as (_, ask):
        for number in range(5):
            assert (await ran(ask, document, request_key=str(number)))["status"] == "succeeded"
    assert (len(written(shop, "x")), len(written(shop, "y"))) == (10, 10)


async def one_lost(ask: Ask) -> View:
    """A run of two edits of one file, of which the first does not know what it did, and of one of another file."""
    document = plan(
        step("lost", "chain_edit", {"path": "f", "letter": "l", "fails": True}),
        step("same", "chain_edit", {"path": "./f", "letter": "s"}),
        step("other", "chain_edit", {"path": "g", "letter": "o"}),
        step("behind", "chain_edit", {"path": "g", "letter": "b"}, after=["other"]),
    )
    return await ran(ask, document, "awaiting_reconciliation")


@pytest.mark.promise("DAG-04")
async def test_behind_an_unresolved_edit_only_edits_of_that_file_wait_and_they_go_on_once_it_is_settled(
    shop: Workshop,
) -> None:
    async with chained(shop) as (at, ask):
        view = await one_lost(ask)
        assert states(view) | {"same": ""} == {
            "lost": "awaiting_reconciliation", "same": "", "other": "succeeded", "behind": "succeeded",
        }  # fmt: skip
        assert states(view)["same"] in {"waiting", "ready"}
        assert (written(shop, "f"), written(shop, "g")) == ("l", "ob")
        assert (await settle(at.app, of(view, "lost")["call_id"], "happened"))["outcome"] == "success"
        done = await becomes(ask, view["run_id"])
        assert (done["status"], written(shop, "f")) == ("succeeded", "ls")


@pytest.mark.promise("DAG-04")
async def test_a_step_that_waits_for_a_person_holds_up_no_other_on_its_resource(shop: Workshop) -> None:
    document = plan(
        step("asks", "kit_delete", {"ref": "r"}),
        step("goes", "kit_write_idem", {"ref": "r"}),
    )
    async with chained(shop) as (_, ask):
        run = await started(ask, document)
        view = await until(ask, run["run_id"], lambda one: states(one)["goes"] == "succeeded")
        assert states(view)["asks"] == "awaiting_approval"
