"""LED-02: what cannot be recorded is not done; the server says so, stays up, and goes on once the fault is gone."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.kit.served import Served
from tests.kit.workshop import Workshop

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="another process's limits are set by prlimit"),
]


@contextmanager
def renamed_table(shop: Workshop, _: int) -> Generator[None]:
    shop.book.change("ALTER TABLE events RENAME TO mislaid")
    yield
    shop.book.change("ALTER TABLE mislaid RENAME TO events")


@contextmanager
def full_disk(_: Workshop, pid: int) -> Generator[None]:
    """No file of that process can grow any more."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def held_lock(shop: Workshop, _: int) -> Generator[None]:
    with shop.book.held():
        yield


Fault = Callable[[Workshop, int], AbstractContextManager[None]]


async def refused_while_it_lasts(served: Served, shop: Workshop) -> None:
    write, read = await asyncio.gather(
        served.call("kit_write", {"ref": "w"}), served.call("kit_echo", {"value": "seen"})
    )
    assert write["error"]["code"] == "cannot_record"
    assert write["error"]["retryable"]
    assert (write["state"], write["outcome"], write["sent"]) == ("refused", "retryable_failure", "no")
    assert "asked" not in shop.world.marks("w")

    assert read["error"]["code"] == "cannot_record"
    assert (read["sent"], read["output"]) == ("unknown", None)
    assert "seen" not in str(read)

    health = (await served.base("status"))["server"]
    assert (health["ledger"], health["reason"] is None) == ("degraded", False)


@pytest.mark.promise("LED-02")
@pytest.mark.parametrize("fault", [renamed_table, full_disk, held_lock])
async def test_while_the_ledger_cannot_record_nothing_is_sent_and_afterwards_it_goes_on_without_a_restart(
    shop: Workshop, fault: Fault
) -> None:
    async with shop.serve() as served:
        assert (await served.call("kit_write", {"ref": "before"}))["outcome"] == "success"
        assert (await served.call("kit_echo", {"value": 1}))["outcome"] == "success"
        before = len(shop.book.calls())
        with fault(shop, served.process.pid):
            await refused_while_it_lasts(served, shop)
        assert len(shop.book.calls()) == before
        assert shop.world.count("w") == 0

        assert (await served.call("kit_echo", {"value": 2}))["outcome"] == "success"
        assert (await served.call("kit_write", {"ref": "w"}))["outcome"] == "success"
        assert (await served.base("status"))["server"]["ledger"] == "ok"
        assert served.process.returncode is None
    assert shop.world.count("w") == 1
    for command in ("verify", "check"):
        said = await shop.command("ledger", command)
        assert said.code == 0, said.answer


@pytest.mark.promise("LED-02")
async def test_an_outcome_that_cannot_be_recorded_is_kept_and_not_told_until_it_is(shop: Workshop) -> None:
    shop.world.arm("w", hold="after")
    async with shop.serve() as served:
        early = await served.call("kit_write", {"ref": "w"}, wait_s=0.5)
        assert early["state"] == "dispatched"
        with renamed_table(shop, 0):
            shop.world.release("w")
            await shop.world.until(lambda: "cannot record the outcome" in shop.log.read_text(), "it was recorded")
            waiting = shop.book.call(early["call_id"])
            assert (waiting["state"], waiting["outcome"]) == ("dispatched", None)
        settled = await served.base("status", call_id=early["call_id"], wait_s=20)
    assert (settled["outcome"], settled["output"]) == ("success", {"ref": "w", "number": 1})
    assert shop.book.history(early["call_id"])[:2] == ["dispatched", "settled"]
    assert shop.world.count("w") == 1
