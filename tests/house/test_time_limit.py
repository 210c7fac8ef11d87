"""A test that hangs fails by itself, says where it hung, and costs the tests after it nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[1] / "conftest.py"

HANGING = """
import asyncio, threading
import pytest

limit = pytest.mark.time_limit(0.3)

@limit
def test_waits_for_a_lock():
    threading.Event().wait()

@limit
@pytest.mark.anyio
async def test_waits_in_the_event_loop():
    await asyncio.Event().wait()

@limit
def test_swallows_exceptions():
    while True:
        try:
            threading.Event().wait()
        except Exception:
            pass

@pytest.fixture
def stuck():
    yield
    threading.Event().wait()

@limit
def test_whose_teardown_waits(stuck):
    pass

@pytest.mark.anyio
async def test_after_them(anyio_backend_name):
    assert anyio_backend_name == "asyncio"
"""


def test_a_hanging_test_fails_with_a_stack_dump_and_the_next_one_runs(tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "test_hanging.py").write_text(HANGING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert run.returncode == 1, run.stdout + run.stderr
    assert "3 failed, 2 passed, 1 error" in run.stdout
    for name in ("waits_for_a_lock", "waits_in_the_event_loop", "swallows_exceptions"):
        assert f"the body of test_hanging.py::test_{name} took longer than 0.3 s" in run.stdout
    assert "the teardown of test_hanging.py::test_whose_teardown_waits took longer" in run.stdout
    assert "(most recent call first)" in run.stdout
