"""What a person can do at the prompt of a decision beside answering it: leave, at once and with nothing decided."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
LIMIT_S = 30.0
REFUND = '{"order_id": "ord_1", "amount": 20}'


@pytest.fixture
def approval(shop: Path, command: Command) -> dict[str, Any]:
    """A proposal that waits."""
    assert shop.exists()
    waiting: dict[str, Any] = command("call", "shop_refund", REFUND, "--json").answer["approval"]
    return waiting


def end_input(person: int) -> None:
    os.write(person, b"\x04")


def left(folder: Path, approval_id: str, leave: Callable[[subprocess.Popen[bytes], int], None]) -> tuple[int, str]:
    """The exit code and stderr of a decision that is left once its prompt is there."""
    person, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "counterfoil", "approvals", "approve", approval_id],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            shown = b""
            while b"its digest: " not in b" ".join(shown.split()) + b" ":
                more = os.read(process.stdout.fileno(), 4096)
                assert more, process.stderr.read()
                shown += more
            leave(process, person)
            return process.wait(LIMIT_S), process.stderr.read().decode()
        finally:
            process.kill()
            os.close(person)
            os.close(terminal)


def test_one_ctrl_c_ends_the_prompt_and_decides_nothing(
    folder: Path, command: Command, approval: dict[str, Any]
) -> None:
    code, said = left(folder, approval["approval_id"], lambda process, _: process.send_signal(signal.SIGINT))
    assert (code, said) == (130, "counterfoil: nothing was decided\n")
    assert command("approvals", "show", approval["approval_id"], "--json").answer["state"] == "pending"


def test_the_end_of_the_input_decides_nothing(folder: Path, command: Command, approval: dict[str, Any]) -> None:
    code, said = left(folder, approval["approval_id"], lambda _, person: end_input(person))
    assert (code, said) == (1, "counterfoil: nothing was typed; nothing was decided\n")
    assert command("approvals", "show", approval["approval_id"], "--json").answer["state"] == "pending"


class Thinking(io.StringIO):
    """A terminal at which a person types the digest, and which notes what runs while they think."""

    def __init__(self, code: str) -> None:
        super().__init__(f"{code}\n")
        self.running: set[str] = set()

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]  # typeshed's IOBase gives bytes
        self.running = {thread.name for thread in threading.enumerate()}
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return super().readline(-1 if size is None else size)


def test_nothing_stands_still_while_a_person_thinks(
    command: Command, approval: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Thinking(approval["digest"][:6])
    monkeypatch.setattr(sys, "stdin", person)
    decided = command("approvals", "approve", approval["approval_id"])
    assert (decided.exit_code, decided.err) == (0, "")
    assert "counterfoil-watchdog" not in person.running
