"""The tutorial can be followed: its commands run as they are printed, with a real client between them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from counterfoil.server.cli import main
from tests.kit.served import view_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
LIMIT_S = 30.0
LATEST = re.compile(r"\b(apr|call)_[0-9a-f]{32}\b")


def lines(section: int) -> list[str]:
    """The commands of one section, as a reader types them."""
    part = PAGE.partition(f"\n## {section}. ")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("counterfoil ")]


class Reader:
    """Somebody at a terminal who takes the newest id for `...`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.newest: dict[str, str] = {}

    def follow(self, section: int) -> list[str]:
        """Type each line of a section; what each printed."""
        return [self.type(line) for line in lines(section)]

    def type(self, line: str) -> str:
        """One line; an approval is confirmed at a terminal, with the digest that it shows."""
        typed = re.sub(r"\b(apr|call)_\.\.\.", lambda found: self.newest[found[1]], line)
        said = self._decide(typed) if " approve " in typed else self._run(typed)
        self.newest |= {found[1]: found[0] for found in LATEST.finditer(said)}
        return said

    def _run(self, line: str) -> str:
        """In this process, where Python is warm; its tool module is read anew, as a new process would."""
        sys.modules.pop("example_tools", None)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exit_code = main(shlex.split(line)[1:])
        assert exit_code in {0, 1, 3}, (line, said.getvalue())
        return said.getvalue()

    def _decide(self, line: str) -> str:
        shown = self._run(line.replace(" approve ", " show "))
        digest = re.search(r"^digest ([0-9a-f]{64})$", shown, re.MULTILINE)
        assert digest, shown
        keyboard, terminal = pty.openpty()
        try:
            os.write(keyboard, f"{digest[1][:6]}\n".encode())
            done = subprocess.run(
                [sys.executable, "-m", *shlex.split(line)],
                cwd=self.folder,
                env=self.environment,
                timeout=LIMIT_S,
                check=True,
                stdin=terminal,
                stdout=subprocess.PIPE,
            )
        finally:
            os.close(keyboard)
            os.close(terminal)
        return done.stdout.decode()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Reader(tmp_path)


def test_the_tutorial_ends_as_it_says(reader: Reader) -> None:
    explained = reader.follow(2)
    assert "Nothing found that stops work." in explained[2]
    assert "default:destructive" in explained[3]
    assert "no-large-refunds" in explained[4]
    asyncio.run(with_a_client(reader))
    lose_an_answer(reader)
    found = reader.follow(7)
    assert "settled" in found[0]
    assert '"refunded": 30.0' in found[1]
    assert "every link holds" in reader.follow(8)[0]


async def with_a_client(reader: Reader) -> None:
    """Sections 4 and 5: the model's part is played by a real client, whose server stays while a person decides."""
    arguments = ["-m", "counterfoil", "serve", "--config", str(reader.folder / "counterfoil.toml")]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=reader.environment)
    with (reader.folder / "server.log").open("w") as log:
        async with Client(stdio_client(server, errlog=log), read_timeout_seconds=LIMIT_S) as client:
            assert len((await client.list_tools()).tools) == 9
            searched = view_of(await client.call_tool("tool_search", {"query": "refund an order in the shop"}))
            refund = {"name": "shop_refund", "schema_digest": searched["matches"][0]["schema_digest"]}
            twenty = refund | {"arguments": {"order_id": "ord_1", "amount": 20}}
            waiting = view_of(await client.call_tool("tool_call", twenty))
            assert waiting["state"] == "awaiting_approval"
            await asyncio.to_thread(reader.follow, 4)
            reader.newest["call"] = waiting["call_id"]
            decided = asyncio.create_task(asyncio.to_thread(reader.follow, 5))
            settled = await until_settled(client, waiting["call_id"])
            assert settled["outcome"] == "success"
            assert '"refunded": 20.0' in (await decided)[-1]
            again = view_of(await client.call_tool("tool_call", twenty))
            assert (again["state"], again["call_id"] == waiting["call_id"]) == ("awaiting_approval", False)
            large = refund | {"arguments": {"order_id": "ord_1", "amount": 150}}
            assert view_of(await client.call_tool("tool_call", large))["error"]["code"] == "denied"


async def until_settled(client: Client, call_id: str) -> dict[str, object]:
    """`status` as a model asks it, until the end is there."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            view = view_of(await client.call_tool("status", {"call_id": call_id, "wait_s": 20}))
            if view["state"] == "settled":
                return view


def lose_an_answer(reader: Reader) -> None:
    """Section 6: the line is added as the page prints it, and the answer is lost after the effect."""
    module = reader.folder / "example_tools.py"
    lost = re.search(r"^    raise TimeoutError.*$", PAGE, re.MULTILINE)
    assert lost
    before = module.read_text()
    assert before.count("    return Refund(") == 1
    module.write_text(before.replace("    return Refund(", f"{lost[0]}\n    return Refund("))
    proposed, decide, send, again = lines(6)
    assert "awaiting_approval" in reader.type(proposed)
    reader.type(decide)
    assert "ambiguous" in reader.type(send)
    unresolved = reader.newest["call"]
    refused = reader.type(again)
    assert unresolved in refused
    reader.newest["call"] = unresolved
