"""The runs of an open application, whose tools do what the stage has in store for them."""

from __future__ import annotations

import pytest

from counterfoil.server.app import App
from tests.runtime.chain.running import Runs


@pytest.fixture
def runs(app: App) -> Runs:
    return Runs(app)
