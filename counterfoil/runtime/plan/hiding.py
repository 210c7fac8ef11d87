"""Where a step's arguments are given values that have the name of a secret, whatever the tool calls its own fields.

Messages about arguments never show what stands there. Values themselves are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...registry.refs import pointer_text
from ...registry.vocabulary import JsonObject, JsonValue
from .flow import Path, names_secret
from .model import Step
from .references import Reference, parse
from .values import references


def hidden_places(step: Step) -> tuple[str, ...]:
    """JSON Pointers into a step's arguments."""
    return hidden_in(step.args, step.for_each)


def hidden_in(args: JsonObject, for_each: JsonValue) -> tuple[str, ...]:
    """JSON Pointers into what these arguments become; an item is as secret as what its list is made of."""
    items = any(names_secret(one) for _, one in references(for_each))

    def tells(text: str) -> bool:
        found = [piece for piece in parse(text) if isinstance(piece, Reference)]
        return any(names_secret(one) or (items and one.root == "item") for one in found)

    return tuple(pointer_text(path) for path, text in _texts(args, ()) if tells(text))


def _texts(template: JsonValue, path: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(template, str):
        if "${" in template:
            yield tuple(map(str, path)), template
    elif isinstance(template, dict):
        for name, member in template.items():
            yield from _texts(member, (*path, name))
    elif isinstance(template, list):
        for index, member in enumerate(template):
            yield from _texts(member, (*path, index))
