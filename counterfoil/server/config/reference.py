"""The reference of the configuration, made from the tables themselves: every key with its type, default and text."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from . import auth_tables, budget_tables, plan_tables, tables, tool_tables
from .errors import KeyPath
from .table import Table, key_of
from .tables import Document


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its path (`policy[].verdict`), what it takes, its default (None: it is required), its text."""

    path: str
    type: str
    default: str | None
    description: str


def reference() -> Iterator[Key]:
    """Every key, in the order of the tables."""
    yield from _keys(Document, "", _texts())


def table_at(path: KeyPath) -> type[Table] | None:
    """The table that a key path leads to; None if it leads to none."""
    table: type[Table] | None = Document
    below: Any = None
    for part in path:
        if isinstance(part, int):
            continue
        if below is not None:
            table, below = below, None
            continue
        fields = table.model_fields if table else {}
        field = next((field for name, field in fields.items() if key_of(name, field) == part), None)
        if field is None:
            return None
        table = _table_in(field.annotation)
        if get_origin(field.annotation) is dict:
            table, below = None, table
    return table


def _keys(table: type[Table], prefix: str, texts: dict[tuple[str, str], str]) -> Iterator[Key]:
    for name, field in table.model_fields.items():
        path = f"{prefix}{key_of(name, field)}"
        inner = _table_in(field.annotation)
        if inner is None:
            yield Key(path, _spelled(field.annotation), _default(field), _text(table, name, texts))
        else:
            yield from _keys(inner, f"{path}{_step(field.annotation)}.", texts)


def _text(table: type[Table], name: str, texts: dict[tuple[str, str], str]) -> str:
    """The text of a key, where the table or one that it builds on states it."""
    return next(texts[one.__name__, name] for one in table.__mro__ if (one.__name__, name) in texts)


def _step(annotation: Any) -> str:  # noqa: ANN401 (an annotation can be anything)
    origin = get_origin(annotation)
    return ".NAME" if origin is dict else "[]" if origin is tuple else ""


def _table_in(annotation: Any) -> type[Table] | None:  # noqa: ANN401 (as above)
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation
    return next((found for part in get_args(annotation) if (found := _table_in(part))), None)


def _default(field: FieldInfo) -> str | None:
    if field.is_required():
        return None
    value: object = field.get_default(call_default_factory=True)
    return "" if value is None else json.dumps(value)


_WORDS: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _spelled(annotation: Any) -> str:  # noqa: ANN401 (as above)
    parts = get_args(annotation)
    match get_origin(annotation):
        case origin if origin is Annotated:
            return _spelled(parts[0])
        case origin if origin is Literal:
            return " | ".join(json.dumps(part) for part in parts)
        case origin if origin is tuple:
            return f"list of {_spelled(parts[0])}"
        case origin if origin is dict:
            return f"table of {_spelled(parts[1])}"
        case None:
            return _WORDS.get(annotation) or ("value" if annotation is Any else _members(annotation))
        case _:
            return " | ".join(_spelled(part) for part in parts if part is not NoneType)


def _members(annotation: type) -> str:
    words = [json.dumps(member.value) for member in annotation] if issubclass(annotation, Enum) else ["value"]
    return " | ".join(words)


def _texts() -> dict[tuple[str, str], str]:
    """The text below each key, by class and key; read from the source, so that a start does not pay for it."""
    texts: dict[tuple[str, str], str] = {}
    modules = (tables, auth_tables, budget_tables, plan_tables, tool_tables)
    for node in (node for module in modules for node in ast.parse(inspect.getsource(module)).body):
        if not isinstance(node, ast.ClassDef):
            continue
        for key, text in zip(node.body, node.body[1:], strict=False):
            match key, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    texts[node.name, name] = " ".join(said.split())
                case _:
                    pass
    return texts
