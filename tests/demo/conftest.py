"""A running order service: the demo's other side, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from counterfoil.server.demo.order_store import OrderStore

LIMIT_S = 20.0
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Service:
    """Its process, its address and its own database."""

    process: subprocess.Popen[bytes]
    client: httpx2.Client
    store: OrderStore

    @property
    def url(self) -> str:
        """Where it listens."""
        return str(self.client.base_url)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """The service, until the end of the test."""
    database = tmp_path / "orders.db"
    with subprocess.Popen(
        [sys.executable, "-m", "counterfoil.server.demo.orders", str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=LIMIT_S) as client:
            yield Service(process, client, OrderStore(database))
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        process.wait(LIMIT_S)
