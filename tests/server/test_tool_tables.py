"""Tools described in TOML: the reference's own examples, and every mistake at its line with the nearest name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from counterfoil.registry.contract import Contract, Rate, Retry
from counterfoil.registry.vocabulary import Assurance, Effect, Idempotency, RecoveryClass, Visibility
from counterfoil.server.app import read_tools
from counterfoil.server.config import ConfigError, Problem
from counterfoil.server.http_tools.findings import findings
from counterfoil.server.http_tools.making import made_of
from counterfoil.tools.http.spec import HttpProbe, HttpTool, Pages, Request, Sign

if TYPE_CHECKING:
    from counterfoil.server.app import Tools

HEAD: Final = '[http]\nallow_hosts = ["orders.example", "127.0.0.1:9000"]\n[pools.orders]\nconcurrency = 4\n'
BEFORE: Final = HEAD.count("\n")

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


def offered(folder: Path, text: str) -> Tools:
    path = folder / "counterfoil.toml"
    path.write_text(HEAD + text)
    return read_tools(path)


def problems_of(folder: Path, text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        offered(folder, text)
    return list(caught.value.problems)


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


TOOL: Final = """[tools.t]
description = "Try."
effect = "{effect}"
{more}
input = {{ order_id = "string", note = "string?", n = "integer?" }}
[tools.t.http]
method = "{method}"
url = "{url}"
{http}
"""
URL: Final = "https://orders.example/a"
MORE, HTTP, AFTER = BEFORE + 4, BEFORE + 9, BEFORE + 10


def tool(more: str = "", http: str = "", after: str = "", **fields: str) -> str:
    stated = {"effect": "write", "method": "POST", "url": URL} | fields
    return TOOL.format(more=more, http=http, **stated) + after


PROBE: Final = f"[tools.t.probe]\nurl = '{URL}'\n"
GOOD: Final = "happened = { status = [200] }\n"
CHARGE: Final = """[tools.charge]
description = "Charge."
effect = "write"
input = { order_id = "string", amount = "integer", note = "string" }
http = { method = "POST", url = "https://orders.example/c" }
"""
UNDO: Final = "[tools.t.compensation]\n"


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        (tool(url=URL + "/{oder_id}"), HTTP - 1, "tools.t.http.url", "did you mean 'order_id'"),
        (tool(url="https://order.example/a"), HTTP - 1, "tools.t.http.url", "did you mean 'orders.example'"),
        (tool(url="http://orders.example/a"), HTTP - 1, "tools.t.http.url", "443"),
        (tool(url="/orders"), HTTP - 1, "tools.t.http.url", "is no URL"),
        (tool(url="https://me:hunter2@orders.example/a"), HTTP - 1, "tools.t.http.url", "user or password"),
        (tool(url="https://{order_id}.example/a"), HTTP - 1, "tools.t.http.url", "literal"),
        (tool(http="json = { a = ['{nope}'] }"), HTTP, "tools.t.http.json.a[0]", "names no argument"),
        (tool(http="query = { a = '{call.idd}' }"), HTTP, "tools.t.http.query.a", "a call has action_id"),
        (tool(http="form = { a = '{output.id}' }"), HTTP, "tools.t.http.form.a", "compensation"),
        (tool(http="headers = { X-A = '{note' }"), HTTP, "tools.t.http.headers.X-A", "no placeholder"),
        (tool(http="json = {}\nform = {}"), HTTP + 1, "tools.t.http.form", "json or form"),
        (tool(http="json = {}", method="GET"), HTTP, "tools.t.http.json", "GET has no body"),
        (tool(http="refused_status = [404]\nunknown_status = [404]"), HTTP + 1, "tools.t.http.unknown_status", "404"),
        (tool(http="idempotency_header = 'K'"), HTTP, "tools.t.http.idempotency_header", "only a tool with"),
        (tool("idempotency = 'keyed'"), MORE, "tools.t.idempotency", "sends it nowhere"),
        (tool("key_retention_s = 5"), MORE, "tools.t.key_retention_s", "only a keyed tool"),
        (tool("pool = 'order'"), MORE, "tools.t.pool", "there is no [pools.order]; did you mean orders?"),
        (tool("resources = ['order:{oder_id}']"), MORE, "tools.t.resources[0]", "did you mean order_id?"),
        (tool("resources = ['{order_id}']"), MORE, "tools.t.resources[0]", "name of its own"),
        (tool("sensitive = ['/notes']"), MORE, "tools.t.sensitive[0]", "did you mean note?"),
        (tool("approval = 'client'", effect="destructive"), MORE, "tools.t.approval", "reversible"),
        (tool("preview = 'tt'"), MORE, "tools.t.preview", "no tool is called 'tt'; did you mean t?"),
        (tool("preview = 't'"), MORE, "tools.t.preview", "has effect 'write'"),
        (tool("input_schema = {}"), MORE, "tools.t.input_schema", "not both"),
        (tool("output_schema = { type = 'strin' }"), MORE, "tools.t.output_schema", "schema"),
        (tool(http="pages = { items = '/a' }"), HTTP, "tools.t.http.pages", "only a tool with"),
        (
            tool(http="pages = { items = '/a', argument = 'nota' }", effect="read"),
            HTTP,
            "tools.t.http.pages.argument",
            "did you mean 'note'?",
        ),
        (
            tool(http="pages = { items = '/a', argument = 'order_id' }", effect="read"),
            HTTP,
            "tools.t.http.pages.argument",
            "must be optional",
        ),
        (tool(after=PROBE + "happened = { gt = 'x' }"), AFTER + 2, "tools.t.probe.happened.gt", "finite number"),
        (tool(after=PROBE + "happened = { path = '/a' }"), AFTER + 2, "tools.t.probe.happened", "tests nothing"),
        (
            tool(after=PROBE + "happened = { path = '/a', eq = '{call.action_id}' }"),
            AFTER + 2,
            "tools.t.probe.happened.eq",
            "into the request",
        ),
        (tool(after=PROBE + GOOD + "absent = { matches = '(' }"), AFTER + 3, "tools.t.probe.absent.matches", "linear"),
        (tool(after=UNDO + "tool = 'chage'\n" + CHARGE), AFTER + 1, "tools.t.compensation.tool", "mean charge?"),
        (tool(after=UNDO + "tool = 'charge'\n" + CHARGE), AFTER + 1, "tools.t.compensation.tool", "it needs amount"),
        (tool(after=UNDO), AFTER, "tools.t.compensation", "expected a tool"),
        (tool(after=UNDO + "tool = 't'\nurl = 'x'"), AFTER + 1, "tools.t.compensation.tool", "not both"),
        (tool(after=UNDO + "tool = 't'\nmethod = 'PUT'"), AFTER + 2, "tools.t.compensation.method", "of its own"),
        (tool(after=UNDO + f"url = '{URL}'"), AFTER + 1, "tools.t.compensation.url", "a method"),
        (
            tool(after=UNDO + f"method = 'PUT'\nurl = '{URL}/{{output.id}}'\nidempotency = 'keyed'"),
            AFTER + 3,
            "tools.t.compensation.idempotency",
            "nowhere",
        ),
    ],
)
def test_a_mistake_is_named_at_its_key_and_line(tmp_path: Path, text: str, line: int, key: str, says: str) -> None:
    found = problems_of(tmp_path, text)
    assert (key, line) in [(problem.key, problem.line) for problem in found]
    told = next(str(problem) for problem in found if problem.key == key and says in str(problem))
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("arguments", "key", "says"),
    [
        ("{ order_id = '{order_id}', amount = 1, amout = 3, note = '' }", "arguments.amout", "did you mean amount?"),
        ("{ order_id = '{order_id}', note = '' }", "arguments", "needs amount too"),
        ("{ order_id = '{n}', amount = 1, note = 'x' }", "arguments.order_id", "takes a string here"),
        ("{ order_id = '{order_id}', amount = '1', note = 'x' }", "arguments.amount", "expected an integer"),
        ("{ order_id = '{order_id}', amount = 'a {n}', note = 'x' }", "arguments.amount", "gives a string"),
        ("{ order_id = '{order_id}', amount = 1, note = '{note}' }", "arguments.note", "may be absent"),
        ("{ order_id = '{oder_id}', amount = 1, note = 'x' }", "arguments.order_id", "did you mean 'order_id'"),
        ("{ order_id = '{call.action_id}', amount = '{call.id}', note = 'x' }", "arguments.amount", "gives a string"),
    ],
)
def test_arguments_that_cannot_fit_the_undoing_tool_are_told(
    tmp_path: Path, arguments: str, key: str, says: str
) -> None:
    found = problems_of(tmp_path, tool(after=f"{UNDO}tool = 'charge'\narguments = {arguments}\n{CHARGE}"))
    assert [(one.key, one.line) for one in found] == [(f"tools.t.compensation.{key}", AFTER + 2)]
    assert says in str(found[0])


def test_several_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    more = "idempotency = 'keyed'\npool = 'order'\nresources = ['order:{x}']"
    text = tool(more, "json = { a = '{x}' }", PROBE + "happened = { gt = 'x' }\n" + UNDO + "tool = 'u'")
    assert [one.key for one in problems_of(tmp_path, text)] == [
        "tools.t.idempotency",
        "tools.t.pool",
        "tools.t.resources[0]",
        "tools.t.http.json.a",
        "tools.t.probe.happened.gt",
        "tools.t.compensation.tool",
    ]


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        (tool("efect = 1"), MORE, "tools.t.efect", "did you mean effect?"),
        (tool(after=PROBE + "happened = { inn = [] }"), AFTER + 2, "tools.t.probe.happened.inn", "did you mean in?"),
        (tool(http="jsn = 1"), HTTP, "tools.t.http.jsn", "did you mean json?"),
        (tool(method="FETCH"), HTTP - 2, "tools.t.http.method", "'GET', 'HEAD'"),
        (tool("output = { a = 'strng' }"), MORE, "tools.t.output.a", "did you mean string"),
        (tool(http="json = { at = 2026-01-01 }"), HTTP, "tools.t.http.json", "dates and times as text"),
        (tool(http="headers = { Host = 'x' }"), HTTP, "tools.t.http.headers.Host", "client's own"),
        (tool(after=PROBE + GOOD + "tool = 'x'"), AFTER + 3, "tools.t.probe.tool", "not available"),
        (tool("append = { '/a' = 'x' }"), MORE, "tools.t.append", "not available"),
        ("[tools.gh]\neffect = 'write'\n", BEFORE + 1, "tools.gh", "overlays are not available"),
        ("[tools.gh]\neffect = 'read'\n[tools.gh.htpp]\n", BEFORE + 3, "tools.gh.htpp", "mean http?"),
    ],
)
def test_a_mistake_of_form_is_named_at_its_key_and_line(
    tmp_path: Path, text: str, line: int, key: str, says: str
) -> None:
    found = {problem.key: problem for problem in problems_of(tmp_path, text)}
    assert found[key].line == line
    assert says in str(found[key])


@pytest.mark.parametrize(("name", "says"), [("Orders", "a-z, 0-9"), ("status", "base tool"), ("a__undo", "endings")])
def test_a_name_that_no_tool_can_have_is_told(tmp_path: Path, name: str, says: str) -> None:
    (problem,) = problems_of(tmp_path, tool().replace("tools.t", f"tools.{name}"))
    assert (problem.key, problem.line) == (f"tools.{name}", BEFORE + 1)
    assert says in problem.message


def test_a_host_that_is_none_is_told_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "counterfoil.toml").write_text('[http]\nallow_hosts = [\n  "a.example",\n  "10.0.0.1",\n]\n')
    with pytest.raises(ConfigError) as caught:
        read_tools(tmp_path / "counterfoil.toml")
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("http.allow_hosts[1]", 4)


@pytest.mark.parametrize("headers", ["{ Authorization = 5 }", "{ X-Key = ['s3'] }"])
def test_no_message_repeats_a_header(tmp_path: Path, headers: str) -> None:
    (problem,) = problems_of(tmp_path, tool(http=f"headers = {headers}"))
    assert "got 5" not in str(problem)
    assert "s3" not in str(problem)


@pytest.mark.parametrize(
    ("text", "severity", "says"),
    [
        (tool(after=PROBE + GOOD), "warning", "could match another call"),
        (tool("settle_s = 5"), "warning", "nothing asks"),
        (tool(effect="destructive"), "note", "without probe, key or compensation"),
        (tool(http="headers = { Authorization = 'Bearer hunter2' }"), "note", "write env:NAME or file:PATH"),
        (tool(http="headers = { X-Api-Key = 'hunter2' }"), "note", "write env:NAME or file:PATH"),
    ],
)
def test_what_deserves_a_look_is_found_and_does_not_stop_a_start(
    tmp_path: Path, text: str, severity: str, says: str
) -> None:
    (found,) = findings(offered(tmp_path, text).config)
    assert found.severity == severity
    assert says in found.text
    assert "hunter2" not in found.text


def test_nothing_is_found_in_the_tools_of_the_reference(reference: Tools) -> None:
    assert findings(reference.config) == []
