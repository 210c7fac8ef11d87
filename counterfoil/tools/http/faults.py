"""Every mistake of an HTTP tool or probe that can be seen before a call, with the key that it stands at.

Paths are those of the configuration, beneath `[tools.NAME.http]` or `[tools.NAME.probe]`: `("json", "amount")`. Pure,
and without the library that sends, so that `check` starts fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ...registry.filling import Fault, KeyPath, Scope, TemplateError, faults_in
from ...registry.filling_url import split_template, url_faults
from ...registry.nearest import hint
from ...registry.predicates import PredicateError, parse_pointer, predicate
from ...registry.schema_paths import has_path
from .hosts import Hosts, UrlError, parse_url
from .meaning import HEADER
from .message import SECRET
from .spec import HttpProbe, HttpTool, Pages, Request, Sign

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
EVIDENCE: Final = ("request_id", "external_reference", "external_version")
OWN_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te", "trailer", "upgrade"}
)
PAGES_MAX: Final = 1_000

_WITHOUT_BODY = frozenset({"GET", "HEAD"})
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NO_HEADER = re.compile(r"[^ -~\t]")
_INNER_SECRET = re.compile(r"\s*(?:\S+\s+)?(?:env:[A-Za-z_][A-Za-z0-9_]*|file:\S+)\s*")
_STATUSES = range(200, 600)


def faults_of(spec: HttpTool, scope: Scope, hosts: Hosts, *, is_read: bool, keyed: bool) -> list[Fault]:
    """Every mistake of a tool.

    Args:
        spec: the tool.
        scope: what its placeholders may name.
        hosts: what may be reached.
        is_read: whether its effect is `read`.
        keyed: whether its contract is `keyed`.
    """
    return [
        *_request(spec.request, scope, hosts),
        *_statuses(spec),
        *_header_of(("idempotency_header",), spec.key_header, spec.request),
        *_header_of(("precondition_header",), spec.precondition_header, spec.request),
        *_key(spec, keyed=keyed),
        *_pointer(("output",), spec.output),
        *_evidence(spec.evidence),
        *(_pages(spec.pages, scope, is_read=is_read) if spec.pages is not None else ()),
    ]


def probe_faults(spec: HttpProbe, scope: Scope, hosts: Hosts) -> list[Fault]:
    """Every mistake of a probe; `scope` is that of the tool that it asks about."""
    return [
        *_request(spec.request, scope, hosts),
        *(fault for key in ("happened", "pending", "absent") for fault in _sign((key,), getattr(spec, key))),
        *_pointer(("output",), spec.output),
        *_evidence(spec.evidence),
    ]


def _request(request: Request, scope: Scope, hosts: Hosts) -> Iterator[Fault]:
    method = request.method.upper()
    if method not in METHODS:
        may = ", ".join(METHODS)
        yield Fault(("method",), f"{request.method!r} is no method; it may be {may}{hint(method, METHODS)}")
    for key, given in (("json", request.json), ("form", request.form)):
        if given is not None and method in _WITHOUT_BODY:
            yield Fault((key,), f"{method} has no body; use query, or method POST")
    if request.json is not None and request.form is not None:
        yield Fault(("form",), "a request has json or form, not both")
    yield from url_faults(request.url, scope, ("url",))
    yield from _host(request.url, hosts)
    yield from _headers(request.headers, scope)
    for key, template in (("query", request.query), ("json", request.json), ("form", request.form)):
        yield from faults_in(template, scope, (key,))


def _host(url: str, hosts: Hosts) -> Iterator[Fault]:
    try:
        scheme, authority, *_ = split_template(url)
    except TemplateError:
        return
    try:
        fault = hosts.fault_of(parse_url(f"{scheme}://{authority}/"))
    except UrlError as error:
        fault = str(error)
    if fault:
        yield Fault(("url",), fault)


def _headers(headers: Mapping[str, str], scope: Scope) -> Iterator[Fault]:
    for name, template in headers.items():
        path = ("headers", name)
        yield from _header(path, name)
        if SECRET.fullmatch(template):
            continue
        if _NO_HEADER.search(template):
            yield Fault(path, "a header is visible ASCII on one line; this one has other characters")
        elif _INNER_SECRET.fullmatch(template):
            yield Fault(path, "a secret reference is the whole value of a header, and would be sent as it stands here; "
                              "put all of the value into the secret, 'Bearer ' included")  # fmt: skip
        yield from faults_in(template, scope, path)


def _header(path: KeyPath, name: str) -> Iterator[Fault]:
    if not _HEADER.fullmatch(name):
        yield Fault(path, f"{name!r} is no name of a header")
    elif name.lower() in OWN_HEADERS:
        yield Fault(path, f"the header {name} is the client's own; leave it out")


def _header_of(path: KeyPath, name: str | None, request: Request) -> Iterator[Fault]:
    if name is None:
        return
    yield from _header(path, name)
    if name.lower() in {known.lower() for known in request.headers}:
        yield Fault(path, f"the header {name} is also in headers; it can have one value")


def _key(spec: HttpTool, *, keyed: bool) -> Iterator[Fault]:
    if spec.key_header is not None and not keyed:
        yield Fault(
            ("idempotency_header",), "only a tool with idempotency = 'keyed' sends a key; state that, or leave it out"
        )


def _statuses(spec: HttpTool) -> Iterator[Fault]:
    seen: dict[int, str] = {}
    for key in ("no_result_status", "refused_status", "unknown_status", "accepted_status"):
        for status in sorted(getattr(spec, key)):
            if status not in _STATUSES:
                yield Fault((key,), f"{status} is no status of an answer; expected 200 to 599")
            if status in seen:
                yield Fault((key,), f"{status} is in {seen[status]} too; it can mean one thing")
            seen.setdefault(status, key)


def _pointer(path: KeyPath, pointer: str) -> Iterator[Fault]:
    try:
        parse_pointer(pointer)
    except PredicateError as error:
        yield Fault(path, str(error))


def _evidence(evidence: Mapping[str, str]) -> Iterator[Fault]:
    for name, place in evidence.items():
        if name not in EVIDENCE:
            may = ", ".join(EVIDENCE)
            yield Fault(("evidence", name), f"{name!r} is no evidence; it may be {may}{hint(name, EVIDENCE)}")
        if place.startswith(HEADER):
            yield from _header_name(("evidence", name), place.removeprefix(HEADER))
        else:
            yield from _pointer(("evidence", name), place)


def _header_name(path: KeyPath, name: str) -> Iterator[Fault]:
    if not _HEADER.fullmatch(name):
        yield Fault(path, f"{name!r} is no name of a header; write 'header:ETag' or a pointer as '/etag'")


def _pages(pages: Pages, scope: Scope, *, is_read: bool) -> Iterator[Fault]:
    if not is_read:
        yield Fault(("pages",), "only a tool with effect = 'read' has pages")
    yield from _pointer(("pages", "items"), pages.items)
    yield from _pointer(("pages", "next"), pages.next)
    if not 1 <= pages.most <= PAGES_MAX:
        yield Fault(("pages", "most"), f"{pages.most} pages; expected 1 to {PAGES_MAX}")
    if pages.parameter and not pages.next:
        yield Fault(("pages", "parameter"), "there is no cursor to send: state next, the pointer to it")
    if pages.argument and not has_path(scope.input_schema, (pages.argument,)):
        properties = scope.input_schema.get("properties")
        near = hint(pages.argument, properties if isinstance(properties, dict) else ())
        yield Fault(("pages", "argument"), f"{pages.argument!r} is no argument of this tool{near}")


def _sign(path: KeyPath, sign: Sign | None) -> Iterator[Fault]:
    if sign is None:
        return
    if not sign.tests and not sign.status:
        yield Fault(path, "it tests nothing; give it a test such as exists = true, or a status")
    yield from _pointer((*path, "path"), sign.path)
    for status in sorted(sign.status - set(_STATUSES)):
        yield Fault((*path, "status"), f"{status} is no status of an answer; expected 200 to 599")
    for operator, operand in sign.tests.items():
        try:
            predicate("", operator, operand)
        except PredicateError as error:
            yield Fault((*path, operator), str(error))
