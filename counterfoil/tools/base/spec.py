"""What a base tool is, and the one door into it: arguments are checked strictly before any handler sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...canonical import JsonObject, JsonValue
from ...registry.arguments import InvalidArgumentsError, argument_schema
from ...registry.problem import as_json
from ...registry.vocabulary import ErrorCode
from .answer import Answer, Asked

Handler = Callable[[JsonObject, Asked], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Annotations:
    """What hosts are told about a base tool; MCP's four hints."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


@dataclass(frozen=True, slots=True)
class BaseTool:
    """One tool of the constant list. `handler` is its only door, and checks what it is given."""

    name: str
    title: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject
    annotations: Annotations
    handler: Callable[[JsonValue, Asked], Awaitable[Answer]]


def checked(input_schema: JsonObject, handler: Handler) -> Callable[[JsonValue, Asked], Awaitable[Answer]]:
    """The handler behind a strict check; what does not fit is an answer, not an exception."""
    schema = argument_schema(input_schema)

    async def handle(arguments: JsonValue, asked: Asked) -> Answer:
        try:
            fitting = schema.effective(arguments).value
        except InvalidArgumentsError as error:
            details: JsonObject = {"problems": as_json(error.problems), "example": error.example}
            return Answer.refused(ErrorCode.INVALID_ARGUMENTS, str(error), details)
        return await handler(fitting, asked)

    return handle
