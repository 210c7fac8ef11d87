"""SEC-03 for described HTTP tools: canaries in headers, arguments and error bodies stand in clear nowhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.bench import bench
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
CANARY: Final = re.compile(rb"CANARY[a-z]*")

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
sensitive = ["/note"]
input_schema = { type = "object", properties = { password = {}, note = {}, login = {}, Cookie = {} } }
[tools.vault_write.http]
method = "POST"
url = "http://HOST/write"
headers = { Authorization = "env:VAULT_TOKEN", X-Api-Key = "file:key", Cookie = "{Cookie}" }
json = { password = "{password}", note = "{note}", login = "{login}" }
[tools.vault_write.probe]
url = "http://HOST/found?key={call.action_id}"
headers = { Authorization = "env:VAULT_TOKEN" }
happened = { path = "/state", eq = "done" }
evidence = { external_reference = "/echo" }
[tools.vault_read]
description = "Read something."
effect = "read"
open_world = false
retry = { attempts = 1 }
input = { apiKey = "string" }
[tools.vault_read.http]
method = "GET"
url = "http://HOST/read"
query = { key = "{apiKey}" }
headers = { Authorization = "env:VAULT_TOKEN" }
evidence = { request_id = "header:X-Echo" }
"""
SECRETS: Final[dict[str, Any]] = {
    "password": "CANARYpassword",
    "note": "CANARYnote",
    "login": [{"apiKey": "CANARYapikey"}, {"Authorization": ["CANARYnested"]}],
    "Cookie": "CANARYcookie",
}
WRITTEN: Final = "CANARYtoken CANARYkey CANARYpassword CANARYnote CANARYapikey CANARYnested CANARYcookie"
READ: Final = "CANARYtoken CANARYpassword"
FOUND: Final = "CANARYtoken CANARYpassword CANARYnote CANARYapikey CANARYnested CANARYcookie"
"""What each request can repeat: what was sent with it, and the arguments of the call that a probe asks about."""


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarSide]:
    with FarSide(tmp_path / "effects.db") as far:
        yield far


@pytest.fixture
def furnished(shop: Workshop, far: FarSide, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("VAULT_TOKEN", "Bearer CANARYtoken")
    (shop.folder / "key").write_text("CANARYkey")
    return TOOLS.replace("HOST", far.host)


async def leaks(shop: Workshop, *texts: str) -> set[bytes]:
    """Every canary in the bytes of the ledger's folder, of an export, and of what was logged or printed."""
    exported = await shop.run("ledger", "export", "--config", str(shop.config))
    assert exported.code == 0, exported.stderr
    assert b"vault_" in exported.stdout
    files = [file.read_bytes() for file in shop.ledger.parent.iterdir() if file.is_file()]
    told = [exported.stdout, exported.stderr.encode(), *(text.encode() for text in texts)]
    return {found for data in [*files, *told] for found in CANARY.findall(data)}


@pytest.mark.promise("SEC-03")
@pytest.mark.parametrize(
    "answer",
    [
        Answer(400, '{"message": "ECHO", "sent": ["ECHO"]}'),
        Answer(500, "ECHO", {"Content-Type": "text/plain"}),
        Answer(200, "ECHO"),
        Answer(then="drop"),
    ],
    ids=["refused", "unknown", "unreadable", "lost"],
)
async def test_a_far_side_that_repeats_everything_leaves_no_secret_behind(
    shop: Workshop,
    far: FarSide,
    furnished: str,
    answer: Answer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("DEBUG")
    far.script("/write", replace(answer, body=answer.body.replace("ECHO", WRITTEN)))
    far.script("/read", replace(answer, body=answer.body.replace("ECHO", READ)))
    far.script("/found", Answer(200, json.dumps({"state": "done", "echo": FOUND})))
    async with bench(shop, furnished, principals_local='scopes = ["*"]') as at:
        written = await at.seat.call("vault_write", SECRETS)
        read = await at.seat.read("vault_read", {"apiKey": "CANARYpassword"})
        assert written["error"] is not None
        assert read["error"] is not None
        if written["error"]["code"] == "ambiguous":
            await at.app.runtime.reconcile(at.app.local, call_id=written["call_id"])
        told = json.dumps([written["error"], read["error"], written["evidence"], read["evidence"]])
        assert any(b"CANARYpassword" in one.body for one in far.seen), "the far side got the exact values"
        printed = capfd.readouterr()
        assert await leaks(shop, told, printed.out, printed.err, caplog.text) == set()
