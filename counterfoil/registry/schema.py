"""JSON Schemas, compiled once: 2020-12 unless `$schema` names another dialect. Nothing is ever fetched.

Formats are asserted in every dialect, unknown ones ignored. A number is judged by its exact value at any size, `10.0`
is an integer, and a bool is no number. Values come here as strict JSON (`strict_json`): a lone surrogate, NaN or
endless nesting is refused before, and would raise here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final, NoReturn, cast

import jsonschema_rs

from ..canonical import JsonObject, JsonValue, NotCanonicalError, canonical, pointer, sha256_hex
from .problem import Problem
from .problems import teller

MAX_SCHEMA_BYTES: Final = 1024 * 1024
_MAX_COMPILED: Final = 512
_BACKTRACKS: Final = 100_000
_MAX_TEXT: Final = 200
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)


class SchemaError(ValueError):
    """A schema that cannot be used; the message names the reference or the place and what is wrong there."""


@dataclass(frozen=True, slots=True, eq=False)
class Validator:
    """One compiled schema. `digest` is that of its canonical bytes."""

    schema: JsonObject
    digest: str
    compiled: jsonschema_rs.Validator

    def accepts(self, value: JsonValue) -> bool:
        """True if the value fits."""
        return self.compiled.is_valid(value)

    def problems(self, value: JsonValue, limit: int = 5, conceal: Sequence[str] = ()) -> list[Problem]:
        """What is wrong with the value, at most `limit` things; empty if it fits.

        `conceal` holds JSON Pointers, in which `*` is any one step, of values that are not shown.
        """
        if self.accepts(value):
            return []
        tell = teller(self.schema, conceal)
        found: dict[Problem, None] = {}
        for error in islice(self.compiled.iter_errors(value), 4 * limit):
            found.update(dict.fromkeys(tell.problems(error)))
            if len(found) >= limit:
                break
        return list(found)[:limit] or [tell.problem((), "a value that fits the schema", "another")]


def compile_schema(schema: JsonObject) -> Validator:
    """The validator of a schema; the same for every schema of the same canonical bytes.

    Raises:
        SchemaError: not a valid schema, a reference that does not resolve inside it, or a schema too large or deep.
    """
    return _compile(schema_bytes(schema))


def schema_bytes(schema: JsonObject) -> bytes:
    """Canonical bytes of a schema: what compiled schemas are kept by.

    Raises:
        SchemaError: it is no JSON, or too large or deep.
    """
    try:
        data = canonical(schema)
    except NotCanonicalError as error:
        raise SchemaError(f"a schema is JSON: {error}") from error
    if len(data) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"a schema has at most {MAX_SCHEMA_BYTES:,} bytes, this one {len(data):,}")
    return data


@lru_cache(maxsize=_MAX_COMPILED)
def _compile(data: bytes) -> Validator:
    schema = cast("JsonObject", json.loads(data))
    try:
        compiled = jsonschema_rs.validator_for(
            schema, retriever=_never_fetch, validate_formats=True, pattern_options=_PATTERNS
        )
    except ValueError as error:
        raise schema_error(error) from error
    return Validator(schema, sha256_hex(data), compiled)


def compile_parts(schema: JsonObject) -> jsonschema_rs.ValidatorMap:
    """A validator for every part of a schema that compiled, by its pointer (`#/properties/x/anyOf/0`)."""
    return jsonschema_rs.validator_map_for(
        schema, retriever=_never_fetch, validate_formats=True, pattern_options=_PATTERNS
    )


def schema_error(error: ValueError) -> SchemaError:
    """The validator's complaint about a schema, in our words and bounded."""
    text = str(error).split("\n", 1)[0]
    if isinstance(error, jsonschema_rs.ValidationError):
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
            return SchemaError(f"a $ref does not resolve inside the schema, and nothing is fetched: {text[:_MAX_TEXT]}")
        return SchemaError(
            f"the schema is not valid at {pointer(error.instance_path) or 'its root'}: {text[:_MAX_TEXT]}"
        )
    return SchemaError(f"the schema cannot be compiled: {text[:_MAX_TEXT]}")


def _never_fetch(uri: str, /) -> NoReturn:
    raise LookupError(f"{uri} is another document")
