"""Whether a step's arguments can fit its tool: what is known is validated for real, what is not by its shape.

Where something is not known yet, only an error that no value could mend is told. The schema's own words are those of
direct calls (`registry/problems`), and so are the values that are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from jsonschema_rs import ValidationError
from jsonschema_rs import ValidationErrorKind as Kind

from ...registry.arguments import InvalidArgumentsError
from ...registry.bounded import StrictJsonError, bounded_copy
from ...registry.catalogue import Entry
from ...registry.contract import Contract
from ...registry.defaults import Filler
from ...registry.problem import Problem
from ...registry.problems import Teller, spoken, teller
from ...registry.refs import pointer_text
from ...registry.secret_places import secret_texts
from ...registry.vocabulary import JsonObject
from .disjoint import disjoint, fits
from .fields import Spot
from .flow import Hole, Partial, Path, spoken_kinds
from .problems import Code
from .references import UNSET
from .shapes import Lookup, Shape

MOST_ERRORS: Final = 20
"""Errors of one step's arguments that are looked at where something is not known."""
_ANY_VERSION: Final = "1"
"""Stands for an `if_version` that is not known yet."""
_DIGITS: Final = re.compile(r"/([0-9]+)(?=/|$)")
_CONDITIONAL: Final = frozenset({"if", "then", "else", "not", "contains"})
_STRUCTURAL: Final = (
    Kind.Type, Kind.Required, Kind.AdditionalProperties, Kind.UnevaluatedProperties, Kind.MinItems, Kind.MaxItems,
    Kind.MinProperties, Kind.MaxProperties, Kind.PropertyNames,
)  # fmt: skip
"""Errors of an object or a list that no value inside it can mend."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """Arguments that may fit: effective where all is known, else with their defaults and something at each hole."""

    arguments: JsonObject
    unknown: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class Arguing:
    """Checks the arguments of one plan's steps; what two shapes have in common is found out once."""

    lookup: Lookup
    _apart: dict[Hashable, bool] = field(default_factory=dict[Hashable, bool])

    def check(
        self, spot: Spot, entry: Entry, partial: Partial, place: str = "args", if_version: str | None = None
    ) -> Fitting | None:
        """Tell what is wrong; the answer is None if something is."""
        before = spot.problems.count
        if not isinstance(partial.value, dict):
            return None
        if partial.holes:
            fitting = self._unsure(spot, entry, partial, place, if_version)
        else:
            fitting = _sure(spot, entry, partial, partial.value, place, if_version)
        return fitting if spot.problems.count == before else None

    def _unsure(self, spot: Spot, entry: Entry, partial: Partial, place: str, if_version: str | None) -> Fitting | None:
        contract = entry.contract
        try:
            value = bounded_copy(partial.value)
        except StrictJsonError as error:
            spot.add(place, Code.TOO_LARGE, f"{place}: {error}")
            return None
        if not isinstance(value, dict):
            return None
        _tell_certain(spot, contract, partial, value, place)
        self._tell_holes(spot, contract, partial.holes, place)
        if if_version is not None:
            version = [one for one in entry.adapter.problems(value, if_version) if one.path == "/if_version"]
            _tell(spot, version, place)
        if contract.takes.changes:
            try:
                Filler(contract.takes.schema, None).fill(value)
            except StrictJsonError as error:
                spot.add(place, Code.INVALID_ARGUMENTS, f"{place}: {error}")
        return Fitting(value, tuple(tuple(map(str, hole.path)) for hole in partial.holes))

    def _tell_holes(self, spot: Spot, contract: Contract, holes: Sequence[Hole], place: str) -> None:
        takes = Shape(contract.takes.schema, contract.takes.schema, ("takes", contract.name, contract.version))
        for hole in holes:
            wanted, _ = self.lookup.inside(takes, hole.path)
            if wanted is not None and self._cannot(hole, wanted):
                where = f"{place}.{spoken(hole.path)}"
                if spot.problems.full:
                    spot.add(where, Code.BAD_REFERENCE, "")
                    continue
                both = f"takes {spoken_kinds(wanted)}, and {hole.text} is {spoken_kinds(hole.shape)}"
                what = both if not wanted.kinds & hole.shape.kinds else f"cannot take what {hole.text} is by its schema"
                spot.add(where, Code.BAD_REFERENCE, f"{where}: {contract.name} {what}")

    def _cannot(self, hole: Hole, wanted: Shape) -> bool:
        given = hole.shape
        if hole.default is not UNSET:
            if fits(hole.default, wanted):
                return False
            names = ["boolean" if name == "bool" else name for name in sorted(given.kinds - {"null"})]
            if not names:
                return True
            key = None if given.key is None else ("not null", given.key)
            given = Shape({"allOf": [given.node, {"type": list(names)}]}, given.root, key)
        if given.key is None or wanted.key is None:
            return disjoint(given, wanted)
        both = given.key, wanted.key
        if both not in self._apart:
            self._apart[both] = disjoint(given, wanted)
        return self._apart[both]


def _sure(
    spot: Spot, entry: Entry, partial: Partial, value: JsonObject, place: str, if_version: str | None
) -> Fitting | None:
    takes = entry.contract.takes
    fits_as_it_is = takes.validator.accepts(value)
    if spot.problems.full and not fits_as_it_is:
        spot.add(place, Code.INVALID_ARGUMENTS, "")
        return None
    conceal = (*entry.contract.gate.sensitive, *map(pointer_text, partial.hidden))
    if takes.changes or not fits_as_it_is:
        try:
            value = takes.effective(value, conceal=conceal).value
        except InvalidArgumentsError as error:
            _tell(spot, error.problems, place)
            return None
    unsendable = entry.adapter.problems(value, if_version)
    if unsendable:
        _tell(spot, unsendable, place, secret_texts(value, conceal))
    return Fitting(value, ())


def _tell(spot: Spot, problems: Sequence[Problem], place: str, secrets: Sequence[str] = ()) -> None:
    for one in problems:
        message = one.message
        for secret in secrets:
            message = message.replace(secret, "…")
        if one.path == "/if_version" and place == "args":
            spot.add("if_version", Code.INVALID_ARGUMENTS, message)
        elif one.path:
            spot.add(
                place + _DIGITS.sub(r"[\1]", one.path).replace("/", "."), Code.INVALID_ARGUMENTS, f"{place}.{message}"
            )
        else:
            spot.add(place, Code.INVALID_ARGUMENTS, f"{place}: {message}")


def _tell_certain(spot: Spot, contract: Contract, partial: Partial, value: JsonObject, place: str) -> None:
    validator = contract.takes.validator
    if validator.accepts(value):
        return
    tell = teller(validator.schema, (*contract.gate.sensitive, *map(pointer_text, partial.hidden)))
    holes = [tuple(map(str, hole.path)) for hole in partial.holes]
    for error in islice(validator.compiled.iter_errors(value), MOST_ERRORS):
        if not _certain(error, holes):
            continue
        if spot.problems.full:
            spot.add(place, Code.INVALID_ARGUMENTS, "")
            return
        _tell(spot, _certain_problems(error, tell, holes), place)


def _certain_problems(error: ValidationError, tell: Teller, holes: Sequence[tuple[str, ...]]) -> list[Problem]:
    """Of an error about alternatives only what is not about a hole, or else that none of them fits."""
    pointers = {pointer_text(hole) for hole in holes}
    clear = [one for one in tell.problems(error) if one.path not in pointers]
    return clear or [tell.problem(tuple(error.instance_path), "a value that fits one of the alternatives", "another")]


def _certain(error: ValidationError, holes: Sequence[Path]) -> bool:
    """Whether an error stays whatever stands at the holes."""
    path = tuple(map(str, error.instance_path))
    if any(path[: len(hole)] == hole for hole in holes):
        return False
    if not _CONDITIONAL.isdisjoint(map(str, error.schema_path)):
        return False
    above = any(hole[: len(path)] == path for hole in holes)
    match error.kind:
        case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
            return not above or all(any(_certain(one, holes) for one in branch) for branch in context)
        case _:
            return not above or isinstance(error.kind, _STRUCTURAL)
