"""The text form of references: `${step.path[0].field}`, `["any key"]`, `?? default`, and `$${` for a literal `${`.

    ${order}  ${order.total}  ${order.lines[0].sku}  ${order["any key"]}     the output of a step, by id or save_as
    ${order.$evidence.external_version}                                     what is known beside the output
    ${input.x}  ${run.id}  ${item}  ${item.x}                               the run's input, its id, a for_each's item
    ${order.discount ?? 0}                                                  where there is nothing, or null

A text is read from left to right, once. Nothing here knows which steps there are, or looks at a value.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from ...registry.bounded import Bounds, StrictJsonError
from ...registry.strict_json import parse as parse_json
from ...registry.vocabulary import JsonValue

ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What a step may be called."""
RESERVED: Final = frozenset({"input", "run", "item"})
"""Names that references have for something else than a step."""
EVIDENCE: Final = ("external_version", "external_reference", "request_id")

_MARK: Final = re.compile(r"\$?\$\{")
_ROOT: Final = re.compile(r"\s*([A-Za-z0-9_-]+)")
_PART: Final = re.compile(r"\.(\$?[A-Za-z0-9_-]+)|\[(0|[1-9][0-9]{0,8})\]|\[(?=\")")
_DEFAULT: Final = re.compile(r"\s*\?\?\s*")
_END: Final = re.compile(r"\s*\}")
_KEPT: Final = 300
_BOUNDS: Final = Bounds(bytes=65_536, depth=32, nodes=2_000, string=65_536)
_scan = json.JSONDecoder().raw_decode


class Unset(Enum):
    """The marker for "no value": a step that ended without an output, or a reference without a default."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class ReferenceSyntaxError(ValueError):
    """Text that is no reference; the message says where, and what may stand there."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference: the name that it begins with, the members and places that follow, and the default.

    `evidence` is the fact's name where the reference is to a step's evidence; `path` is then empty.
    """

    root: str
    path: tuple[str | int, ...]
    evidence: str | None
    default: JsonValue | Unset
    text: str

    @property
    def step(self) -> str | None:
        """The step's name; None for the run's input and id, and an item."""
        return None if self.root in RESERVED else self.root


Piece: TypeAlias = str | Reference


def parse(text: str) -> tuple[Piece, ...]:
    """The literal texts and references of a string, in order; neighbouring literals are one.

    Raises:
        ReferenceSyntaxError: a `${` that begins no reference.
    """
    if "${" not in text:
        return (text,)
    return _kept(text) if len(text) <= _KEPT else _parse(text)


def whole(pieces: tuple[Piece, ...]) -> Reference | None:
    """The reference that a string is, if it is one and nothing else."""
    only = pieces[0] if len(pieces) == 1 else None
    return only if isinstance(only, Reference) else None


def spelled(root: str, path: tuple[str | int, ...], evidence: str | None = None) -> str:
    """A reference as it is written, without its default."""
    steps = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if ID.fullmatch(part) else f"[{json.dumps(part)}]"
        for part in path
    )
    return f"${{{root}{steps}{'.$evidence.' + evidence if evidence else ''}}}"


def _parse(text: str) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    literal, at = "", 0
    while mark := _MARK.search(text, at):
        literal += text[at : mark.start()]
        at = mark.end()
        if len(mark[0]) == 3:  # noqa: PLR2004 (`$${`)
            literal += "${"
            continue
        reference, at = _reference(text, mark.end())
        pieces += [literal, reference] if literal else [reference]
        literal = ""
    literal += text[at:]
    return (*pieces, literal) if literal else tuple(pieces)


_kept = lru_cache(maxsize=20_000)(_parse)


def _reference(text: str, start: int) -> tuple[Reference, int]:
    root = _ROOT.match(text, start)
    if root is None:
        raise _wrong(start, "a step's id, input, run or item must follow '${' ('$${' is a literal)")
    path, at = _path(text, root.end())
    evidence: str | None = None
    if "$evidence" in path[:1] and text[root.end() : at].startswith(".$evidence"):
        evidence, path = _fact(start, path), ()
    default: JsonValue | Unset = UNSET
    if mark := _DEFAULT.match(text, at):
        default, at = _default(text, mark.end())
    end = _END.match(text, at)
    if end is None:
        raise _wrong(at, "expected .member, [0], [\"any key\"], '?? default' or '}'")
    return Reference(root[1], path, evidence, default, spelled(root[1], path, evidence)), end.end()


def _path(text: str, at: int) -> tuple[tuple[str | int, ...], int]:
    path: list[str | int] = []
    while part := _PART.match(text, at):
        at = part.end()
        if part[1] is not None:
            if part[1].startswith("$") and (path or part[1] != "$evidence"):
                raise _wrong(part.start(), '$evidence comes right after a step\'s id; other members are ["$name"]')
            path.append(part[1])
        elif part[2] is not None:
            path.append(int(part[2]))
        else:
            key, at = _key(text, at)
            path.append(key)
    return tuple(path), at


def _key(text: str, at: int) -> tuple[str, int]:
    key, end = _json(text, at, "a key in double quotes")
    if not isinstance(key, str) or text[end : end + 1] != "]":
        raise _wrong(at, 'expected ["any key"]')
    return key, end + 1


def _fact(start: int, path: tuple[str | int, ...]) -> str:
    fact = path[1] if len(path) == 2 else None  # noqa: PLR2004 ($evidence and one fact)
    if not isinstance(fact, str) or fact not in EVIDENCE:
        raise _wrong(start, f"after $evidence comes one of {', '.join(EVIDENCE)}")
    return fact


def _default(text: str, at: int) -> tuple[JsonValue, int]:
    return _json(text, at, 'the default is a JSON literal, such as 0, null or "none"')


def _json(text: str, at: int, wanted: str) -> tuple[JsonValue, int]:
    """Where the literal ends is the scanner's word; what it is, the strict reader's."""
    try:
        _, end = _scan(text, at)
        return parse_json(text[at:end].encode(), _BOUNDS), end
    except (StrictJsonError, ValueError, RecursionError) as error:
        raise _wrong(at, wanted) from error


def _wrong(at: int, wanted: str) -> ReferenceSyntaxError:
    """Without the text itself, which may be a secret."""
    return ReferenceSyntaxError(f"at character {at} a reference is broken: {wanted}")
