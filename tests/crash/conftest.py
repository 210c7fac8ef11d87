"""Stages and servers for the crash tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .kit import Forge, Stage, zygote

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]  # no fork, no SIGKILL, no SIGSTOP


@pytest.fixture(scope="session")
def _zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    with zygote(tmp_path_factory.mktemp("zygote") / "stage") as forge:
        yield forge


@pytest.fixture
def forge(_zygote: Forge) -> Iterator[Forge]:
    """Makes servers; what the test leaves running is ended."""
    yield _zygote
    _zygote.end_all()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stage without a ledger."""
    return Stage.make(tmp_path / "stage")
