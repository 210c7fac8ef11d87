"""Text that somebody else wrote, made safe to show to a person who decides. Pure.

What a terminal would obey, hide or reorder is written out as `<U+202E>`, so that two different proposals can never
look the same.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Final

from .canonical import JsonValue

_OBEYED_OR_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK_LETTERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIATION_SELECTORS: Final = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))


def visible(text: str) -> str:
    """The text with each control, bidirectional, invisible or unassigned character written as its code point."""
    return "".join(character if _is_plain(character) else f"<U+{ord(character):04X}>" for character in text)


def _is_plain(character: str) -> bool:
    if " " <= character <= "~":
        return True
    category = unicodedata.category(character)
    return not (
        category in _OBEYED_OR_UNSEEN
        or category == "Zs"
        or character in _BLANK_LETTERS
        or any(ord(character) in selectors for selectors in _VARIATION_SELECTORS)
    )


def visible_json(value: object) -> str:
    """A JSON value over several lines; only the line breaks and the indentation are ours."""
    text = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    return "\n".join(visible(line) for line in text.split("\n"))


def masked(arguments: JsonValue, pointers: tuple[str, ...]) -> JsonValue:
    """The arguments with each sensitive field replaced by its length; a pointer that leads nowhere changes nothing."""
    for pointer in pointers:
        arguments = _masked(arguments, [_unescaped(part) for part in pointer.split("/")[1:]])
    return arguments


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _masked(value: JsonValue, path: list[str]) -> JsonValue:
    if not path:
        return _length(value)
    head, rest = path[0], path[1:]
    if isinstance(value, dict) and head in value:
        return {name: _masked(item, rest) if name == head else item for name, item in value.items()}
    if isinstance(value, list) and head.isdigit() and int(head) < len(value):
        return [_masked(item, rest) if n == int(head) else item for n, item in enumerate(value)]
    return value


def _length(value: JsonValue) -> str:
    hidden = value.get("length") if isinstance(value, dict) and value.get("redacted") is True else None
    if hidden is not None:  # it is hidden already, and says how long it was
        return f"({hidden} characters, sensitive)"
    if isinstance(value, str):
        return f"({len(value)} characters, sensitive)"
    return f"({len(json.dumps(value))} characters of JSON, sensitive)"
