"""OPS-02: a server never outlives its client, whatever ends first and whatever is under way."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.process import END_LIMIT_S
from tests.kit.served import Mode
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
BROKEN_START = (sys.executable, "-c", """\
import sys
from counterfoil.server import serve
def surface_of(app): raise OSError("after the ledger was opened")
serve.surface_of = surface_of
from counterfoil.server.cli import main
sys.exit(main())
""")  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop.new(tmp_path, head={"server": "grace_s = 0.5"})


async def opens_clean(shop: Workshop) -> None:
    """The ledger is sound, nothing is under way, and it serves."""
    async with shop.open() as app:
        assert shop.book.under_way() == []
        assert (await app.call("kit_echo", {"value": 1})).outcome == "success"
    for command in ("verify", "check"):
        assert (await shop.command("ledger", command)).code == 0


def done_or_unknown(shop: Workshop) -> None:
    (row,) = shop.book.calls("effect != 'read'")
    assert (row["state"], row["outcome"]) in {("settled", "success"), ("awaiting_reconciliation", "ambiguous")}
    assert shop.book.history(row["call_id"]).count("dispatched") == 1


@pytest.mark.promise("OPS-02")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_idle_server_ends_with_its_stdin(shop: Workshop, mode: Mode) -> None:
    async with shop.serve(mode=mode) as served:
        assert (await served.call("kit_echo", {"value": 1}))["outcome"] == "success"
        served.close_input()
        assert await served.ended(END_LIMIT_S) == 0
    await opens_clean(shop)


@pytest.mark.promise("OPS-02")
@pytest.mark.parametrize("tool", ["kit_write_on", "kit_block_write"])
async def test_a_server_with_a_call_in_flight_ends_with_its_stdin_even_if_a_tool_blocks_a_thread(
    shop: Workshop, tool: str
) -> None:
    shop.world.arm("r", hold="before")
    arguments = {"ref": "r"} | ({"seconds": 50} if tool == "kit_block_write" else {})
    async with shop.serve() as served:
        call = asyncio.create_task(served.call(tool, arguments))
        await shop.world.reached("r", "asked")
        served.close_input()
        assert await served.ended(END_LIMIT_S) == 0
        call.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await call
    await opens_clean(shop)
    done_or_unknown(shop)
    assert shop.world.count("r") == 0


@pytest.mark.promise("OPS-02")
async def test_a_server_whose_client_was_killed_ends_and_its_write_is_done_or_unknown(shop: Workshop) -> None:
    shop.world.arm("r", hold="after")
    program = (sys.executable, "-m", "tests.kit.parent")
    async with shop.started(str(shop.folder), "kit_write_on", "r", program=program) as parent:
        pid = int(await asyncio.wait_for(parent.stdout.readline(), 30))
        await shop.world.reached("r", "done")
        parent.signal(signal.SIGKILL)
        await parent.ended()
    await shop.world.until(lambda: gone(pid), f"the server {pid} outlives its client", END_LIMIT_S)
    await opens_clean(shop)
    done_or_unknown(shop)
    assert shop.world.count("r") == 1


@pytest.mark.promise("OPS-02")
async def test_a_start_that_fails_after_the_ledger_was_opened_ends_and_leaves_it_clean(shop: Workshop) -> None:
    said = await shop.run("serve", "--config", str(shop.config), program=BROKEN_START)
    assert said.code not in {0, None}
    assert said.stdout == b""
    assert "after the ledger was opened" in said.stderr
    assert shop.book.rows("SELECT * FROM owners WHERE ended_at IS NULL") == []
    await opens_clean(shop)


def gone(pid: int) -> bool:
    """There is no such process, or only what its parent has not collected yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"
