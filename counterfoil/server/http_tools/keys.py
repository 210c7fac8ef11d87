"""Whether a request says whose call it is: the one thing that makes a probe this call's own and a key a key."""

from __future__ import annotations

from typing import Final, cast

from ...canonical import JsonValue
from ...registry.filling import TemplateError, holes
from ...tools.http.message import SECRET
from ...tools.http.spec import HttpTool, Request

CALLBACK: Final = ("callback",)


def sends_key(spec: HttpTool) -> bool:
    """Whether the call's key goes with a tool's request, in a header of its own or anywhere else."""
    return spec.key_header is not None or names_call(spec.request)


def names_call(request: Request) -> bool:
    """Whether something that is this call's alone goes with a request."""
    headers = [text for text in request.headers.values() if not is_reference(text)]
    return any(map(names_action, (request.url, headers, request.query, request.json, request.form)))


def names_action(template: object) -> bool:
    """Whether `{call.action_id}`, or `{call.id}`, stands in a template of any JSON shape."""
    try:
        return any(hole.root == "call" and hole.path != CALLBACK for hole in holes(cast("JsonValue", template)))
    except TemplateError:
        return False


def names_callback(template: object) -> bool:
    """Whether `{call.callback}` stands in a template of any JSON shape."""
    try:
        return any(hole.root == "call" and hole.path == CALLBACK for hole in holes(cast("JsonValue", template)))
    except TemplateError:
        return False


def is_reference(text: str) -> bool:
    """Whether a header's text is a secret reference, and so no template."""
    return SECRET.fullmatch(text) is not None
