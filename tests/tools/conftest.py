"""What every test of the tools room shares: the asyncio backend, a principal and a call to hand to handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from counterfoil import Call
from counterfoil.registry.principal import Principal

ME = Principal("local", "me", scopes=frozenset({"*"}))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def principal() -> Principal:
    return ME


@pytest.fixture
def progress() -> list[tuple[float, float | None, str | None]]:
    """What handlers reported through `Call.progress`."""
    return []


@pytest.fixture
def make_call(progress: list[tuple[float, float | None, str | None]]) -> Callable[..., Call]:
    """Makes a `Call` of the running loop; a `guard` may be given."""

    async def pass_on() -> None:
        return

    async def sink(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    def make(guard: Any = pass_on) -> Call:
        return Call(
            id="call_1",
            action_id="act_1",
            attempt=1,
            principal=ME,
            deadline=datetime(2030, 1, 1, tzinfo=UTC),
            if_version=None,
            progress_sink=sink,
            guard_check=guard,
            loop=asyncio.get_running_loop(),
        )

    return make
