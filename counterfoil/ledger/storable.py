r"""How JSON that has no canonical form is stored all the same: content can never make a record fail.

A lone surrogate becomes its escape as text (\ud800), NaN and the infinities become the strings "NaN", "Infinity"
and "-Infinity", an integer beyond 4,096 bits becomes {"cut": true, "bits": n} and what lies deeper than 64 levels
{"cut": true, "deep": true}. Everything else, exact integers included, is unchanged.
"""

from __future__ import annotations

import math
from typing import Final

from ..canonical import JsonValue

DEPTH: Final = 64
INTEGER_BITS: Final = 4096


def storable(value: JsonValue, depth: int = DEPTH) -> JsonValue:
    """The same value where it can be stored; see the module for the rest."""
    if isinstance(value, list | dict):
        if depth == 0:
            return {"cut": True, "deep": True}
        if isinstance(value, list):
            return [storable(item, depth - 1) for item in value]
        return {storable_text(name): storable(item, depth - 1) for name, item in value.items()}
    return storable_leaf(value)


def storable_leaf(value: bool | float | str | None) -> JsonValue:  # noqa: FBT001 (a JSON value)
    """The same for a value without members."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and value.bit_length() > INTEGER_BITS:
        return {"cut": True, "bits": value.bit_length()}
    return value


def storable_text(text: str) -> str:
    """Text that UTF-8 can hold."""
    return text.encode(errors="backslashreplace").decode()
