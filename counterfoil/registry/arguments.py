"""From JSON to effective arguments: the one door before key, policy, digest and approval.

Extra fields are refused, stated defaults filled in, and one number rule applied (10.0 in an integer field is 10, a bool
is never a number); nothing else is ever changed or converted. The bytes and the digest are made once, here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

import jsonschema_rs

from ..canonical import JsonObject, JsonValue, canonical, sha256_hex
from .bounded import Bounds, StrictJsonError, bounded_copy
from .closing import forbid_extra
from .defaults import Filler
from .example import example
from .problems import Problem, teller
from .schema import Validator, compile_parts, compile_schema, schema_bytes

__all__ = ["ArgumentSchema", "Arguments", "InvalidArgumentsError", "argument_schema", "effective", "forbid_extra"]

_BOUNDS: Final = Bounds()
_MAX_COMPILED: Final = 512
_MAX_EXAMPLE: Final = 600


@dataclass(frozen=True, slots=True)
class Arguments:
    """Effective arguments: what is decided on, recorded, digested and sent. `digest` is SHA-256 of `canonical`, hex."""

    value: JsonObject
    canonical: bytes
    digest: str


class InvalidArgumentsError(ValueError):
    """The arguments do not fit the tool's schema; the message says what to change and shows an example."""

    def __init__(self, problems: list[Problem], shown: JsonValue, *, correct: bool) -> None:
        text = json.dumps(shown, ensure_ascii=False)
        lead = "a correct example" if correct else "an example of the shape"
        hint = f"; {lead}: {text}" if len(text) <= _MAX_EXAMPLE else ""
        super().__init__("; ".join(problem.message for problem in problems) + hint)
        self.problems = problems
        self.example = shown


@dataclass(frozen=True, slots=True, eq=False)
class ArgumentSchema:
    """A tool's input schema, closed and compiled; whoever calls a tool often may hold on to it.

    `changes` is false where it states no default, no integer and no reference: a valid value is the effective one.
    """

    validator: Validator
    parts: jsonschema_rs.ValidatorMap | None
    changes: bool = True

    @property
    def schema(self) -> JsonObject:
        """The closed schema."""
        return self.validator.schema

    def effective(self, value: object, *, conceal: Sequence[str] = ()) -> Arguments:
        """As the function `effective`."""
        plain = self._object(value, conceal)
        self._check(plain, conceal)
        filled = self._filled(plain, conceal) if self.changes else plain
        data = canonical(filled)
        return Arguments(filled, data, sha256_hex(data))

    def _filled(self, plain: JsonObject, conceal: Sequence[str]) -> JsonObject:
        filler = Filler(self.schema, self.parts)
        try:
            filled = cast("JsonObject", filler.fill(plain))
        except StrictJsonError as error:
            raise self._invalid([_problem(error)]) from error
        if filler.filled:
            self._check(filled, conceal)
        return filled

    def _object(self, value: object, conceal: Sequence[str]) -> JsonObject:
        try:
            plain = bounded_copy({} if value is None else value, _BOUNDS)
        except StrictJsonError as error:
            raise self._invalid([_problem(error)]) from error
        if not isinstance(plain, dict):
            tell = teller(self.schema, conceal)
            raise self._invalid([tell.problem((), "an object", tell.got(plain, ()))])
        return plain

    def _check(self, value: JsonObject, conceal: Sequence[str]) -> None:
        problems = self.validator.problems(value, conceal=conceal)
        if problems:
            raise self._invalid(problems)

    def _invalid(self, problems: list[Problem]) -> InvalidArgumentsError:
        """The example shows the fields that the problems are about, under their right names."""
        about = [_renamed(problem) for problem in problems]
        shown = example(self.schema, about)
        return InvalidArgumentsError(problems, shown, correct=self.validator.accepts(shown))


def effective(contract_input_schema: JsonObject, value: object, *, conceal: Sequence[str] = ()) -> Arguments:
    """The effective arguments of a call; None stands for no arguments. `value` may be any Python object.

    `conceal` holds JSON Pointers (`*` is any one step) of values that no message shows.

    Raises:
        InvalidArgumentsError: the arguments do not fit, or are no bounded JSON.
        SchemaError: the schema itself cannot be used.
    """
    return argument_schema(contract_input_schema).effective(value, conceal=conceal)


def argument_schema(schema: JsonObject) -> ArgumentSchema:
    """The closed and compiled form of an input schema; kept by the schema's canonical bytes.

    Raises:
        SchemaError: the schema cannot be used.
    """
    return _compiled(schema_bytes(schema))


@lru_cache(maxsize=_MAX_COMPILED)
def _compiled(data: bytes) -> ArgumentSchema:
    validator = compile_schema(forbid_extra(cast("JsonObject", json.loads(data))))
    has_alternatives = b'"anyOf":' in data or b'"oneOf":' in data
    changes = any(mark in data for mark in (b'"default":', b'"integer"', b'"$ref":'))
    return ArgumentSchema(validator, compile_parts(validator.schema) if has_alternatives and changes else None, changes)


def _renamed(problem: Problem) -> str:
    if problem.nearest is None:
        return problem.path
    return f"{problem.path.rpartition('/')[0]}/{problem.nearest}"


def _problem(error: StrictJsonError) -> Problem:
    place = error.path.removeprefix("/").replace("/", ".") or "the arguments"
    return Problem(error.path, error.expected, error.got, f"{place}: expected {error.expected}, got {error.got}")
