"""Real clients list and call tools: the SDK's in both eras, FastMCP's, and the inspector."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.clients.drivers import LIST, Driver, Target, by_fastmcp, by_inspector, by_legacy_sdk, by_sdk
from tests.kit.web import web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
EXACT = 725653563933458433


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    folder = tmp_path / "of" / "shop"  # the inspector looks for a package.json in the folder above
    folder.mkdir(parents=True)
    return Workshop.new(folder, head={"server": 'visibility = "deferred"'})


@pytest.fixture
def over_stdio(shop: Workshop) -> Target:
    return Target([sys.executable, "-m", "counterfoil", "serve"], shop.folder, shop.environment)


@pytest.mark.parametrize("driver", [by_sdk, by_legacy_sdk, by_fastmcp, by_inspector])
async def test_a_client_over_stdio_finds_reads_and_proposes(driver: Driver, over_stdio: Target, shop: Workshop) -> None:
    await finds_reads_and_proposes(driver, over_stdio, shop)


@pytest.mark.parametrize("driver", [by_sdk, by_legacy_sdk, by_fastmcp, by_inspector])
async def test_over_http_it_does_so_too(driver: Driver, shop: Workshop) -> None:
    async with web(shop) as (_, there):
        await finds_reads_and_proposes(driver, Target(folder=shop.folder, url=there.url, token=there.token), shop)


async def finds_reads_and_proposes(driver: Driver, target: Target, shop: Workshop) -> None:
    """One assistant's session: list, search, a read through the base tool and by name, and a destructive call."""
    listed, found, read, direct = await driver(target, [
        LIST,
        ("tool_search", {"query": "delete", "detail": "brief"}),
        ("tool_read", {"name": "kit_read", "arguments": {"ref": "r"}}),
        ("kit_read", {"ref": "r"}),
    ])  # fmt: skip
    assert {"tool_search", "tool_read", "tool_call", "status", "confirm", "reconcile", "cancel"} <= set(listed)
    assert "kit_delete" not in listed
    match = next(match for match in found["body"]["matches"] if match["name"] == "kit_delete")
    assert read["body"]["outcome"] == "success"
    assert not direct["error"]
    proposed, blind = await driver(target, [
        ("tool_call", {"name": "kit_delete", "arguments": {"ref": "r"}, "schema_digest": match["schema_digest"]}),
        ("tool_call", {"name": "kit_delete", "arguments": {"ref": "r"}}),
    ])  # fmt: skip
    assert proposed["body"]["state"] == "awaiting_approval"
    assert not proposed["error"]
    assert blind["body"]["error"]["code"] == "not_visible"
    assert blind["error"]
    assert shop.world.effects("r") == []
