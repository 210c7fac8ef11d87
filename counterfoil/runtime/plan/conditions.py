"""What a step's `when` can give: whether it can be a boolean, and what it is if the input alone decides it."""

from __future__ import annotations

from typing import Final

from ...registry.predicates import Kind, kind_of
from ...registry.vocabulary import JsonValue
from .drafts import Draft
from .flow import Fault, Known, Sources, spoken_kinds
from .problems import Code
from .references import UNSET, ReferenceSyntaxError
from .repeating import whole_of
from .values import ORDERS, MissingPathError, NotBooleanError, Scope, ask_when

_WORDS: Final[dict[Kind, str]] = {"bool": "true or false", "number": "a number", "array": "a list"}


def decided(draft: Draft, sources: Sources) -> bool | None:
    """The answer, if it is known before the run, else None; what can never be one is told."""
    when = draft.when
    if when is None:
        return True
    before = draft.spot.problems.count
    _check(draft, sources, when)
    uses = [use for use in draft.uses if use.field.startswith("when")]
    if draft.spot.problems.count > before or any(use.reference.root != "input" for use in uses):
        return None
    if sources.takes is not None or not sources.affords(when):
        return None
    try:
        return ask_when(when, Scope(sources.input, "", lambda _: UNSET, lambda _: None))
    except (MissingPathError, ReferenceSyntaxError):  # told of already
        return None
    except NotBooleanError as error:
        draft.spot.add("when", Code.INVALID_ARGUMENTS, str(error))
        return None


def _check(draft: Draft, sources: Sources, when: JsonValue) -> None:
    if not isinstance(when, dict):
        _must_be(draft, sources, when, "when", "bool")
        return
    ordering = [name for name in when if name in ORDERS]
    if ordering:
        _must_be(draft, sources, when["ref"], "when.ref", "number")
    for name in ordering:
        _must_be(draft, sources, when[name], f"when.{name}", "number")
    if "in" in when:
        _must_be(draft, sources, when["in"], "when.in", "array")


def _must_be(draft: Draft, sources: Sources, template: JsonValue, place: str, kind: Kind) -> None:
    reference = whole_of(template)
    if reference is None:
        return
    found = sources.look(reference, None)
    if isinstance(found, Fault):
        return
    possible: set[str] = {kind_of(found.value)} if isinstance(found, Known) else set(found.kinds)
    if reference.default is not UNSET:
        possible.add(kind_of(reference.default))
    if kind not in possible:
        got = f"a known {kind_of(found.value)}" if isinstance(found, Known) else spoken_kinds(found)
        told = f"{place}: expected {_WORDS[kind]}, and {reference.text} is {got}"
        draft.spot.add(place, Code.BAD_REFERENCE, told)
