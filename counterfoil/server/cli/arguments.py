"""JSON given on a command line, read as strictly as JSON from a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exits import CommandError, Exit

if TYPE_CHECKING:
    from ...canonical import JsonValue


def parse_json(source: bytes, what: str) -> JsonValue:
    """One JSON value.

    Raises:
        CommandError: it is not strict JSON; the message says where.
    """
    from ...registry.strict_json import Bounds, StrictJsonError, parse  # noqa: PLC0415 (only where JSON is given)

    try:
        return parse(source, Bounds())
    except StrictJsonError as error:
        details = {"path": error.path, "expected": error.expected, "got": error.got}
        raise CommandError(
            Exit.USAGE,
            "invalid_arguments",
            f"{what}: at {error.path or 'the top'}: expected {error.expected}, got {error.got}",
            details,
        ) from error
