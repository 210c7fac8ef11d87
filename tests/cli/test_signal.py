"""`signal` at the command line: what waits for its far side is woken, and anything else is told apart from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
TOOLS = """
from counterfoil import Outcome, Probe, tool


@tool(effect="write")
async def ship(order: str) -> Outcome[None]:
    \"\"\"Have it shipped.\"\"\"
    return Outcome.accepted(external_reference="j7")


@ship.probe()
async def shipped(order: str) -> Probe:
    \"\"\"Whether it was.\"\"\"
    return Probe.pending()
"""
CONFIG = """
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
[policy_defaults]
write = "allow"
[python]
modules = ["signal_tools"]
path = ["."]
"""


@pytest.fixture
def accepted(folder: Path, command: Command) -> str:
    """A call that its far side has accepted."""
    (folder / "signal_tools.py").write_text(TOOLS)
    (folder / "counterfoil.toml").write_text(CONFIG)
    ran = command("call", "ship", '{"order": "17"}', "--json")
    assert (ran.exit_code, ran.answer["state"], ran.answer["outcome"]) == (3, "awaiting_external", None)
    return str(ran.answer["call_id"])


def test_a_call_that_waits_for_its_far_side_is_woken_and_not_settled(command: Command, accepted: str) -> None:
    ran = command("signal", accepted, "--json")
    assert ran.exit_code == 0
    assert ran.answer == {"signalled": [{"call_id": accepted, "step": None, "tool": "ship"}]}
    said = command("signal", accepted)
    assert (said.exit_code, accepted in said.out, "its answer decides" in said.out) == (0, True, True)
    assert command("status", accepted, "--json").answer["state"] == "awaiting_external"


@pytest.mark.parametrize(
    ("line", "code"), [(("call_nobody",), "not_found"), (("run_nobody", "ship"), "not_found")], ids=["call", "run"]
)
def test_what_is_not_there_is_an_error(command: Command, accepted: str, line: tuple[str, ...], code: str) -> None:
    assert accepted
    ran = command("signal", *line, "--json")
    assert (ran.exit_code, ran.answer["error"]["code"]) == (1, code)


def test_for_a_person_it_says_what_it_waits_for(command: Command, accepted: str) -> None:
    ran = command("status", accepted)
    assert ran.exit_code == 3
    assert "has accepted it and still works" in " ".join(ran.out.split())
