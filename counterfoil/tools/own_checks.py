"""Whether a tool's types can refuse or change what fits their JSON Schema: validators, formats, conversions.

Where they cannot, nobody has to ask them before a call is admitted. Doubt is yes: only types known to be plain are no.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

_PLAIN: Final = frozenset(
    {
        *("model", "model-fields", "model-field", "dataclass", "dataclass-args", "dataclass-field"),
        *("typed-dict", "typed-dict-field", "definitions", "definition-ref", "default", "nullable"),
        *("union", "tagged-union", "list", "dict", "literal", "str", "int", "float", "bool", "none", "any"),
    }
)
_NO_TYPES: Final = frozenset({"metadata", "serialization", "expected", "default", "cls", "config"})
_ACTS: Final = frozenset({"post_init", "custom_init", "strip_whitespace", "to_lower", "to_upper"})
_CONFIG_ACTS: Final = frozenset({"str_strip_whitespace", "str_to_lower", "str_to_upper"})


def has_own_checks(schema: object) -> bool:
    """Of a pydantic core schema, or of a part of one."""
    if isinstance(schema, Mapping):
        return _acts(cast("Mapping[str, Any]", schema))
    return isinstance(schema, list | tuple) and any(map(has_own_checks, cast("list[object]", schema)))


def _acts(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if isinstance(kind, str):
        config: Mapping[str, object] = schema.get("config") or {}
        acting = any(schema.get(name) is True or isinstance(schema.get(name), str) for name in _ACTS)
        if kind not in _PLAIN or acting or any(config.get(name) for name in _CONFIG_ACTS):
            return True
    members = schema.items() if isinstance(kind, str) else ((None, member) for member in schema.values())
    return any(has_own_checks(member) for name, member in members if name not in _NO_TYPES)
