"""A plan as a person hands it over: a file, stdin, or JSON on the line; and which of its steps waits for which."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...canonical import JsonValue
from .answer import values
from .arguments import parse_json
from .exits import usage

STDIN: Final = "-"
_NAME: Final = re.compile(r"[a-z0-9_]{1,64}")
LARGEST: Final = 16 * 1024 * 1024
"""More bytes than any plan may have; what is longer is not read."""


def read_document(source: str) -> JsonValue:
    """The JSON of a plan; `source` is a file, `-` for stdin, or the JSON itself.

    Raises:
        CommandError: there is no such file, or it is no strict JSON.
    """
    if source == STDIN:
        return parse_json(sys.stdin.buffer.read(LARGEST), "the plan on stdin")
    if source.lstrip().startswith("{"):
        return parse_json(source.encode("utf-8", "surrogateescape"), "the plan")
    return parse_json(_read(Path(source)), source)


def stored_name(source: str) -> str | None:
    """The name of a stored plan; None for a document. What has such a name and is a file is that file."""
    return source if _NAME.fullmatch(source) and not Path(source).is_file() else None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST)
    except OSError as error:
        known = (
            f"; a plan that is kept runs with: counterfoil run --plan-id {path}"
            if is_id(path.name) and len(path.parts) == 1
            else ""
        )
        raise usage(f"the plan {path} cannot be read: {error.strerror or error}{known}") from error


def is_id(name: str) -> bool:
    """Whether it looks like the id of a kept plan."""
    return name.startswith("plan_")


def steps_of(document: JsonValue) -> list[Mapping[str, Any]]:
    """The steps as they were handed in; nothing for what is no plan."""
    steps = document.get("steps") if isinstance(document, dict) else None
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def needs_of(document: JsonValue) -> Mapping[str, Sequence[str]]:
    """For each step of a valid plan the steps that it waits for, in declared order."""
    steps = steps_of(document)
    ids = {str(step[name]): str(step.get("id")) for step in steps for name in ("save_as", "id") if step.get(name)}
    order = {str(step.get("id")): n for n, step in enumerate(steps)}
    found = {str(step.get("id")): {ids[name] for name in _named(step) if name in ids} for step in steps}
    return {name: sorted(needs, key=order.__getitem__) for name, needs in found.items()}


def _named(step: Mapping[str, Any]) -> Iterator[str]:
    from ...runtime.plan.values import needed  # noqa: PLC0415 (only where a plan is shown)

    yield from (str(name) for name in values(step, "depends_on"))
    for part in ("args", "for_each", "when", "if_version"):
        yield from needed(step.get(part))
