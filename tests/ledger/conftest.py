"""What the ledger's tests share: the backend, a clock that only moves when told, and a ledger in a fresh folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counterfoil.ledger.store import Ledger, LedgerSettings


@dataclass
class Clock:
    """Microseconds since 1970, moved by hand."""

    now: int = 1_790_000_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> Clock:
    return Clock()


OpenLedger = Callable[..., Awaitable[Ledger]]


@pytest.fixture
async def open_ledger(tmp_path: Path, clock: Clock) -> AsyncIterator[OpenLedger]:
    """Open a ledger in this test's folder; every one is closed at the end."""
    opened: list[Ledger] = []

    async def open_one(**settings: Any) -> Ledger:
        chosen: dict[str, Any] = {"url": "sqlite+aiosqlite:///ledger.db", "base": tmp_path, "clock": clock}
        ledger = await Ledger.open(LedgerSettings(**{**chosen, **settings}))
        opened.append(ledger)
        return ledger

    yield open_one
    for ledger in opened:
        await ledger.close()


@pytest.fixture
async def ledger(open_ledger: OpenLedger) -> Ledger:
    return await open_ledger()
