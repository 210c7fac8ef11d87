"""JSON given on a command line, read as strictly as JSON from a client."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .exits import CommandError, Exit

if TYPE_CHECKING:
    from ...canonical import JsonValue
    from ...registry.strict_json import StrictJsonError

_PLACE: Final = re.compile(r" at character (\d+)$")


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
        raise CommandError(Exit.USAGE, "invalid_arguments", f"{what}: {_said(error)}", details) from error


def _said(error: StrictJsonError) -> str:
    place = _PLACE.search(error.got) if error.expected == "JSON" else None
    if place:
        return f"expected JSON; it breaks off at character {int(place[1]) + 1}"
    return f"at {error.path or 'the top'}: expected {error.expected}, got {error.got}"
