"""The file under the ledger fails: in processes of their own, since limits and rights are a process's."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

_PRELUDE = """
import asyncio, json, os, sys, time
from functools import partial
from pathlib import Path
from counterfoil.ledger import chain
from counterfoil.ledger.errors import LedgerError
from counterfoil.ledger.events import EventType
from counterfoil.ledger.store import Ledger, LedgerSettings

path = Path(sys.argv[1])

def fact(name, size=10):
    return chain.append(chain.Head.new(name), tenant="t", call_id=name, type=EventType.QUEUED, at=1,
        data={"x": "x" * size})

def settings(**more):
    return LedgerSettings(path=path, clock=lambda: time.time_ns() // 1000, **more)

async def attempt(ledger, name, size=10):
    try:
        await ledger.record(lambda: fact(name, size))
        return "stored"
    except LedgerError as error:
        return error.reason
"""


def run(path: Path, code: str, *, warnings: str = "error") -> Any:
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", _PRELUDE + code, str(path)],
        capture_output=True, check=False, timeout=60, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on a file's size")
def test_a_full_disk_refuses_facts_and_the_writer_goes_on_once_there_is_room(tmp_path: Path) -> None:
    said = run(
        tmp_path / "ledger.db",
        """
import resource

async def main():
    ledger = await Ledger.open(settings())
    said = [await attempt(ledger, "a")]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    said += await asyncio.gather(attempt(ledger, "b", 300_000), attempt(ledger, "c", 300_000))
    said.append(ledger.health().state)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    said += [await attempt(ledger, "d"), ledger.health().state]
    runs = [row.run_id for row in await ledger.reads.fetch(EVENTS)]
    await ledger.close()
    print(json.dumps([said, runs]))

from counterfoil.ledger.sql import Sql
from counterfoil.ledger.tables import events
from sqlalchemy import select
from typing import NamedTuple
class Row(NamedTuple):
    run_id: str
EVENTS = Sql(select(events.c.run_id).order_by(events.c.run_id), Row)
asyncio.run(main())
""",
    )
    assert said == [["stored", "io", "io", "degraded", "stored", "ok"], ["a", "d"]]


@pytest.mark.skipif(sys.platform == "win32", reason="rights are POSIX's")
def test_a_file_that_may_not_be_written_is_refused_at_open() -> None:
    with tempfile.TemporaryDirectory() as folder:  # not pytest's: only its owner may pass through that
        said = run(
            Path(folder) / "ledger.db",
            """
async def main():
    await (await Ledger.open(settings())).close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        await Ledger.open(settings())
    except LedgerError as error:
        print(json.dumps([type(error).__name__, error.reason]))
asyncio.run(main())
""",
        )
    assert said[0] == "CannotRecordError"
    assert said[1] in ("read_only", "io")


def test_a_process_that_exits_in_the_middle_of_its_facts_does_not_hang(tmp_path: Path) -> None:
    said = run(
        tmp_path / "ledger.db",
        """
async def main():
    ledger = await Ledger.open(settings())
    await ledger.reads.data_version()
    for n in range(3000):
        ledger.record_nowait(partial(fact, f"run-{n}"))
    print(json.dumps("left"), flush=True)
asyncio.run(main())
""",
        warnings="ignore",  # it leaves without closing anything: that is the test
    )
    assert said == "left"
