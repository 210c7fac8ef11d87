"""Tools described in TOML: what contracts and requests become of the reference's own examples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from counterfoil.registry.contract import Contract, Rate, Retry
from counterfoil.registry.vocabulary import Assurance, Effect, Idempotency, RecoveryClass, Visibility
from counterfoil.server.http_tools.findings import findings
from counterfoil.server.http_tools.making import made_of
from counterfoil.tools.http.spec import HttpProbe, HttpTool, Pages, Request, Sign
from tests.kit.described import offered

if TYPE_CHECKING:
    from counterfoil.server.app import Tools

REFERENCE: Final = """
[tools.orders_get]
description = "Look up one order: state, shipment, refunds."
effect = "read"
open_world = false
pool = "orders"
scopes = ["orders:read"]
tags = ["orders"]
input = { order_id = "string" }
timeout_s = 5
[tools.orders_get.http]
method = "GET"
url = "https://orders.example/orders/{order_id}"
headers = { Authorization = "env:ORDERS_TOKEN" }
no_result_status = [404]
evidence = { external_version = "/etag" }

[tools.orders_refund]
description = "Refund an order, in full or in part."
effect = "destructive"
idempotency = "keyed"
key_retention_s = 86400
settle_s = 60
scopes = ["orders:refund"]
resources = ["order:{order_id}"]
cost = 1
sensitive = ["/note"]
input = { order_id = "string", amount = "number", note = "string?" }
retry = { attempts = 3, backoff_s = 0.5, least_s = 1 }
[tools.orders_refund.http]
method = "POST"
url = "https://orders.example/orders/{order_id}/refunds"
json = { amount = "{amount}", note = "{note}" }
idempotency_header = "Idempotency-Key"
precondition_header = "If-Match"
refused_status = [409, 422]
[tools.orders_refund.probe]
method = "GET"
url = "https://orders.example/refunds?key={call.action_id}"
happened = { path = "/0/state", in = ["done"] }
pending = { path = "/0/state", in = ["processing"] }
absent = { path = "/0", exists = false }
output = "/0"
[tools.orders_refund.compensation]
tool = "orders_charge"
arguments = { order_id = "{arguments.order_id}", amount = "{arguments.amount}" }

[tools.orders_charge]
description = "Charge an order again."
effect = "write"
input = { order_id = "string", amount = "number: in euros", days = "integer?" }
[tools.orders_charge.http]
method = "POST"
url = "https://orders.example/orders/{order_id}/charges"
json = { amount = "{amount}" }
"""


def contract(tools: Tools, name: str) -> Contract:
    entry = tools.catalogue.get(name)
    assert entry is not None
    return entry.contract


@pytest.fixture
def reference(tmp_path: Path) -> Tools:
    return offered(tmp_path, REFERENCE)


def test_the_read_of_the_reference_is_a_contract_and_a_request(reference: Tools) -> None:
    made = contract(reference, "orders_get")
    assert (made.gate.effect, made.gate.open_world, made.gate.scopes) == (Effect.READ, False, ("orders:read",))
    assert (made.limits.pool, made.limits.timeout_s, made.text.tags) == ("orders", 5, ("orders",))
    assert (made.version, made.text.title, made.retry) == ("1", "orders_get", Retry(attempts=3))
    assert made.schemas.input == {
        "type": "object",
        "properties": {"order_id": {"type": "string"}},
        "required": ["order_id"],
        "additionalProperties": False,
    }
    (one,) = made_of("orders_get", reference.config.tools["orders_get"])
    headers = {"Authorization": "env:ORDERS_TOKEN"}
    assert one.spec == HttpTool(
        Request("GET", "https://orders.example/orders/{order_id}", headers),
        no_result_status=frozenset({404}),
        evidence={"external_version": "/etag"},
    )


def test_the_keyed_tool_of_the_reference_has_its_key_probe_and_compensation(reference: Tools) -> None:
    made = contract(reference, "orders_refund")
    assert made.recovery_class is RecoveryClass.PROBE
    assert (made.recovery.idempotency, made.recovery.settle_s) == (Idempotency.KEYED, 60)
    assert (made.recovery.probe, made.recovery.compensation) == ("orders_refund__probe", "orders_charge")
    assert made.recovery.compensation_arguments == {
        "order_id": "{arguments.order_id}",
        "amount": "{arguments.amount}",
    }
    assert (made.gate.resources, made.gate.sensitive, made.limits.cost) == (("order:{order_id}",), ("/note",), 1)
    assert made.limits.retry == Retry(3, 0.5, 1)
    main, probe = made_of("orders_refund", reference.config.tools["orders_refund"])
    assert isinstance(main.spec, HttpTool)
    assert main.spec.request.json == {"amount": "{amount}", "note": "{note}"}
    assert (main.spec.key_header, main.spec.precondition_header) == ("Idempotency-Key", "If-Match")
    assert main.spec.refused_status == {409, 422}
    assert probe.spec == HttpProbe(
        Request("GET", "https://orders.example/refunds?key={call.action_id}"),
        happened=Sign("/0/state", {"in": ["done"]}),
        pending=Sign("/0/state", {"in": ["processing"]}),
        absent=Sign("/0", {"exists": False}),
        output="/0",
    )


def test_a_probe_is_an_unlisted_read_with_the_tools_own_arguments(reference: Tools) -> None:
    tool, probe = contract(reference, "orders_refund"), contract(reference, "orders_refund__probe")
    assert (probe.gate.effect, probe.gate.visibility, probe.asked_about) == (
        Effect.READ,
        Visibility.HIDDEN,
        "orders_refund",
    )
    assert probe.schemas.input == tool.schemas.input
    assert (probe.gate.sensitive, probe.gate.scopes, probe.version) == (("/note",), (), "1")


def test_an_undoing_of_its_own_has_the_tools_effect_scopes_and_resources(tmp_path: Path) -> None:
    text = REFERENCE.replace(
        'tool = "orders_charge"\narguments = { order_id = "{arguments.order_id}", amount = "{arguments.amount}" }',
        'method = "DELETE"\nurl = "https://orders.example/refunds/{output.id}"\ntimeout_s = 7',
    )
    tools = offered(tmp_path, text)
    undo = contract(tools, "orders_refund__undo")
    assert contract(tools, "orders_refund").recovery.compensation == "orders_refund__undo"
    assert (undo.gate.effect, undo.gate.scopes, undo.gate.resources) == (
        Effect.DESTRUCTIVE,
        ("orders:refund",),
        ("order:{order_id}",),
    )
    assert (undo.recovery.idempotency, undo.limits.timeout_s) == (Idempotency.NONE, 7)
    assert (undo.gate.visibility, undo.asked_about) == (Visibility.HIDDEN, "orders_refund")


def test_every_field_of_a_contract_can_be_stated(tmp_path: Path) -> None:
    text = """
[tools.all_of_it]
title = "All"
version = "2"
description = "Everything."
effect = "write"
idempotency = "natural"
external_wait_s = 10
freshness_s = 0
rate = "5/10s"
concurrency = 2
approval = "client"
preview = "look"
visibility = "base"
code = true
evidence = { external_reference = "/id" }
input_schema = { type = "object", properties = { a = { type = "string", x-sensitive = true } } }
output = { id = "string", note = "string?" }
[tools.all_of_it.http]
method = "PUT"
url = "http://127.0.0.1:9000/a"
form = { a = "{a}" }
[tools.look]
description = "Look."
effect = "read"
input = { cursor = "string?" }
[tools.look.http]
method = "GET"
url = "https://orders.example/a"
query = { q = "x" }
pages = { items = "/rows", next = "/next", parameter = "cursor", argument = "cursor", most = 3 }
"""
    tools = offered(tmp_path, text)
    made = contract(tools, "all_of_it")
    assert (made.text.title, made.version, made.recovery.idempotency) == ("All", "2", Idempotency.NATURAL)
    assert (made.limits.external_wait_s, made.limits.freshness_s) == (10, 0)
    assert (made.limits.rate, made.limits.concurrency) == (Rate(5, 10), 2)
    assert (made.gate.approval, made.gate.preview, made.gate.code) == (Assurance.CLIENT, "look", True)
    assert (made.gate.visibility, made.recovery.evidence) == (Visibility.BASE, {"external_reference": "/id"})
    assert made.gate.sensitive == ("/a",)
    assert made.schemas.input["additionalProperties"] is False
    assert made.schemas.output == {
        "type": "object",
        "properties": {"id": {"type": "string"}, "note": {"type": "string"}},
        "required": ["id"],
    }
    (look,) = made_of("look", tools.config.tools["look"])
    assert isinstance(look.spec, HttpTool)
    assert look.spec.pages == Pages("/rows", "/next", "cursor", 3, "cursor")


def test_the_short_form_describes_and_makes_optional(reference: Tools) -> None:
    schema: Any = contract(reference, "orders_charge").schemas.input
    assert schema["properties"]["amount"] == {"type": "number", "description": "in euros"}
    assert schema["required"] == ["order_id", "amount"]


def test_nothing_is_found_in_the_tools_of_the_reference(reference: Tools) -> None:
    assert findings(reference.config) == []
