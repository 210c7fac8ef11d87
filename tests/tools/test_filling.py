"""The one template dialect: types are kept, what is absent drops its member, and no value becomes more than a value."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from counterfoil.canonical import JsonObject
from counterfoil.registry.filling import (
    ABSENT,
    FillError,
    Scope,
    TemplateError,
    Values,
    faults_in,
    fill,
    fill_text,
    parse,
)
from counterfoil.registry.filling_url import fill_url, url_faults
from counterfoil.registry.secret_places import names_secret, places
from counterfoil.registry.template import render_key

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "amount": {"type": "number"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False},
    },
    "additionalProperties": False,
}


def values(output: Any = ABSENT, **arguments: Any) -> Values:
    return Values(arguments, "call_1", "act_1", output)


@pytest.mark.parametrize("value", [1, 1.5, True, None, "x", [1, {"a": "{b}"}], {"a": None}])
def test_a_whole_template_keeps_its_values_type(value: Any) -> None:
    assert fill({"a": "{x}", "b": "{arguments.x}"}, values(x=value)) == {"a": value, "b": value}


@pytest.mark.parametrize(("value", "text"), [("a b", "a b"), (10.0, "10"), (True, "true"), ({"b": 1}, '{"b":1}')])
def test_inside_a_text_strings_are_as_they_are_and_others_canonical(value: Any, text: str) -> None:
    assert fill("<{x}>", values(x=value)) == f"<{text}>"


def test_an_absent_value_drops_its_member_or_item_and_nothing_else() -> None:
    template: Any = {"a": "{x}", "b": ["{x}", "ref {x}", "{y}"], "c": {"d": "{x.deep}"}}
    assert fill(template, values(y=1)) == {"b": [1], "c": {}}


def test_null_is_a_value_of_its_own_but_has_no_text() -> None:
    assert fill({"a": "{x}", "b": "ref {x}"}, values(x=None)) == {"a": None}


def test_members_of_objects_and_items_of_lists_can_be_named() -> None:
    assert fill("{output.refunds.1.id}/{a.b}", values({"refunds": [{}, {"id": 7}]}, a={"b": "c"})) == "7/c"
    assert fill("{a.01}", values(a=[1, 2])) is ABSENT


def test_the_call_itself_can_be_named() -> None:
    assert fill(["{call.action_id}", "ref {call.id}"], values()) == ["act_1", "ref call_1"]


def test_an_output_is_absent_where_there_is_none() -> None:
    assert fill({"a": "{output}", "b": "{output.x}"}, values()) == {}


@given(st.text())
def test_a_value_is_never_read_as_a_template_again(text: str) -> None:
    planted = "{other}{{" + text
    assert fill("<{x}>", values(x=planted, other="s")) == f"<{planted}>"


def test_doubled_braces_are_braces() -> None:
    assert fill_text("{{x}} {{{x}}}", values(x=1)) == "{x} {1}"


@pytest.mark.parametrize("template", ["{", "}", "{x", "x}", "{}", "{ x }", "{x}}", "{{x}", "{x..y}", "{1}"])
def test_a_lone_brace_is_refused(template: str) -> None:
    with pytest.raises(TemplateError, match="belongs to no placeholder"):
        parse(template)


def test_resource_templates_name_members_in_the_same_way() -> None:
    assert render_key("order:{a.b}/{c}", {"a": {"b": 1}, "c": "x/y"}) == "order:1/x%2Fy"


def test_a_secret_item_of_a_list_is_known_as_one_where_a_template_names_it() -> None:
    arguments: JsonObject = {"pins": ["1234", "5678"], "lines": ["a"]}
    assert render_key("order:{pins.0}", arguments) == "order:1234"
    assert names_secret(arguments, "pins.0", places(["/pins/*"]))
    assert not names_secret(arguments, "lines.0", places(["/pins/*"]))


BASE = "https://orders.example/orders"


@given(st.text())
def test_any_text_stays_one_segment_and_decodes_to_itself(text: str) -> None:
    assume(not any(step in {"", ".", ".."} for step in text.replace("\\", "/").split("/")))
    url = fill_url(BASE + "/{x}/refunds?key={x}&y=1", values(x=text))
    parts = urlsplit(url)
    assert url.isascii()
    assert parts.netloc == "orders.example"
    assert [unquote(step, errors="strict") for step in parts.path.split("/")] == ["", "orders", text, "refunds"]
    assert parse_qsl(parts.query, keep_blank_values=True) == [("key", text), ("y", "1")]
    assert parts.fragment == ""


@pytest.mark.parametrize("text", ["", ".", "..", "../admin", "a/../b", "a/./b", "..\\admin", "a/..", "\ud800"])
def test_what_could_change_the_path_is_refused_with_its_argument(text: str) -> None:
    with pytest.raises(FillError) as refused:
        fill_url(BASE + "/{arguments.x}", values(x=text))
    assert refused.value.problem.path == "/x"


def test_dots_that_only_become_a_step_together_are_refused_too() -> None:
    for template in ("/.{x}", "/{x}{x}", "/%2e{x}", "/{x}%2E"):
        with pytest.raises(FillError):
            fill_url(BASE + template, values(x="."))


def test_an_absent_value_in_the_path_is_refused_and_in_the_query_drops_its_parameter() -> None:
    with pytest.raises(FillError, match="so this call needs it"):
        fill_url(BASE + "/{x}", values(x=None))
    assert fill_url(BASE + "?a={x}&b=1&c=-{x}", values()) == BASE + "?b=1"
    assert fill_url(BASE + "?a={x}", values()) == BASE


def test_literal_text_of_a_url_is_encoded_but_never_twice() -> None:
    assert fill_url("https://a.example/ä b/%2F?q=ä%20", values()) == "https://a.example/%C3%A4%20b/%2F?q=%C3%A4%20"


@pytest.mark.parametrize(
    "url",
    [
        "https://{x}/",
        "https://a.example:{x}/",
        "https://{x}@a.example/",
        "{x}://a.example/",
        "{x}",
        "/orders",
        "https://a.example/#x",
        "https://a.example/../x",
        "https://a.example/%2e%2E/x",
        "https://a.example/{",
    ],
)
def test_a_mistaken_url_is_found_before_any_call(url: str) -> None:
    assert list(url_faults(url, Scope({"properties": {"x": {}}}), ("url",)))


def test_mistakes_are_shown_with_their_place_and_the_nearest_name() -> None:
    template = {"a": ["{ordr_id}"], "b": {"c": "{x}"}, "d": "{address.town}", "e": "{output.y}", "f": "{call.key}"}
    found = {fault.path: fault.message for fault in faults_in(template, Scope(SCHEMA), ("json",))}
    assert found.keys() == {("json", "a", 0), ("json", "b", "c"), ("json", "d"), ("json", "e"), ("json", "f")}
    assert "did you mean 'order_id'?" in found["json", "a", 0]
    assert "it has address, amount, order_id" in found["json", "b", "c"]
    assert "compensation" in found["json", "e"]
    assert "action_id" in found["json", "f"]


def test_a_compensation_may_name_the_output_and_what_fits_has_no_fault() -> None:
    template = ["{output.y}", "{output}", "{arguments.address.city}", "{amount}", "{call.action_id}", "{{x}}"]
    assert list(faults_in(template, Scope(SCHEMA, compensation=True))) == []
