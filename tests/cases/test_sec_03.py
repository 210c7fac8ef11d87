"""SEC-03: no marked or secret-named argument stands in clear in the ledger's files, its events or an export."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from tests.kit.bench import Bench, bench
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
TOOLS: Final = 'modules = ["tests.kit.secret_tools"]'
CANARY: Final = re.compile(rb"CANARY[a-z]*|4711471[0-9]")


async def leaks(shop: Workshop, at: Bench) -> set[bytes]:
    """Every canary in the bytes of the database, of its log, and of an export made beside the open server."""
    await at.refusals()
    exported = await shop.run("ledger", "export", "--config", str(shop.config))
    assert exported.code == 0, exported.stderr
    files = [file.read_bytes() for file in shop.ledger.parent.iterdir() if file.is_file()]
    assert any(b"secret_" in file for file in files), "the right files"
    assert b"secret_" in exported.stdout
    return {found for data in [*files, exported.stdout] for found in CANARY.findall(data)}


@pytest.mark.promise("SEC-03")
@pytest.mark.parametrize(
    "arguments",
    [
        {"pin": "CANARYpin"},
        {"pin": ["CANARYlist"]},
        {"logins": [{"user": "u", "pin": "CANARYdeep"}]},
        {"logins": ['{"user": "u", "pin": "CANARYtext"}']},
        {"credentials": {"bank": "CANARYbelow"}},
        '{"pin": "CANARYwhole"}',
    ],
)
async def test_a_refusal_of_arguments_does_not_quote_a_secret(shop: Workshop, arguments: Any) -> None:
    async with bench(shop, python=TOOLS) as at:
        view = await at.seat.ask("tool_read", name="secret_typed", arguments=arguments)
        assert view["error"]["code"] == "invalid_arguments"
        assert "CANARY" not in json.dumps(view)
        plain = await at.seat.read("secret_typed", {"note": "plainly wrong"})
        assert "plainly wrong" in plain["error"]["message"]
        assert await leaks(shop, at) == set()
