"""What is logged while everything is logged: no token, no argument, no output."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from counterfoil.server.quiet import TALKATIVE
from tests.kit.bench import furnish
from tests.kit.web import legacy, modern, open_session, web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
LOUD = "import logging\nlogging.getLogger().setLevel(logging.DEBUG)\nlogging.getLogger().debug('all is logged')\n"
CANARY = "canary-5ab1"


async def test_at_debug_no_log_has_a_token_or_an_argument(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    shop = furnish(
        Workshop.new(tmp_path), server='visibility = "all"',
        python='path = ["."]\nmodules = ["loud", "tests.kit.tools", "tests.kit.more_tools"]',
    )  # fmt: skip
    async with web(shop) as (_, there):
        async with there.http() as http:
            session = await open_session(http, there.url)
            call = {"name": "kit_echo", "arguments": {"value": CANARY}}
            for body, headers in (modern("tools/call", 2, **call), legacy("tools/call", 2, session, **call)):
                assert CANARY in (await http.post(there.url, content=body, headers=headers)).text
            for text in (f'{{"{CANARY}":', f'{{"jsonrpc":"2.0","id":1,"method":"{CANARY}","params":{{}}}}'):
                await http.post(f"{there.url}?token={there.token}", content=text.encode(), headers=headers)
        async with there.http("") as http:
            assert (await http.get(f"{there.url}?token={there.token}&access_token={there.token}")).status_code == 401
        said = (shop.folder / "http.log").read_text()
    assert "all is logged" in said
    assert there.token not in said.replace(str(shop.folder), "")
    assert CANARY not in said


async def test_the_libraries_that_log_content_are_kept_above_debug(tmp_path: Path) -> None:
    logging.getLogger("httpcore2").setLevel(logging.DEBUG)
    async with Workshop.new(tmp_path).open():
        assert not any(logging.getLogger(name).isEnabledFor(logging.INFO) for name in TALKATIVE)
        assert not logging.getLogger("httpcore2.http11").isEnabledFor(logging.DEBUG)
