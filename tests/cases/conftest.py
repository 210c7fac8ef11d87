"""What the cases share: a workshop in the test's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.workshop import Workshop
from tests.kit.world import World


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A fresh configuration with the kit's tools, a ledger's place and W."""
    return Workshop.new(tmp_path)


@pytest.fixture
def world(shop: Workshop) -> World:
    """The workshop's outside world."""
    return shop.world
