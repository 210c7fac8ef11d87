"""What every test of the tools room shares: the asyncio backend, a principal and a call to hand to handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from counterfoil import Call
from counterfoil.registry.principal import Principal
from counterfoil.tools.http.outbound import Outbound
from tests.kit.http_far_side import FarSide
from tests.kit.http_hands import Hands, no_trust

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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarSide]:
    with FarSide(tmp_path_factory.mktemp("far") / "effects.db") as far:
        yield far


@pytest.fixture
def far(server: FarSide) -> FarSide:
    """A far side over HTTP that has seen nothing yet; scripts and effects are its module's."""
    server.seen.clear()
    return server


@pytest.fixture
async def hands(far: FarSide, make_call: Callable[..., Call]) -> AsyncIterator[Hands]:
    """HTTP tools that may reach that far side alone."""
    outbound = Outbound([far.host], body_bytes=100_000, trust=no_trust)
    yield Hands(far, outbound, make_call)
    await outbound.aclose()
