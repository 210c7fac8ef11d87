"""Whether a request says whose call it is: the one thing that makes a probe this call's own and a key a key."""

from __future__ import annotations

from typing import cast

from ...canonical import JsonValue
from ...registry.filling import TemplateError, holes
from ...tools.http.filled import SECRET
from ...tools.http.spec import Request


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


def is_reference(text: str) -> bool:
    """Whether a header's text is a secret reference, and so no template."""
    return SECRET.fullmatch(text) is not None
