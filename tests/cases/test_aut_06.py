"""AUT-06: no web page drives a local server, and the names that are configured work."""

from __future__ import annotations

import pytest

from tests.kit.bench import furnish
from tests.kit.web import modern, web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


@pytest.mark.promise("AUT-06")
async def test_foreign_names_and_pages_are_refused_and_configured_ones_work(shop: Workshop) -> None:
    shop = furnish(shop, server='allowed_hosts = ["tools.example"]')
    body, headers = modern("tools/list")
    async with web(shop) as (_, there), there.http() as http:
        port = there.url.rsplit(":", 1)[1].split("/")[0]

        async def status(**more: str) -> int:
            return (await http.post(there.url, content=body, headers=headers | more)).status_code

        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1", f"tools.example.evil.example:{port}"):
            assert await status(Host=host) == 421
        for origin in ("http://evil.example", "null", "http://localhost:1", "http://tools.example.evil.example"):
            assert await status(Origin=origin) == 403
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "tools.example", "Tools.Example"):
            assert await status(Host=host) == 200
        for origin in (f"http://localhost:{port}", "https://tools.example", "http://tools.example"):
            assert await status(Host="tools.example", Origin=origin) == 200
        health = await http.get(there.url.replace("/mcp", "/health"), headers={"Host": "evil.example"})
        assert health.status_code == 421


@pytest.mark.promise("AUT-06")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.2", "tools.example", ""])  # noqa: S104 (to see them refused)
async def test_any_other_address_than_the_loopback_is_refused_at_start(shop: Workshop, host: str) -> None:
    shop = furnish(shop, '[auth]\nmode = "none"\n', server='allowed_hosts = ["tools.example"]')
    line = ("serve", "--config", str(shop.config), "--transport", "http", f"--host={host}")
    done = await shop.run(*line)
    assert (done.code, done.stdout) == (2, b"")
    assert done.stderr.startswith(f"counterfoil: server.host: expected 127.0.0.1, ::1 or localhost, got {host!r}")
    assert "any other host needs OAuth and allowed_hosts, which this version does not have" in done.stderr


@pytest.mark.promise("AUT-06")
async def test_a_server_without_tokens_has_no_public_names(shop: Workshop) -> None:
    shop = furnish(shop, '[auth]\nmode = "none"\n', server='allowed_hosts = ["tools.example"]')
    done = await shop.run("serve", "--config", str(shop.config), "--transport", "http", "--port", "0")
    assert done.code == 2
    assert "server.allowed_hosts" in done.stderr
