"""What the attempts of one call say together about its effect: each by its settlement, or by what came too late.

Pure. No attempt speaks for another: that one was stopped before it sent anything says nothing about those beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from ..canonical import JsonObject
from .rows import AttemptRow, CallRow

HAPPENED: Final = frozenset({"success", "no_result", "partial"})
DOUBTED: Final = "doubted"
"""An attempt's outcome where it reported a failure that does not say whether it had its effect, and that is asked."""
RULED_OUT: Final = "ruled_out"
"""An attempt's outcome where a probe or a person established that it had no effect and can have none any more."""


def took_effect(outcome: str | None, sent: str | None, *, is_read: bool) -> bool | None:
    """Whether an attempt with this outcome had its effect; None if that does not say."""
    if outcome in HAPPENED:
        return True
    if outcome is None or outcome in {"ambiguous", DOUBTED}:
        return None
    if outcome == RULED_OUT:
        return False
    return None if sent == "unknown" and not is_read else False


def late_of(crossing: AttemptRow) -> JsonObject | None:
    """What an attempt reported too late, if that says anything."""
    late: JsonObject | None = json.loads(crossing.late) if crossing.late is not None else None
    return None if late is None or late["outcome"] == "ambiguous" else late


def is_known(crossing: AttemptRow, *, is_read: bool) -> bool | None:
    """Whether an attempt had its effect, by all that it reported; None if nobody knows."""
    late = late_of(crossing)
    if late is not None:
        said = took_effect(str(late["outcome"]), _text(late.get("sent")), is_read=is_read)
        if said is not None:
            return said
    return took_effect(crossing.outcome, crossing.sent, is_read=is_read)


def all_without_effect(crossings: Iterable[AttemptRow], *, is_read: bool) -> bool:
    """True if each of these attempts is known to have had no effect."""
    return all(is_known(crossing, is_read=is_read) is False for crossing in crossings)


def answering(row: CallRow, crossings: Sequence[AttemptRow]) -> AttemptRow | None:
    """The attempt whose late settlement answers for its call, the latest first.

    One that had its effect does; any other only where all the attempts beside it are known to have had none.
    """
    for crossing in reversed(crossings):
        late = late_of(crossing)
        if late is None:
            continue
        beside = (other for other in crossings if other.generation != crossing.generation)
        if late["outcome"] in HAPPENED or all_without_effect(beside, is_read=row.is_read):
            return crossing
    return None


def earlier_unknown(row: CallRow, crossings: Iterable[AttemptRow], *, before: int) -> bool:
    """True if an attempt before this one may have had an effect that nobody knows of."""
    earlier = (crossing for crossing in crossings if crossing.generation < before)
    return not row.is_read and not all_without_effect(earlier, is_read=False)


def contradicts(crossing: AttemptRow, crossings: Iterable[AttemptRow], *, stated: bool | None, is_read: bool) -> bool:
    """True if what is stated of a call and what this attempt reported too late cannot both be so.

    A read has no effect about which anything could be stated.
    """
    late = late_of(crossing)
    said = took_effect(str(late["outcome"]), _text(late.get("sent")), is_read=is_read) if late is not None else None
    if is_read or said is None or stated is None or said == stated:
        return False
    beside = (other for other in crossings if other.generation != crossing.generation)
    return said or all_without_effect(beside, is_read=is_read)


def happened_after_all(crossing: AttemptRow, crossings: Iterable[AttemptRow]) -> bool:
    """True if an attempt that a person or a probe had ruled out reports its effect, and one beside it may have had one.

    The call may then have happened twice: what was said of this attempt was the leave to send it again.
    """
    late = late_of(crossing)
    if crossing.outcome != RULED_OUT or late is None or late["outcome"] not in HAPPENED:
        return False
    beside = (other for other in crossings if other.generation != crossing.generation)
    return any(is_known(other, is_read=False) is not False for other in beside)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
