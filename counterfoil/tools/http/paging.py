"""The pages of a list, put together: which page is next, what has been read, and the cursor to go on from. Pure.

A cursor that is handed to the caller is a value or a query, never a URL: whoever hands it back chooses no other path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol
from urllib.parse import parse_qsl

from ...canonical import JsonObject, JsonValue
from ...registry.filling import FillError, as_text
from ...registry.filling_url import encoded
from ...registry.predicates import look_up, parse_pointer
from .body import Content
from .hosts import Url, UrlError
from .outbound import Message, Reply, moved
from .spec import Pages

_LINK = re.compile(r'<([^<>]*)>((?:\s*;\s*[^\s;,=]+(?:\s*=\s*(?:"[^"]*"|[^\s;,"]+))?)*)')
_NEXT = re.compile(r';\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next)\s*(?:;|$)', re.IGNORECASE)
_QUERY = re.compile(r"[!-~]{1,4000}")


class PageError(ValueError):
    """A page that cannot be read or followed; the message goes on from "page 2:"."""


class Follows(Protocol):
    """Takes a URL that the far side named."""

    def next_url(self, base: Url, reference: str) -> Url:
        """The URL, once it is known that it may be reached."""
        ...


class Paging:
    """The pages of one read.

    Raises:
        FillError: the argument to go on from is no cursor.
    """

    def __init__(self, pages: Pages, message: Message, arguments: JsonObject) -> None:
        self._pages = pages
        self._message = message
        self._items: list[JsonValue] = []
        self._next: JsonValue = None
        self.count = 0
        cursor = arguments.get(pages.argument) if pages.argument else None
        self.first = message if cursor is None else self._from(cursor)

    def take(self, content: Content, reply: Reply, follows: Follows) -> Message | None:
        """One page; the message of the next one, None if there is none or enough have been read.

        Raises:
            PageError: it has no list, or its next page may not be read.
        """
        self.count += 1
        found, items = look_up(content.value, parse_pointer(self._pages.items))
        if not content.is_json or not found or not isinstance(items, list):
            raise PageError(f"expected a list at {self._pages.items or 'the whole body'}")
        self._items += items
        if self._pages.next and self._pages.parameter:
            return self._by_cursor(content.value)
        return self._by_url(content.value, reply, follows)

    def output(self) -> JsonObject:
        """What has been read, and the cursor to go on from; null at the end."""
        return {"items": self._items, "next": self._next}

    def _by_cursor(self, body: JsonValue) -> Message | None:
        _, cursor = look_up(body, parse_pointer(self._pages.next))
        known = isinstance(cursor, str | int) and not isinstance(cursor, bool) and cursor != ""
        self._next = cursor if known else None
        return self._from(cursor) if known and self.count < self._pages.most else None

    def _by_url(self, body: JsonValue, reply: Reply, follows: Follows) -> Message | None:
        reference: JsonValue = _linked(reply.headers)
        if self._pages.next:
            _, reference = look_up(body, parse_pointer(self._pages.next))
        if not isinstance(reference, str) or not reference:
            self._next = None
            return None
        try:
            url = follows.next_url(reply.url, reference)
        except UrlError as error:
            raise PageError(f"its next page is not read: {error}") from None
        self._next = url.target.partition("?")[2] or None
        return moved(self._message, url, keep=True) if self.count < self._pages.most else None

    def _from(self, cursor: JsonValue) -> Message:
        """The tool's own request, at a cursor; where pages are known by URL the cursor is its whole query."""
        path, _, query = self._message.url.target.partition("?")
        where = f"/{self._pages.argument}"
        if self._pages.next and self._pages.parameter:
            name = encoded(self._pages.parameter)
            kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] != name]
            query = "&".join([*kept, f"{name}={encoded(as_text(cursor), where)}"])
        elif not isinstance(cursor, str) or not _QUERY.fullmatch(cursor) or "#" in cursor or not parse_qsl(cursor):
            raise FillError(where, "the text that an earlier answer gave as 'next'", "another one")
        else:
            query = cursor
        url = replace(self._message.url, target=f"{path}?{query}")
        return replace(self._message, url=url)


def _linked(headers: Mapping[str, str]) -> str | None:
    """The URL of `rel="next"` in a Link header (RFC 8288)."""
    links = _LINK.findall(headers.get("link", ""))
    return next((url for url, parameters in links if _NEXT.search(parameters)), None)
