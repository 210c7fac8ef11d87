"""SEC-03 for described HTTP tools: what is said of mistakes, of retries and by persons repeats no secret either."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.bench import OPERATOR, bench
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CANARY: Final = re.compile(r"CANARY[a-z]*", re.IGNORECASE)

MISTAKES: Final = """
[http]
allow_hosts = ["https://u:CANARYhost@orders.example", "orders.example", "a.example/?k=CANARYentry"]
[tools.vault_a]
description = "Everything that can be wrong with a request."
effect = "write"
input = { x = "string" }
[tools.vault_a.http]
method = "POST"
url = "https://orders.example/x?apiKey=CANARYurl#frag"
headers = { Authorization = "Bearer CANARYheader {x", X-Api-Key = "CANARYheader {nope}" }
json = { password = "CANARYjson {nope", a = "CANARYjson {nope}" }
query = { key = "CANARYquery {bad" }
[tools.vault_a.probe]
url = "https:/orders.example/x?apiKey=CANARYprobe"
happened = { path = "/a", eq = "x" }
[tools.vault_b]
description = "A user in the URL."
effect = "write"
input = { x = "string" }
[tools.vault_b.http]
method = "POST"
url = "https://u:CANARYuser@orders.example/x?apiKey=CANARYurl"
[tools.vault_b.compensation]
tool = "vault_a"
arguments = { x = "CANARYundo {nope", password = "CANARYundo" }
[tools.vault_c]
description = "A port that is none."
effect = "read"
input = { x = "string" }
[tools.vault_c.http]
method = "GET"
url = "https://orders.example:CANARYport/{x}?apiKey=CANARYurl"
[tools.vault_d]
description = "A host that is none."
effect = "read"
input = { x = "string" }
[tools.vault_d.http]
method = "GET"
url = "https://orders.example\\\\CANARYpath/{x}"
"""
MISTYPED: Final = """
[http]
allow_hosts = ["orders.example"]
[tools.vault_a]
description = "Values of other types."
effect = "write"
input = { x = "string" }
[tools.vault_a.http]
method = "POST"
url = ["https://orders.example/?apiKey=CANARYurl"]
headers = "Authorization: CANARYheader"
query = "key=CANARYquery"
form = "password=CANARYform"
heders = { Authorization = "CANARYtypo" }
[tools.vault_a.probe]
url = "https://orders.example/"
query = ["CANARYquery"]
happened = { path = "/a", eq = "x" }
"""


@pytest.mark.promise("SEC-03")
@pytest.mark.parametrize(("text", "least"), [(MISTAKES, 8), (MISTYPED, 4)], ids=["mistakes", "mistyped"])
async def test_mistakes_are_told_at_their_places_without_what_stands_there(
    shop: Workshop, text: str, least: int
) -> None:
    shop.configure(text)
    for command in (("check",), ("doctor",), ("tools", "list")):
        for more in ((), ("--json",)):
            said = await shop.run(*command, "--config", str(shop.config), *more)
            words = said.stdout.decode() + said.stderr
            assert said.code != 0
            assert CANARY.findall(words) == []
            assert len(set(re.findall(r"(?:tools|http)\.[a-z_]+\S*", words))) >= least


TOOLS: Final = """
[[policy]]
id = "all"
tool = "vault_*"
verdict = "allow"
[http]
allow_hosts = ["HOST"]
[tools.vault_write]
description = "Write a secret."
effect = "write"
idempotency = "keyed"
sensitive = ["/note"]
retry = { attempts = 3, backoff_s = 0.01, least_s = 0.01 }
input = { password = "string", note = "string" }
[tools.vault_write.http]
method = "POST"
url = "http://HOST/write?apiKey={password}"
headers = { Authorization = "env:VAULT_TOKEN" }
json = { note = "{note}" }
idempotency_header = "Idempotency-Key"
[tools.vault_plain]
description = "Write a secret, without a key."
effect = "write"
sensitive = ["/note"]
input = { password = "string", note = "string" }
[tools.vault_plain.http]
method = "POST"
url = "http://HOST/write?apiKey={password}"
headers = { Authorization = "env:VAULT_TOKEN" }
json = { note = "{note}" }
"""
ECHO: Final = "CANARYtoken CANARYpassword CANARYnote"
HEADERS: Final = {"X-Echo": ECHO, "X-Request-Id": ECHO, "ETag": ECHO, "Set-Cookie": f"a={ECHO}"}
SECRETS: Final[dict[str, Any]] = {"password": "CANARYpassword", "note": "CANARYnote"}


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarSide]:
    with FarSide(tmp_path / "effects.db") as far:
        yield far


async def leaks(shop: Workshop, *texts: str) -> set[str]:
    """Every canary in the ledger's folder, an export, and what was told, logged or printed."""
    exported = await shop.run("ledger", "export", "--config", str(shop.config))
    assert "vault_" in exported.stdout.decode()
    files = [file.read_bytes().decode("latin-1") for file in shop.ledger.parent.iterdir() if file.is_file()]
    return {found for data in [*files, exported.stdout.decode(), *texts] for found in CANARY.findall(data)}


@pytest.mark.promise("SEC-03")
@pytest.mark.parametrize(
    "answer",
    [
        Answer(503, json.dumps({"message": ECHO}), HEADERS | {"Retry-After": "0"}),
        Answer(500, json.dumps({"error": {"message": ECHO}}), HEADERS),
        Answer(302, "", HEADERS | {"Location": "http://elsewhere.example/?k=CANARYpassword"}),
        Answer(200, ECHO, HEADERS),
        Answer(then="drop"),
    ],
    ids=["again", "unknown", "redirect", "unreadable", "lost"],
)
async def test_neither_retries_nor_a_persons_word_repeat_a_secret(
    shop: Workshop,
    far: FarSide,
    answer: Answer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "Bearer CANARYtoken")
    far.script("/write", answer)
    async with bench(shop, TOOLS.replace("HOST", far.host), principals_local='scopes = ["*"]') as at:
        keyed = await at.seat.call("vault_write", SECRETS)
        assert keyed["attempts"] == len(far.seen) == 3
        plain = await at.seat.call("vault_plain", SECRETS)
        views = [keyed, plain]
        for view in views:
            if view["state"] != "awaiting_reconciliation":
                continue
            said = await at.app.runtime.reconcile(
                at.app.local, call_id=view["call_id"], resolution="happened", person=OPERATOR,
                evidence=f"their log says {SECRETS['password']} and {SECRETS['note']}",
                external_reference=f"ref {SECRETS['note']}",
            )  # fmt: skip
            views.append(said.wire())
            assert views[-1]["state"] == "settled"
        events = [await at.events(view["call_id"]) for view in views]
        told = json.dumps([[view["error"], view["evidence"], view["next"]] for view in views] + events)
        shown = [
            await at.seat.ask("tool_search", query="vault", detail="full"),
            await shop.command("tools", "show", "vault_write"),
        ]
        printed = capfd.readouterr()
        assert any("CANARYpassword" in one.target for one in far.seen), "the far side got the exact values"
        assert await leaks(shop, told, str(shown), printed.out, printed.err) == set()


@pytest.mark.promise("SEC-03")
async def test_headers_and_targets_are_in_no_log_however_much_is_logged(
    shop: Workshop, far: FarSide, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("VAULT_TOKEN", "Bearer CANARYtoken")
    far.script("/write", Answer(200, "{}", HEADERS))
    async with bench(shop, TOOLS.replace("HOST", far.host), principals_local='scopes = ["*"]') as at:
        written = await at.seat.call("vault_plain", SECRETS)
        assert written["outcome"] == "success"
    logging.getLogger("anybody").debug("this level is kept")
    told = [record.getMessage() for record in caplog.records]
    assert told
    assert [text for text in told if CANARY.search(text)] == []
