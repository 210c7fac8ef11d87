"""Every mistake in a tool described in TOML is told at its line with the nearest name, all of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from counterfoil.server.app import read_tools
from counterfoil.server.config import ConfigError
from counterfoil.server.http_tools.findings import findings
from tests.kit.described import BEFORE, offered, problems_of

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
LOOK: Final = """[tools.look]
description = "Look."
effect = "read"
input = { sku = "string" }
http = { method = "GET", url = "https://orders.example/l/{sku}" }
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
        (
            tool("preview = 'look'", after=LOOK),
            MORE,
            "tools.t.preview",
            "look needs sku, which this tool does not take",
        ),
        (
            tool("preview = { tool = 'look', arguments = { sku = '{oder_id}' } }", after=LOOK),
            MORE,
            "tools.t.preview.arguments.sku",
            "did you mean 'order_id'",
        ),
        (
            tool("preview = { tool = 'look', arguments = { sku = '{output.a}' } }", after=LOOK),
            MORE,
            "tools.t.preview.arguments.sku",
            "before there is an output",
        ),
        (
            tool("preview = { tool = 'look', arguments = { sky = '{order_id}', sku = 'a' } }", after=LOOK),
            MORE,
            "tools.t.preview.arguments.sky",
            "did you mean sku?",
        ),
        (tool("preview = { toll = 'look' }", after=LOOK), MORE, "tools.t.preview.toll", "tool"),
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
        (tool("output = { a = 'strng' }"), MORE, "tools.t.output.a", "did you mean 'string'"),
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


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        ("[python]\nmodules = [\n  'no_such_module',\n]\n", BEFORE + 3, "python.modules[0]", "cannot be imported"),
        (
            "[[policy]]\nid = 'r'\nverdict = 'deny'\nwhen = { '/a.b' = { matches = '(a)\\1' } }\n",
            BEFORE + 4,
            "policy[0].when./a.b",
            "linear time",
        ),
    ],
)
def test_a_mistake_outside_of_the_tools_has_its_line_too(
    tmp_path: Path, text: str, line: int, key: str, says: str
) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert (problem.key, problem.line) == (key, line)
    assert says in problem.message


@pytest.mark.parametrize("headers", ["{ Authorization = 5 }", "{ X-Key = ['s3'] }"])
def test_no_message_repeats_a_header(tmp_path: Path, headers: str) -> None:
    (problem,) = problems_of(tmp_path, tool(http=f"headers = {headers}"))
    assert "got 5" not in str(problem)
    assert "s3" not in str(problem)


@pytest.mark.parametrize(
    ("text", "severity", "says"),
    [
        (tool(after=PROBE + GOOD), "warning", "could match another call"),
        (tool(after=PROBE + "query = { key = '{call.action_id}' }\n" + GOOD), "warning", "can find no call"),
        (tool("settle_s = 5"), "warning", "nothing asks"),
        (tool(effect="destructive"), "note", "without probe, key or compensation"),
    ],
)
def test_what_deserves_a_look_is_found_and_does_not_stop_a_start(
    tmp_path: Path, text: str, severity: str, says: str
) -> None:
    (found,) = findings(offered(tmp_path, text).config)
    assert found.severity == severity
    assert says in found.text
    assert "hunter2" not in found.text
