"""How serving over HTTP starts, or does not: addresses, tokens, and what stdio does not pay for."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from counterfoil.registry.contract import Contract, Gate, Schemas, Text
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import Effect
from counterfoil.server.changes import Changes
from counterfoil.server.config import ConfigError, parse
from counterfoil.server.http.doorman import doorman_of, token_file
from counterfoil.server.http.place import LOOPBACK, Place, PlaceError, address_of, listen
from tests.kit.process import ROOT
from tests.kit.web import modern, open_session, shown, web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
LOCAL = Principal("local", "me", "local", frozenset({"*"}))
TWO = (
    '[auth]\nmode = "tokens"\n[[auth.tokens]]\ntoken = "env:ONE"\nsubject = "ann"\nscopes = ["a"]\n'
    '[[auth.tokens]]\ntoken = "env:TWO"\nsubject = "ann"\n'
)


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode())]


def test_a_token_says_who_speaks_and_one_identity_may_have_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "first-token")
    monkeypatch.setenv("TWO", "second-token")
    doorman = doorman_of(parse(TWO, tmp_path / "c.toml"), LOCAL, None)
    assert doorman.who(bearer("first-token")) == Principal("local", "ann", "http", frozenset({"a"}), "token")
    assert doorman.who(bearer("second-token")) == Principal("local", "ann", "http", frozenset(), "token")
    assert doorman.who(bearer("third-token")) is None
    assert doorman.who([*bearer("first-token"), *bearer("first-token")]) is None


@pytest.mark.parametrize(
    ("second", "says"),
    [("first-token", "another entry has the same token"), ("", "the variable is not set"), ("grüße", "visible ASCII")],
)
def test_an_unusable_token_is_named_by_its_reference_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, says: str
) -> None:
    monkeypatch.setenv("ONE", "first-token")
    monkeypatch.setenv("TWO", second)
    with pytest.raises(ConfigError) as caught:
        doorman_of(parse(TWO, tmp_path / "c.toml"), LOCAL, None)
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("auth.tokens[1].token", 8)
    assert says in problem.message
    assert "first-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[auth]\nmode = "tokens"', "needs at least one"),
        ('[[auth.tokens]]\ntoken = "env:X"\nsubject = "a"', "belong to mode = 'tokens'"),
        ('[auth]\nmode = "tokens"\n[[auth.tokens]]\ntoken = "hunter2-hunter2"\nsubject = "a"', "a secret reference"),
    ],
)
def test_tokens_and_their_mode_go_together_and_a_bare_token_is_not_repeated(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse(text, Path("c.toml"))
    assert "hunter2" not in str(caught.value)


def test_the_token_of_a_start_is_in_a_file_of_ones_own_and_goes_with_it(tmp_path: Path) -> None:
    config = parse('[ledger]\nurl = "sqlite+aiosqlite:///l.db"', tmp_path / "c.toml")
    with token_file(config, 8765) as made:
        assert made is not None
        path, token = made
        assert (path.name, path.read_text()) == ("l.db.http-8765.token", token)
        if sys.platform != "win32":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert doorman_of(config, LOCAL, token).who(bearer(token)) == LOCAL
        with token_file(config, 8766) as other:
            assert other is not None
            assert other[1] != token
    assert not path.exists()


def test_only_the_loopback_is_an_address_of_ours() -> None:
    assert {host: address_of(host) for host in LOOPBACK} == LOOPBACK
    for host in ("0.0.0.0", "::", "127.0.0.2", "LOCALHOST", "tools.example", ""):  # noqa: S104 (to see them refused)
        with pytest.raises(PlaceError, match="needs OAuth and allowed_hosts, which this version does not have"):
            address_of(host)


def test_names_are_the_loopbacks_with_our_port_and_the_configured_ones() -> None:
    place = Place("127.0.0.1", 80, ("Tools.example:8443",))
    assert {"127.0.0.1", "localhost:80", "[::1]:80", "tools.example:8443"} <= place.hosts()
    assert "127.0.0.1" not in Place("127.0.0.1", 8080).hosts()
    assert "http://localhost:8080" in Place("::1", 8080).origins()
    assert Place("::1", 8080).url == "http://[::1]:8080/mcp"


def test_a_port_in_use_is_one_clear_line_and_free_again_at_once() -> None:
    first, place = listen("127.0.0.1", 0)
    with first, pytest.raises(PlaceError, match=f"{place.port} on 127.0.0.1 is in use by another process"):
        listen("127.0.0.1", place.port)
    again, _ = listen("127.0.0.1", place.port)
    again.close()


async def test_two_servers_share_a_ledger_but_no_port_and_a_signal_ends_them_in_order(tmp_path: Path) -> None:
    shop = Workshop.new(tmp_path)
    async with web(shop) as (process, there), there.http() as http:
        port = there.url.rsplit(":", 1)[1].split("/")[0]
        line = ("serve", "--config", str(shop.config), "--transport", "http", "--port", port)
        refused = await shop.run(*line)
        assert (refused.code, refused.stderr.count("\n")) == (2, 1)
        assert f"server.port: {port} on 127.0.0.1 is in use" in refused.stderr
        log = (shop.folder / "http.log").read_text()
        assert there.token not in log
        async with web(shop) as (other, second), second.http() as more:
            for client, url in ((http, there.url), (more, second.url)):
                body, headers = modern("tools/call", name="kit_echo", arguments={"value": 1})
                assert shown(await client.post(url, content=body, headers=headers)) == {"result": 1}
            other.signal(signal.SIGTERM)
            assert await other.ended() == 0
        process.signal(signal.SIGINT)
        assert await process.ended() == 0
    assert list(shop.ledger.parent.glob("*.token")) == []


async def test_a_stop_ends_a_sessions_own_stream_without_a_word(tmp_path: Path) -> None:
    shop = Workshop.new(tmp_path)
    async with web(shop) as (process, there), there.http() as http:
        session = {"Mcp-Session-Id": await open_session(http, there.url)}
        async with http.stream("GET", there.url, headers=session) as stream:
            assert stream.status_code == 200
            process.signal(signal.SIGTERM)
            assert await process.ended() == 0
        said = (shop.folder / "http.log").read_text()
    assert said.count("\n") == 2, said


async def test_a_token_without_a_value_stops_the_start_in_one_clear_line(tmp_path: Path) -> None:
    shop = Workshop.new(tmp_path)
    shop.configure('[auth]\nmode = "tokens"\n[[auth.tokens]]\ntoken = "env:NOBODY_SET_THIS"\nsubject = "a"\n')
    done = await shop.run("serve", "--config", str(shop.config), "--transport", "http", "--port", "0")
    assert (done.code, done.stdout) == (2, b"")
    assert "auth.tokens[0].token: env:NOBODY_SET_THIS: the variable is not set" in done.stderr
    assert "serving MCP" not in done.stderr


def test_stdio_starts_without_what_only_http_needs() -> None:
    program = (
        "import sys, counterfoil.server.serve; "
        "print(sorted({'h11', 'counterfoil.server.http', 'typer', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode().strip() == "[]"


async def test_a_change_is_announced_once_for_each_burst_and_only_to_whom_it_concerns(tmp_path: Path) -> None:
    told: asyncio.Queue[set[str]] = asyncio.Queue()
    people = {name: Principal("a", name, "http", frozenset({name})) for name in ("ann", "bob")}

    async def announce(concerns: object) -> None:
        assert callable(concerns)
        told.put_nowait({name for name, who in people.items() if concerns(who)})

    async with Workshop.new(tmp_path).open() as app:
        entry = app.catalogue.get("kit_echo")
        assert entry is not None

        def contract(name: str, scope: str) -> Contract:
            return Contract(
                name, Text(name, "A tool."), Schemas({"type": "object"}, None), Gate(Effect.READ, scopes=(scope,))
            )

        changes = Changes(app.shelf, announce)
        for number in range(50):
            app.catalogue.register(contract(f"t{number}", "ann"), entry.adapter)
        assert await asyncio.wait_for(told.get(), 10) == {"ann"}
        app.catalogue.register(contract("shared", "ann"), entry.adapter)
        app.catalogue.register(contract("other", "bob"), entry.adapter)
        assert await asyncio.wait_for(told.get(), 10) == {"ann", "bob"}
        app.catalogue.remove("other")
        assert await asyncio.wait_for(told.get(), 10) == {"bob"}
        app.catalogue.register(contract("passing", "bob"), entry.adapter)
        app.catalogue.remove("passing")
        app.catalogue.remove("t1")
        assert await asyncio.wait_for(told.get(), 10) == {"ann"}
        changes.close()
        assert told.empty()
