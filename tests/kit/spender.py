"""Processes that spend: each opens an application, waits for the others, makes its calls, and says what came back.

Run as `python -m tests.kit.spender CONFIG PROCESSES TASKS CALLS TOOL`; the processes are forks of this one, which has
loaded the program once. What their tool really did stands in a file, one line for each effect, written before the tool
returns.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from counterfoil import Call, tool
from counterfoil.server.app import App, open_app

BOOK = "effects"
LIMIT_S = 60.0
CONFIG = """
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
[python]
modules = ["tests.kit.spender"]
path = ["{root}"]
[policy_defaults]
write = "allow"
destructive = "approve"
"""


def note_effect(ref: str) -> None:
    """One line, in one write, whoever else writes."""
    handle = os.open(os.environ[BOOK.upper()], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, f"{ref}\n".encode())
    finally:
        os.close(handle)


@tool(effect="write")
async def pay(ref: str, amount: float = 1.0) -> dict[str, str]:
    """Pay somebody."""
    note_effect(ref)
    await asyncio.sleep(0)
    return {"ref": ref}


@tool(effect="write")
async def vanish(ref: str, call: Call) -> dict[str, str]:
    """Pay somebody, and end with the whole process."""
    note_effect(ref)
    os._exit(9)


async def spend(app: App, name: str, calls: int, used_tool: str) -> list[dict[str, Any]]:
    """So many calls, one after the other; how each was answered."""
    answers: list[dict[str, Any]] = []
    for number in range(calls):
        view = (await app.call(used_tool, {"ref": f"{name}-{number}"})).wire()
        answers.append({part: view[part] for part in ("state", "outcome", "sent", "error")})
    return answers


async def main(config: Path, name: str, tasks: int, calls: int, used_tool: str, meet: Barrier) -> None:
    """Spend once all are ready, and say what came back as one line of JSON."""
    async with open_app(config, role="embedded") as app:
        await asyncio.to_thread(meet.wait, LIMIT_S)
        work = (spend(app, f"{name}-{task}", calls, used_tool) for task in range(tasks))
        answers = [answer for found in await asyncio.gather(*work) for answer in found]
    sys.stdout.write(json.dumps(answers) + "\n")


def start(config: Path, processes: int, tasks: int, calls: int, used_tool: str) -> None:
    """Fork them, and wait for their ends."""
    forks = get_context("fork")
    meet = forks.Barrier(processes)
    children = [
        forks.Process(target=_run, args=(config, f"p{number}", tasks, calls, used_tool, meet))
        for number in range(processes)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(LIMIT_S)


def _run(*given: Any) -> None:
    asyncio.run(main(*given))


if __name__ == "__main__":
    start(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
