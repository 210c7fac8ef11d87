"""From a request's templates and one call to the message that is sent. Pure: secrets are handed in as a function.

Whatever a value does, it stays one value: one segment, one parameter, one header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import urlencode

from ...canonical import JsonValue, canonical
from ...registry.filling import ABSENT, FillError, Hole, Values, as_text, fill, fill_text, holes
from ...registry.filling_url import encoded, fill_url
from .hosts import UrlError, parse_url
from .outbound import Message
from .spec import Request

SECRET: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
"""A header that is a reference to a secret, and no template."""

IN_HEADER: Final = "visible ASCII on one line without spaces around it, since it is sent as a header"
_VALUE = re.compile(r"[!-~](?:[ -~\t]*[!-~])?|")

Reveal = Callable[[str], str]


def references(request: Request) -> list[str]:
    """The secrets that a request needs."""
    return [value for value in request.headers.values() if SECRET.fullmatch(value)]


def holes_of(request: Request) -> Iterator[Hole]:
    """Every placeholder of a request."""
    parts: list[JsonValue] = [request.url, dict(request.query), request.json, dict(request.form or {})]
    yield from holes(parts + [value for value in request.headers.values() if not SECRET.fullmatch(value)])


def message_of(request: Request, values: Values, reveal: Reveal) -> Message:
    """The message, with its secrets in place.

    Raises:
        FillError: a value that cannot stand where it would.
        SecretValueError: a secret that cannot be sent as a header.
    """
    text = fill_url(request.url, values)
    query = "&".join(f"{encoded(name)}={encoded(value)}" for name, value in _pairs(request.query, values))
    try:
        url = parse_url(text + ("&" if "?" in text else "?") * bool(query) + query)
    except UrlError as error:
        raise FillError("", "arguments that make a URL which can be sent", f"others ({error})") from None
    headers, secrets = dict(_headers(request, values)), set[str]()
    for name, value in request.headers.items():
        if SECRET.fullmatch(value):
            headers[name] = sendable(value, reveal(value))
            secrets.add(name.lower())
    kind, body = _body(request, values)
    if kind and "content-type" not in {name.lower() for name in headers}:
        headers["Content-Type"] = kind
    return Message(request.method.upper(), url, headers, body, frozenset(secrets))


class SecretValueError(ValueError):
    """A secret whose value cannot be sent; the message has its reference alone."""


def sendable(reference: str, value: str) -> str:
    """A secret's value as a header's.

    Raises:
        SecretValueError: it has characters that no header can hold.
    """
    if not _VALUE.fullmatch(value):
        raise SecretValueError(f"{reference}: its value has characters that a header cannot hold, or begins or ends "
                               "with a space; it must be visible ASCII on one line")  # fmt: skip
    return value


def header_value(value: str, path: str) -> str:
    """A value as a header's.

    Raises:
        FillError: it has characters that no header can hold.
    """
    if not _VALUE.fullmatch(value):
        raise FillError(path, IN_HEADER, "text that no header can hold")
    return value


def _headers(request: Request, values: Values) -> Iterator[tuple[str, str]]:
    for name, template in request.headers.items():
        if SECRET.fullmatch(template):
            continue
        text = fill_text(template, values)
        if text is not None:
            yield name, header_value(text, next((hole.pointer for hole in holes(template)), ""))


def _pairs(members: Mapping[str, JsonValue], values: Values) -> Iterator[tuple[str, str]]:
    """Names and values of a query or a form: a list repeats its name, null counts as absent."""
    filled = fill(dict(members), values)
    for name, value in filled.items() if isinstance(filled, dict) else ():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield name, as_text(item)


def _body(request: Request, values: Values) -> tuple[str, bytes]:
    if request.form is not None:
        pairs = list(_pairs(request.form, values))
        try:
            return "application/x-www-form-urlencoded", urlencode(pairs).encode("ascii")
        except UnicodeEncodeError:
            raise FillError("", "Unicode text", "a lone surrogate") from None
    if request.json is None:
        return "", b""
    filled = fill(request.json, values)
    if filled is ABSENT:
        return "", b""
    return "application/json", canonical(filled)
