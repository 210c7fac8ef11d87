"""Where a call's secrets lie: at the pointers that a contract marks, and below names that tell of a secret.

It finds them in a call's own arguments, so that texts about the call can be freed of them. It hides nothing itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ..canonical import JsonValue, canonical
from ..secret_names import is_secret_name
from .filling import ABSENT, member

Place = tuple[str, ...]

LEAST: Final = 4
"""Shorter values are in too many words to be hidden wherever they occur."""
_WORD: Final = re.compile(r"[\w-]{2,64}")


def places(pointers: Iterable[str]) -> tuple[Place, ...]:
    """Marked JSON Pointers taken apart; one without its first slash is a member's bare name."""
    return tuple(_tokens(pointer) for pointer in pointers)


def is_secret_place(path: Sequence[str | int], marked: Iterable[Place]) -> bool:
    """Whether a value is hidden where it stands: at a marked place (`*` is any one step), by a name, or below one."""
    if any(isinstance(step, str) and is_secret_name(step) for step in path):
        return True
    return any(len(place) <= len(path) and _along(place, path) for place in marked)


def may_quote_a_secret(text: str, path: Sequence[str | int], marked: Iterable[Place]) -> bool:
    """Whether a text that stands for a whole object (its JSON, say) may hold what is hidden inside that object."""
    if any(len(path) < len(place) and _along(place, path) for place in marked):
        return True
    return any(is_secret_name(word[0]) for word in _WORD.finditer(text[:1024]))


def secret_values(value: JsonValue, marked: Sequence[Place]) -> Iterator[str]:
    """The text of each hidden string and number in a call's arguments."""
    yield from _below(value, (), marked, hidden=is_secret_place((), marked))


def secret_texts(arguments: JsonValue, pointers: Iterable[str]) -> tuple[str, ...]:
    """Hidden values of at least `LEAST` characters, also as JSON and Python write them; the longest first."""
    found = {text for text in secret_values(arguments, places(pointers)) if len(text) >= LEAST}
    if not found:
        return ()
    written = {form(text)[1:-1] for text in found for form in (json.dumps, repr, _unescaped)}
    return tuple(sorted(found | written, key=lambda text: (-len(text), text)))


def names_secret(arguments: JsonValue, dotted: str, marked: Sequence[Place]) -> bool:
    """Whether what a template names, as in `login.user`, is a secret or holds one."""
    path = tuple(dotted.split("."))
    found = member(arguments, path)
    value = None if found is ABSENT else found
    hidden = is_secret_place(path, marked)
    return hidden or next(_below(value, path, marked, hidden=False), None) is not None


def _below(value: JsonValue, path: Place, marked: Sequence[Place], *, hidden: bool) -> Iterator[str]:
    if isinstance(value, dict | list):
        steps = value.items() if isinstance(value, dict) else ((str(n), item) for n, item in enumerate(value))
        named = isinstance(value, dict)
        for step, member in steps:
            here = (*path, step)
            by_name = named and is_secret_name(step)
            by_mark = bool(marked) and any(len(place) == len(here) and _along(place, here) for place in marked)
            if not (hidden or by_name or by_mark or isinstance(member, dict | list)):
                continue
            yield from _below(member, here, marked, hidden=hidden or by_name or by_mark)
    elif hidden and value is not None and not isinstance(value, bool):
        yield value if isinstance(value, str) else canonical(value).decode()


def _along(place: Place, path: Sequence[str | int]) -> bool:
    return all(step in ("*", str(taken)) for step, taken in zip(place, path, strict=False))


def _unescaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _tokens(pointer: str) -> Place:
    if pointer == "":
        return ()
    return tuple(name.replace("~1", "/").replace("~0", "~") for name in pointer.removeprefix("/").split("/"))
