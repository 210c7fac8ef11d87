"""OPS-01: nothing but the protocol goes to stdout, whatever tools do there; a start that fails leaves it empty."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.kit import noisy
from tests.kit.workshop import Commanded, Workshop

pytestmark = pytest.mark.anyio
PROGRAM = (sys.executable, "-m", "counterfoil")
IMPATIENT = (sys.executable, "-c", """\
import sys
from counterfoil.server import app
app.OPEN_WAIT_S = 0
from counterfoil.server.cli import main
sys.exit(main())
""")  # fmt: skip
"""The program, but a start that is kept out of the ledger gives up after the first try."""


@pytest.mark.promise("OPS-01")
async def test_what_tools_and_their_children_print_goes_to_stderr_and_stdout_has_only_messages(tmp_path: Path) -> None:
    shop = Workshop.new(tmp_path, head={"python": 'modules = ["tests.kit.tools", "tests.kit.noisy"]'})
    async with shop.serve(program=PROGRAM) as served:
        for tool in ("noisy_print", "noisy_descriptor", "noisy_child", "noisy_log"):
            assert (await served.call(tool))["outcome"] == "success"
        assert (await served.call("kit_echo", {"value": 1}))["output"] == 1
    assert await served.ended() == 0
    for line in served.lines:
        assert json.loads(line)["jsonrpc"] == "2.0"
    written = b"".join(served.lines)
    for word in noisy.WORDS:
        assert word.encode() not in written
        assert word in served.stderr, word


async def failing_start(shop: Workshop, program: tuple[str, ...] = ()) -> Commanded:
    return await shop.run("serve", "--config", str(shop.config), program=program)


def failed(said: Commanded, code: int, *words: str) -> None:
    assert (said.code, said.stdout) == (code, b""), said
    message = said.stderr.strip()
    assert message.startswith("counterfoil: ")
    assert message.count("counterfoil: ") == 1
    assert "Traceback" not in message
    for word in words:
        assert word in message


@pytest.mark.promise("OPS-01")
async def test_a_start_with_a_bad_configuration_says_so_once_on_stderr_and_ends_with_2(shop: Workshop) -> None:
    shop.configure("\n[sever]\n")
    failed(await failing_start(shop), 2, str(shop.config), "sever", "server")
    shop.config.write_text("[server\n")
    failed(await failing_start(shop), 2, str(shop.config), "line 1")


@pytest.mark.promise("OPS-01")
async def test_a_start_with_a_module_that_cannot_be_imported_says_so_once_on_stderr_and_ends_with_2(
    tmp_path: Path,
) -> None:
    (tmp_path / "broken_tools.py").write_text("print('hello')\nraise RuntimeError('no such thing')\n")
    shop = Workshop.new(tmp_path, head={"python": 'modules = ["broken_tools"]\npath = ["."]'})
    said = await failing_start(shop)
    assert (said.code, said.stdout) == (2, b"")
    assert "broken_tools" in said.stderr
    assert "no such thing" in said.stderr
    assert "Traceback" not in said.stderr
    assert said.stderr.count("counterfoil: ") == 1


@pytest.mark.promise("OPS-01")
async def test_a_start_on_a_newer_ledger_says_so_once_on_stderr_and_ends_with_4(shop: Workshop) -> None:
    async with shop.open():
        pass
    (row,) = shop.book.rows("PRAGMA user_version")
    shop.book.change(f"PRAGMA user_version = {row['user_version'] + 1}")
    failed(await failing_start(shop), 4, str(shop.ledger))


@pytest.mark.promise("OPS-01")
async def test_a_start_on_a_locked_ledger_says_so_once_on_stderr_and_ends_with_4(shop: Workshop) -> None:
    async with shop.open():
        pass
    with shop.book.held("BEGIN EXCLUSIVE"):
        failed(await asyncio.wait_for(failing_start(shop, IMPATIENT), 30), 4, str(shop.ledger), "locked")
