"""A URL's template: a value is one percent-encoded segment of the path, or one value of the query, and never more.

Scheme, host, port and user are literal. What no encoding makes safe is refused: an absent or empty segment, and `.` or
`..` as a segment or between slashes inside a value, since programs on the way decode a path and then walk it. No
message repeats a URL: its query may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, unquote

from .filling import Fault, FillError, Hole, KeyPath, Piece, Scope, TemplateError, Values, fault_of, parse, text_at

_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?", re.DOTALL)
_STEPS = re.compile(r"[/\\]")
_IN_PATH: Final = "%:@!$&'()*+,;=~"
PATH_PART: Final = "text for a part of the URL's path"
_IN_QUERY: Final = "%:@!$'()*+,;=~/?"


def fill_url(template: str, values: Values) -> str:
    """The URL, in ASCII; a parameter of its query whose value is absent is dropped.

    Raises:
        FillError: a value that would change the path.
        TemplateError: it is no URL, or a brace begins no placeholder.
    """
    scheme, authority, path, query = split_template(template)
    filled = "/".join(_segment(segment, values) for segment in path.split("/")) or "/"
    pairs = [pair for part in query.split("&") if (pair := _pair(part, values)) is not None] if query else []
    return f"{scheme}://{authority}{filled}" + ("?" + "&".join(pairs) if pairs else "")


def split_template(template: str) -> tuple[str, str, str, str]:
    """Scheme, authority, path and query (without its `?`) of a URL's template; no placeholder hides a separator.

    Raises:
        TemplateError: it is no URL with scheme and host, or has a fragment.
    """
    parts = _PARTS.fullmatch(template)
    if parts is None or not parts[2]:
        raise TemplateError("it is no URL; write https://host/path, without a '#'")
    if "{" in parts[2] or "}" in parts[2]:
        raise TemplateError("a placeholder stands in user, host or port, which must be literal; use it after the host")
    return parts[1].lower(), parts[2], parts[3], (parts[4] or "")[1:]


def url_faults(template: str, scope: Scope, path: KeyPath) -> Iterator[Fault]:
    """Every mistake of a URL's template; whether its host may be reached is not asked here."""
    try:
        _, _, steps, query = split_template(template)
        pieces = [piece for part in (*steps.split("/"), *query.split("&")) for piece in parse(part)]
    except TemplateError as error:
        yield Fault(path, str(error))
        return
    yield from (Fault(path, said) for one in pieces if isinstance(one, Hole) and (said := fault_of(one, scope)))
    if any(unquote(part) in {".", ".."} for part in steps.split("/")):
        yield Fault(path, "the path has a segment '.' or '..'; write the path that is meant")


def encoded(text: str, hole_path: str = "") -> str:
    """Text as one value: everything but letters, digits and `-._~` percent-encoded.

    Raises:
        FillError: it has no UTF-8 form.
    """
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise FillError(hole_path, "Unicode text", "a lone surrogate") from None


def _segment(template: str, values: Values) -> str:
    pieces = parse(template)
    written = "".join(_in_path(piece, values) for piece in pieces)
    first = next((piece for piece in pieces if isinstance(piece, Hole)), None)
    if first is None:
        return written
    if not written:
        raise FillError(first.pointer, PATH_PART, "an empty text, which would make it another path")
    if any(step in {".", ".."} for step in _STEPS.split(unquote(written, errors="replace"))):
        raise FillError(first.pointer, PATH_PART, "'.' or '..', which would make it another path")
    return written


def _in_path(piece: Piece, values: Values) -> str:
    if isinstance(piece, str):
        return quote(piece, safe=_IN_PATH)
    text = text_at(piece, values)
    if text is None:
        raise FillError(piece.pointer, f"{PATH_PART}, so this call needs it", "nothing")
    return encoded(text, piece.pointer)


def _pair(template: str, values: Values) -> str | None:
    texts: list[str] = []
    for piece in parse(template):
        if isinstance(piece, str):
            texts.append(quote(piece, safe=_IN_QUERY))
            continue
        text = text_at(piece, values)
        if text is None:
            return None
        texts.append(encoded(text, piece.pointer))
    return "".join(texts)
