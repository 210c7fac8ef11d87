"""A tool described in ten lines of TOML, from its configuration to a real far side: read, lost, reconciled, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import counterfoil
from counterfoil.registry.vocabulary import OutcomeClass
from tests.kit.http_far_side import Answer, FarSide

pytestmark = pytest.mark.anyio

TEXT: Final = """
[ledger]
url = "sqlite+aiosqlite:///ledger/kit.db"
[principals.local]
scopes = ["*"]
[[policy]]
id = "refunds"
tool = "orders_refund"
verdict = "allow"

[http]
allow_hosts = ["HOST"]

[tools.orders_get]
description = "Look up one order."
effect = "read"
open_world = false
input = { order_id = "string" }
[tools.orders_get.http]
method = "GET"
url = "http://HOST/orders/{order_id}"
headers = { Authorization = "file:token" }
no_result_status = [404]
evidence = { external_version = "/etag" }

[tools.orders_refund]
description = "Refund an order."
effect = "destructive"
idempotency = "keyed"
resources = ["order:{order_id}"]
input = { order_id = "string", amount = "number", note = "string?" }
[tools.orders_refund.http]
method = "POST"
url = "http://HOST/orders/{order_id}/refunds"
json = { amount = "{amount}", note = "{note}" }
idempotency_header = "Idempotency-Key"
[tools.orders_refund.probe]
url = "http://HOST/refunds?key={call.action_id}"
happened = { path = "/0/state", in = ["done"] }
absent = { path = "/0", exists = false }
output = "/0"
"""


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarSide]:
    with FarSide(tmp_path / "effects.db") as far:
        yield far


@pytest.fixture
def config(tmp_path: Path, far: FarSide) -> Path:
    path = tmp_path / "counterfoil.toml"
    path.write_text(TEXT.replace("HOST", far.host))
    (tmp_path / "token").write_text("Bearer relative-to-the-file\n")
    return path


async def test_a_read_is_sent_with_its_secret_and_brings_output_and_evidence(config: Path, far: FarSide) -> None:
    async with counterfoil.open(config) as app:
        view = await app.call("orders_get", {"order_id": "a/b"})
    assert view.output == {"order_id": "a/b", "state": "delayed", "etag": "v7"}
    assert view.evidence is not None
    assert view.evidence["external_version"] == "v7"
    assert [one.target for one in far.seen] == ["/orders/a%2Fb"]
    assert far.seen[0].headers["authorization"] == "Bearer relative-to-the-file"


async def test_a_secret_that_is_missing_is_no_reason_not_to_start(config: Path, far: FarSide) -> None:
    (config.parent / "token").unlink()
    async with counterfoil.open(config) as app:
        view = await app.call("orders_get", {"order_id": "17"})
        assert view.error is not None
        assert (view.error.code, view.sent) == ("unavailable", "no")
        assert "file:token" in view.error.message
        (config.parent / "token").write_text("now")
        assert (await app.call("orders_get", {"order_id": "17"})).outcome == OutcomeClass.SUCCESS
    assert len(far.seen) == 1


async def test_a_refund_whose_reply_is_lost_is_settled_by_its_probe_and_made_once(config: Path, far: FarSide) -> None:
    far.script("POST /orders/17/refunds", Answer(commit=True, then="drop"))
    async with counterfoil.open(config) as app:
        lost = await app.call("orders_refund", {"order_id": "17", "amount": 20})
        assert lost.outcome == OutcomeClass.AMBIGUOUS
        assert [one["order_id"] for one in far.effects.all()] == ["17"]
        found = await app.runtime.reconcile(app.local, call_id=lost.call_id)
        view = found.wire()
    assert (view["state"], view["outcome"]) == ("settled", "success")
    assert view["output"] == far.effects.all()[0]
    assert [one.method for one in far.seen] == ["POST", "GET"]
    assert far.seen[0].body == b'{"amount":20}'
    key = far.seen[0].headers["idempotency-key"]
    assert far.seen[1].target == f"/refunds?key={key}"


async def test_connections_are_closed_with_the_application(config: Path, far: FarSide) -> None:
    async with counterfoil.open(config) as app:
        await app.call("orders_get", {"order_id": "17"})
        outbound = app.outbound
        assert outbound._pools  # pyright: ignore[reportPrivateUsage] (no door is made for tests alone)
    assert not outbound._pools  # pyright: ignore[reportPrivateUsage] (as above)


async def test_what_a_tool_has_sent_as_its_secret_is_hidden_where_its_probe_is_told_it(
    config: Path, far: FarSide
) -> None:
    text = config.read_text().replace("json = { amount", 'headers = { Authorization = "file:token" }\njson = { amount')
    config.write_text(text)
    far.script("POST /orders/17/refunds", Answer(commit=True, then="drop"))
    told = [{"state": "done", "sent_with": "Bearer relative-to-the-file", "token": "relative-to-the-file"}]
    async with counterfoil.open(config) as app:
        lost = await app.call("orders_refund", {"order_id": "17", "amount": 20})
        assert lost.call_id is not None
        far.script("GET /refunds", Answer(body=json.dumps(told), headers={"Content-Type": "application/json"}))
        view = (await app.runtime.reconcile(app.local, call_id=lost.call_id)).wire()
    assert (view["state"], view["outcome"]) == ("settled", "success")
    assert isinstance(view["output"], dict)
    assert view["output"].keys() == {"state", "sent_with", "token"}
    assert "relative-to-the-file" not in str(view)
