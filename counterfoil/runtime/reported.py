"""What an adapter reports, made into an outcome that can be recorded: words become members, what is foreign is named.

An adapter holds an author's code, so any part of its report may be anything. Whatever it is, it
never becomes an error of ours.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, Final, TypeGuard, TypeVar, cast

from ..canonical import canonical
from ..ledger.storable import storable
from ..registry.outcome import Outcome, Probe, ProbeAnswer
from ..registry.vocabulary import ErrorCode, JsonObject, OutcomeClass, Sent

W = TypeVar("W", bound=StrEnum)
_LONGEST_WISH_S: Final = 1e12


class ForeignReportError(ValueError):
    """A part of a report that is not what it may be; the message names the part and what is expected."""


def text_of(value: object) -> str:
    """A value's own text; the name of its type where it has none that can be had."""
    try:
        return str.__str__(value) if isinstance(value, str) else str.__str__(str(value))
    except BaseException:  # noqa: BLE001 (an author's own __str__)
        return f"({type(value).__name__})"


def normal(reported: object) -> Outcome[Any]:
    """The same report with members of our own words and plain values.

    Raises:
        ForeignReportError: a part of it is foreign.
    """
    if not _is_outcome(reported):
        raise ForeignReportError(f"it is no Outcome but {type(reported).__name__}")
    said = reported
    if _is_normal(said):
        return said
    kind = _word(OutcomeClass, "kind", said.kind)
    return Outcome(
        kind=kind,
        output=_answer(said.output) if isinstance(said.output, Probe) else said.output,
        message=text_of(said.message),
        sent=_word(Sent, "sent", said.sent),
        after_s=_seconds(said.after_s),
        evidence=_object("evidence", said.evidence),
        code=None if said.code is None else _word(ErrorCode, "code", said.code),
        details=_object("details", said.details),
        still_works=said.still_works is True and kind is OutcomeClass.AMBIGUOUS,
    )


def _is_normal(said: Outcome[Any]) -> bool:
    """True for what nearly every tool reports: a member of our own words and an output, and nothing else."""
    ours = type(said) is Outcome and type(said.kind) is OutcomeClass and type(said.sent) is Sent
    if said.still_works is not False:
        return False
    nothing_else = type(said.evidence) is dict and type(said.details) is dict and not (said.evidence or said.details)
    plain = said.after_s is None and said.code is None and type(said.message) is str
    return ours and nothing_else and plain and not isinstance(said.output, Probe)


def _is_outcome(reported: object) -> TypeGuard[Outcome[Any]]:
    return isinstance(reported, Outcome)


def _word(words: type[W], part: str, value: object) -> W:
    if isinstance(value, words):
        return value
    if isinstance(value, str):
        for word in words:
            if str.__eq__(word, value) is True:
                return word
    shown = f"{text_of(value)[:40]!r}" if isinstance(value, str) else type(value).__name__
    raise ForeignReportError(f"its {part} is {shown}, which is none of the {len(words)} words of {words.__name__}")


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ForeignReportError(f"its after_s is {type(value).__name__}; expected a number of seconds")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    return min(seconds, _LONGEST_WISH_S) if math.isfinite(seconds) else None


def _object(part: str, value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise ForeignReportError(f"its {part} is {type(value).__name__}; expected a dict")
    members = cast("JsonObject", value)
    if type(members) is dict and not members:
        return members
    try:
        canonical(storable(members))
    except Exception as error:
        raise ForeignReportError(f"its {part} is no JSON ({type(error).__name__})") from error
    return members


def _answer(probe: Probe) -> JsonObject:
    wish_s = _seconds(probe.after_s)
    said: JsonObject = {
        "answer": _word(ProbeAnswer, "answer", probe.answer).value,
        "output": probe.output,
        "evidence": _object("evidence", probe.evidence),
    }
    return said if wish_s is None else said | {"after_s": wish_s}
