"""Mistakes of HTTP tools are found before any call, each at its own key and with what is meant."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from counterfoil.registry.filling import Scope
from counterfoil.tools.http.faults import faults_of, probe_faults
from counterfoil.tools.http.hosts import Hosts
from counterfoil.tools.http.spec import HttpProbe, HttpTool, Pages, Request, Sign

HOSTS = Hosts(["orders.example"])
SCOPE = Scope(
    {"type": "object", "properties": {"order_id": {"type": "string"}, "cursor": {}}, "additionalProperties": False}
)
URL = "https://orders.example/orders/{order_id}"
POST = Request("POST", URL, json={"a": "{order_id}"})


def found(spec: HttpTool, *, is_read: bool = False, keyed: bool = True) -> dict[tuple[str | int, ...], str]:
    return {fault.path: fault.message for fault in faults_of(spec, SCOPE, HOSTS, is_read=is_read, keyed=keyed)}


def test_a_sound_tool_has_no_faults() -> None:
    request = Request("post", URL, {"X-Ref": "{call.id}", "Authorization": "env:T"}, {"q": ["{cursor}"]}, {"a": [1]})
    evidence = {"external_version": "header:ETag", "request_id": "/id"}
    assert found(HttpTool(request, frozenset({404}), key_header="Idempotency-Key", evidence=evidence)) == {}
    pages = Pages("/items", "/next", "page", 3, "cursor")
    assert found(HttpTool(Request("GET", URL), pages=pages), is_read=True) == {}


@pytest.mark.parametrize(
    ("spec", "path", "said"),
    [
        (HttpTool(Request("PSOT", URL)), ("method",), "did you mean 'POST'?"),
        (HttpTool(Request("GET", URL, json={})), ("json",), "GET has no body"),
        (HttpTool(Request("GET", URL, form={})), ("form",), "GET has no body"),
        (HttpTool(Request("POST", URL, json={}, form={})), ("form",), "not both"),
        (HttpTool(Request("POST", "https://orders.example/{ordr_id}")), ("url",), "did you mean 'order_id'?"),
        (HttpTool(Request("POST", "https://{order_id}/")), ("url",), "must be literal"),
        (HttpTool(Request("POST", "https://order.example/")), ("url",), "did you mean 'orders.example'?"),
        (HttpTool(Request("POST", "http://orders.example/")), ("url",), "https on port 443 alone"),
        (HttpTool(Request("POST", "https://a@orders.example/")), ("url",), "user or password"),
        (HttpTool(Request("POST", URL, {"X-A": "{x"})), ("headers", "X-A"), "belongs to no placeholder"),
        (HttpTool(Request("POST", URL, {"X A": "x"})), ("headers", "X A"), "no name of a header"),
        (HttpTool(Request("POST", URL, {"host": "x"})), ("headers", "host"), "the client's own"),
        (HttpTool(Request("POST", URL, {"X-A": "x\r\nX-B: y"})), ("headers", "X-A"), "on one line"),
        (
            HttpTool(Request("POST", URL, {"Authorization": "Bearer env:KEY"})),
            ("headers", "Authorization"),
            "'Bearer '",
        ),
        (
            HttpTool(Request("POST", URL, {"Authorization": "Basic file:key"})),
            ("headers", "Authorization"),
            "whole value",
        ),
        (HttpTool(Request("POST", URL, query={"a": "{x}"})), ("query", "a"), "names no argument"),
        (HttpTool(Request("POST", URL, json={"a": ["{output.x}"]})), ("json", "a", 0), "compensation"),
        (HttpTool(Request("POST", URL, form={"a": "{call.key}"})), ("form", "a"), "action_id"),
        (HttpTool(POST, refused_status=frozenset({99})), ("refused_status",), "200 to 599"),
        (HttpTool(POST, frozenset({404}), frozenset({404})), ("refused_status",), "no_result_status too"),
        (HttpTool(POST, output="a"), ("output",), "no JSON Pointer"),
        (HttpTool(POST, evidence={"etag": "/a"}), ("evidence", "etag"), "no evidence"),
        (HttpTool(POST, evidence={"request_id": "a"}), ("evidence", "request_id"), "no JSON Pointer"),
        (HttpTool(POST, evidence={"request_id": "header:"}), ("evidence", "request_id"), "no name of a header"),
        (HttpTool(POST, precondition_header="If Match"), ("precondition_header",), "no name of a header"),
        (HttpTool(POST, pages=Pages("/items")), ("pages",), "effect = 'read'"),
    ],
)
def test_a_mistake_is_shown_at_its_key(spec: HttpTool, path: tuple[str | int, ...], said: str) -> None:
    faults = found(spec)
    assert said in faults[path]
    assert len(faults) == 1


def test_a_key_is_sent_by_a_keyed_tool_alone_and_no_header_has_two_values() -> None:
    spec = HttpTool(Request("POST", URL, {"idempotency-key": "x"}), key_header="Idempotency-Key")
    assert "also in headers" in found(spec)["idempotency_header",]
    assert "keyed" in found(HttpTool(POST, key_header="Idempotency-Key"), keyed=False)["idempotency_header",]


@pytest.mark.parametrize(
    ("pages", "key"),
    [
        (Pages("items"), "items"),
        (Pages("", "next"), "next"),
        (Pages("", most=0), "most"),
        (Pages("", parameter="p"), "parameter"),
        (Pages("", argument="cursr"), "argument"),
    ],
)
def test_mistakes_of_pages_are_found(pages: Pages, key: str) -> None:
    assert list(found(HttpTool(Request("GET", URL), pages=pages), is_read=True)) == [("pages", key)]


@pytest.mark.parametrize(
    ("signs", "path"),
    [
        ({"happened": Sign()}, ("happened",)),
        ({"happened": Sign("a", {"eq": 1})}, ("happened", "path")),
        ({"absent": Sign("/a", {"exist": False})}, ("absent", "exist")),
        ({"absent": Sign("/a", {"exists": 1})}, ("absent", "exists")),
        ({"pending": Sign(status=frozenset({7}))}, ("pending", "status")),
        ({"output": "a"}, ("output",)),
    ],
)
def test_mistakes_of_a_probe_are_found(signs: Any, path: tuple[str, ...]) -> None:
    sound: dict[str, Any] = {"happened": Sign("/0", {"exists": True})}
    request = Request("GET", "https://orders.example/refunds?key={call.action_id}&of={order_id}")
    assert probe_faults(HttpProbe(request, **sound), SCOPE, HOSTS) == []
    assert [fault.path for fault in probe_faults(HttpProbe(request, **sound | signs), SCOPE, HOSTS)] == [path]


def test_nothing_of_the_http_library_is_loaded_before_a_tool_is_made_ready() -> None:
    program = (
        "import sys; from counterfoil.tools.http import faults, probe, tool; tool.Outbound(['orders.example']);"
        "sys.exit(bool({'httpx2', 'httpcore2', 'h11'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=50).returncode == 0
