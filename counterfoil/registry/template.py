"""The one template dialect of tools: `{x}` and `{arguments.x}` are replaced by values, everything else is literal.

A whole template keeps its value's type elsewhere; here only keys are rendered, so a value becomes canonical text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..canonical import canonical

if TYPE_CHECKING:
    from .vocabulary import JsonObject, JsonValue

_PLACEHOLDER = re.compile(r"\{(?:arguments\.)?([A-Za-z_][A-Za-z0-9_.]*)\}")


def placeholders(template: str) -> list[str]:
    """The argument paths that a template names, without their `arguments.` prefix."""
    return _PLACEHOLDER.findall(template)


def render_key(template: str, arguments: JsonObject) -> str | None:
    """A resource key: strings as they are, other values canonical; None if an argument is absent.

    Two different argument tuples never give one key: a value's `%`, `:`, `/` and control characters are escaped.
    """
    absent = False

    def value(match: re.Match[str]) -> str:
        nonlocal absent
        found = _at(arguments, match.group(1))
        if found is None:
            absent = True
            return ""
        text = found if isinstance(found, str) else canonical(found).decode()
        return re.sub(r"[%:/\x00-\x1f\x7f]", lambda m: f"%{ord(m.group()):02X}", text)

    key = _PLACEHOLDER.sub(value, template)
    return None if absent else key


def _at(value: JsonValue, path: str) -> JsonValue:
    for member in path.split("."):
        if not isinstance(value, dict) or member not in value:
            return None
        value = value[member]
    return value
