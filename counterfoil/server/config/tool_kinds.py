"""The kinds of values that only described tools have: requests, statuses, and the short form of input.

Each is checked by itself; whatever needs two keys is checked where tools are made of them. No message here repeats a
value that may hold a secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, Field

from ...canonical import JsonObject
from ...registry.nearest import hint
from .kinds import Name

SHORT_TYPES: Final = ("string", "number", "integer", "boolean", "object", "array")
_ARGUMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def short_schema(fields: Mapping[str, str], *, closed: bool) -> JsonObject:
    """JSON Schema of the short form: `{order_id = "string", note = "string?: what was agreed"}`."""
    properties: JsonObject = {}
    required: list[Any] = []
    for name, text in fields.items():
        kind, _, described = text.partition(":")
        stated: JsonObject = {"type": kind.strip().removesuffix("?")}
        properties[name] = stated | ({"description": described.strip()} if described.strip() else {})
        required += [] if kind.strip().endswith("?") else [name]
    schema: JsonObject = {"type": "object", "properties": properties, "required": required}
    return schema | ({"additionalProperties": False} if closed else {})


def _check_short(text: str) -> str:
    kind = text.partition(":")[0].strip().removesuffix("?")
    if kind not in SHORT_TYPES:
        raise ValueError(f"expected one of {', '.join(SHORT_TYPES)}, with ? where it is optional and ': text' to "
                         f"describe it{hint(kind, SHORT_TYPES)}")  # fmt: skip
    return text


def _check_argument(name: str) -> str:
    if not _ARGUMENT.fullmatch(name):
        raise ValueError("expected the name of an argument: letters, digits, _ and -; other names need input_schema")
    return name


def _check_json(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            pass
        case float() if math.isfinite(value):
            pass
        case list():
            for member in cast("list[object]", value):
                _check_json(member)
        case dict():
            for member in cast("dict[str, object]", value).values():
                _check_json(member)
        case _:
            raise ValueError("expected JSON: write dates and times as text, and no inf or nan")
    return value  # pyright: ignore[reportUnknownVariableType] (as it came)


Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Argument = Annotated[str, AfterValidator(_check_argument)]
ShortType = Annotated[str, AfterValidator(_check_short)]
Json = Annotated[Any, AfterValidator(_check_json)]
JsonTable = Annotated[dict[str, Any], AfterValidator(_check_json)]

Statuses = Annotated[tuple[int, ...], Field(strict=False)]
Texts = Annotated[tuple[Name, ...], Field(strict=False)]
