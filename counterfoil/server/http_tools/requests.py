"""What can be wrong with one described request: its templates, its host, its headers and its body.

No message repeats a URL or a header's value, since either may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from ...canonical import JsonValue
from ...registry.filling import Fault, Scope, TemplateError, faults_in, holes
from ...registry.filling_url import split_template, url_faults
from ...tools.http.hosts import Hosts, UrlError, parse_url
from ...tools.http.spec import Request
from ..config.errors import KeyPath
from ..config.tool_tables import AnswerTable, RequestTable

_REFERENCE: Final = re.compile(r"(?:env:[A-Za-z_][A-Za-z0-9_]*|file:.+)")
_NO_BODY: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Requests:
    """Checks requests against the hosts that may be reached."""

    hosts: Hosts

    def faults(self, table: RequestTable, method: str, url: str, scope: Scope, at: KeyPath) -> Iterator[Fault]:
        """Every mistake of one request, at key paths below the tool."""
        yield from self._url(url, scope, (*at, "url"))
        for name, text in table.headers.items():
            if not is_reference(text):
                yield from faults_in(text, scope, (*at, "headers", name))
        yield from faults_in(table.query, scope, (*at, "query"))
        yield from faults_in(table.json_, scope, (*at, "json"))
        yield from faults_in(table.form, scope, (*at, "form"))
        yield from _body(table, method, at)
        yield from _headers(table, at)

    def _url(self, url: str, scope: Scope, at: KeyPath) -> Iterator[Fault]:
        try:
            scheme, authority, _, _ = split_template(url)
            there = parse_url(f"{scheme}://{authority}/")
        except TemplateError:
            yield Fault(at, "expected a URL such as https://HOST/PATH, its host literal and without a '#'")
        except UrlError as error:
            yield Fault(at, str(error))
        else:
            if fault := self.hosts.fault_of(there):
                yield Fault(at, fault)
            yield from url_faults(url, scope, at)


def is_reference(text: str) -> bool:
    """Whether a header's text is a secret reference."""
    return _REFERENCE.fullmatch(text) is not None


def names_call(request: Request) -> bool:
    """Whether `{call.action_id}` goes with a request."""
    headers = [text for text in request.headers.values() if not is_reference(text)]
    return any(map(names_action, (request.url, headers, request.query, request.json, request.form)))


def names_action(template: object) -> bool:
    """Whether `{call.action_id}` stands in a template of any JSON shape."""
    try:
        return any(hole.root == "call" and hole.path == ("action_id",) for hole in holes(cast("JsonValue", template)))
    except TemplateError:
        return False


def _body(table: RequestTable, method: str, at: KeyPath) -> Iterator[Fault]:
    if table.json_ is not None and table.form is not None:
        yield Fault((*at, "form"), "expected json or form, not both")
    for key, body in (("json", table.json_), ("form", table.form)):
        if body is not None and method in _NO_BODY:
            yield Fault((*at, key), f"a {method} has no body; use query, or another method")


def _headers(table: RequestTable, at: KeyPath) -> Iterator[Fault]:
    stated: list[tuple[str, KeyPath]] = [(name.lower(), ("headers", name)) for name in table.headers]
    if isinstance(table, AnswerTable):
        ours = ("idempotency_header", "precondition_header")
        stated += [(value.lower(), (key,)) for key in ours if (value := getattr(table, key)) is not None]
    seen: set[str] = set()
    for name, key in stated:
        if name in seen:
            yield Fault((*at, *key), "this header is stated twice")
        seen.add(name)
