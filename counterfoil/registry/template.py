"""Keys made from arguments: `{x}` and `{arguments.x}` in a template are replaced by values, the rest is literal.

Elsewhere a whole template keeps its value's type; here a value becomes text: strings as they are, others canonical.
A template whose keys could be mistaken for one another is refused by `fault_of`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .filling import ABSENT, MEMBERS, as_text, member

if TYPE_CHECKING:
    from .vocabulary import JsonObject

SHARED = "shared:"
"""Begins the key of one who only reads; no value can bring it in."""

_PLACEHOLDER = re.compile(r"\{(?:arguments\.)?(" + MEMBERS + r")\}")
_ESCAPED = re.compile(r"[%:/\x00-\x1f\x7f]")
_BRACE = re.compile(r"[{}]")


def placeholders(template: str) -> list[str]:
    """The argument paths that a template names, without their `arguments.` prefix."""
    return _PLACEHOLDER.findall(template)


def fault_of(template: str) -> str | None:
    """What is wrong with a resource template; None if its keys are unambiguous.

    Values never hold a raw ':' or '/'. So with one of these before each placeholder every key can be taken apart again,
    and no value can turn a key into a shared one or into one of another family.
    """
    pieces = _PLACEHOLDER.split(template.removeprefix(SHARED))
    if not pieces[0] or pieces[0].startswith(SHARED):
        return "it begins with a name of its own, as in 'order:{order_id}' or 'shared:order:{order_id}'"
    if any(map(_BRACE.search, pieces[::2])):
        return "a brace begins or ends no placeholder; write {name} or {name.member}"
    if any(":" not in literal and "/" not in literal for literal in pieces[:-1:2]):
        return "a ':' or '/' must stand before each placeholder, as in 'order:{order_id}/{line}'"
    return None


def render_key(template: str, arguments: JsonObject) -> str | None:
    """A resource key: strings as they are, other values canonical; None if an argument is absent.

    Values that differ as text never give one key: their `%`, `:`, `/` and control characters are escaped. `17` and
    `"17"` are one on purpose, since tools that name the same thing by either must exclude each other.
    """
    absent = False

    def value(match: re.Match[str]) -> str:
        nonlocal absent
        found = member(arguments, match.group(1).split("."))
        if found is ABSENT or found is None:
            absent = True
            return ""
        return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", as_text(found))

    key = _PLACEHOLDER.sub(value, template)
    return None if absent else key
