"""Whether a tool's own validators left its arguments as they were asked for, recorded and, it may be, approved.

Validators may refuse a value. One that changes it would send something else than what a person was shown. Only what
JSON itself can hold is compared: a text that became a date or a path is the same value in another form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Final, cast

from pydantic import BaseModel

from ..canonical import JsonValue

_NUMBERS: Final = (int, float)
_LEAVES: Final = frozenset({str, bool, type(None), *_NUMBERS})


def changes(given: JsonValue, made: object, path: str = "") -> Iterator[str]:
    """JSON Pointers to the values that are others now; `made` is what the validators made of `given`."""
    if isinstance(given, dict):
        for name, member in _members(made).items():
            if name in given and not _same_leaf(given[name], member):
                yield from changes(given[name], member, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(given, list):
        if isinstance(made, list | tuple):
            items = cast("list[object] | tuple[object, ...]", made)
            if len(items) != len(given):
                yield path
            for index, (before, after) in enumerate(zip(given, items, strict=False)):
                if _same_leaf(before, after):
                    continue
                yield from changes(before, after, f"{path}/{index}")
    elif _same_kind(given, made) and given != made:
        yield path


def _same_leaf(given: JsonValue, made: object) -> bool:
    return type(given) in _LEAVES and type(made) is type(given) and given == made


def _members(made: object) -> Mapping[str, object]:
    if type(made) is dict:
        return cast("Mapping[str, object]", made)
    if isinstance(made, BaseModel):
        fields = type(made).model_fields
        return {_wire_name(name, info): getattr(made, name) for name, info in fields.items()}
    if is_dataclass(made):
        return {name: getattr(made, name) for name in made.__dataclass_fields__ if hasattr(made, name)}
    return cast("Mapping[str, object]", made) if isinstance(made, dict) else {}


def _wire_name(name: str, info: Any) -> str:  # noqa: ANN401 (pydantic's own)
    alias = info.validation_alias or info.alias
    return alias if isinstance(alias, str) else name


def _same_kind(given: JsonValue, made: object) -> bool:
    """True for two plain values of one kind, and where a plain value has come or gone."""
    if given is None or made is None:
        return type(made) in {str, bool, *_NUMBERS, type(None)}
    if type(given) in _NUMBERS:
        return type(made) in _NUMBERS
    return type(given) is type(made)
