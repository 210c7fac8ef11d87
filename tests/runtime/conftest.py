"""What the runtime's tests share: a clock that the test owns, a bench of facts, and an open application."""

from __future__ import annotations

import importlib
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest

from counterfoil.ledger.store import Ledger, LedgerSettings
from counterfoil.server.app import App, open_app
from tests.runtime.bench import Bench, HandClock
from tests.runtime.hands import STAGE, Stage

CONFIG = """
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
{ledger}
[python]
modules = ["tests.runtime.hands"]
path = ["{root}"]
[policy_defaults]
write = "allow"
{more}
"""


class OpenApp(Protocol):
    async def __call__(self, *, role: str = ..., ledger: str = ..., more: str = ...) -> App: ...


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def bench(tmp_path: Path, clock: HandClock) -> AsyncIterator[Bench]:
    ledger = await Ledger.open(LedgerSettings(path=tmp_path / "ledger.db", clock=clock.now))
    yield Bench(ledger, clock)
    await ledger.close()


@pytest.fixture
def stage() -> Stage:
    """What the tools do and did; nothing scripted yet."""
    STAGE.reset()
    return STAGE


@pytest.fixture
async def open_(tmp_path: Path, clock: HandClock, stage: Stage) -> AsyncIterator[OpenApp]:
    """Open an application on this test's ledger; all are closed at the end."""
    assert stage.calls == []
    importlib.import_module("tests.runtime.hands")
    assert "tests.runtime.hands" in sys.modules
    async with AsyncExitStack() as stack:

        async def open_one(*, role: str = "embedded", ledger: str = "", more: str = "") -> App:
            file = tmp_path / "counterfoil.toml"
            file.write_text(CONFIG.format(ledger=ledger, root=Path(__file__).parents[2], more=more))
            return await stack.enter_async_context(open_app(file, role=role, clock=clock))

        yield open_one
        stage.let_go()


@pytest.fixture
async def app(open_: OpenApp) -> App:
    return await open_()
