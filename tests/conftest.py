"""What holds for every test: asyncio, reproducible properties in CI, and a limit on its time.

A test that hangs fails by itself with the stacks of all threads. The limit is a signal, so it also ends a wait in a
lock or an event loop; a hang in code that never returns to Python is ended by pytest's own faulthandler time-out.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from types import FrameType

LIMIT_S = 60.0
"""For each of a test's setup, body and teardown; `@pytest.mark.time_limit(seconds)` states a tighter one."""

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncio only: the ledger's readers do not run under trio."""
    return "asyncio"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "time_limit(seconds): this test's own limit, below the common one")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _limited(item, "setup"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _limited(item, "body"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with _limited(item, "teardown"):
        return (yield)


@contextmanager
def _limited(item: pytest.Item, phase: str) -> Generator[None]:
    if not hasattr(signal, "SIGALRM"):
        yield
        return
    mark = item.get_closest_marker("time_limit")
    limit_s = min(LIMIT_S, float(mark.args[0])) if mark else LIMIT_S

    def stop(_signal: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__ or 2)
        pytest.fail(f"the {phase} of {item.nodeid} took longer than {limit_s:g} s; the stacks are on stderr")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
