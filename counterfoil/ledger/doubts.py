"""What all attempts of a call say together: whether its effect took place, did not, or is not known.

One attempt without effect says nothing about another one that nobody knows of. So "it did not happen" is said of a
call only when it is known of each of its attempts; "it happened" needs one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import bindparam, or_, update

from ..canonical import JsonObject
from .rows import SELECT_ATTEMPTS, AttemptRow, CallRow
from .sql import Fact, Sql, change, fetch
from .tables import attempts

HAPPENED: Final = frozenset({"success", "no_result", "partial"})

_ESTABLISH_ABSENT: Sql[Any] = Sql(
    update(attempts)
    .where(
        attempts.c.call_id == bindparam("of"),
        or_(attempts.c.outcome.is_(None), attempts.c.outcome == "ambiguous"),
    )
    .values(outcome="permanent_failure", sent="no", settled_at=bindparam("at"))
)


def happened(outcome: str | None, details: JsonObject | None) -> bool | None:
    """Whether a settlement says that the effect took place; None if it does not say."""
    if outcome in HAPPENED:
        return True
    if outcome is None or outcome == "ambiguous" or (details or {}).get("effect") == "unknown":
        return None
    return False


def told_late(crossing: AttemptRow) -> bool | None:
    """What an attempt's late settlement says of its effect; None without one, or if it does not know."""
    if crossing.late is None:
        return None
    late: JsonObject = json.loads(crossing.late)
    details = late.get("details")
    return happened(str(late["outcome"]), details if isinstance(details, dict) else None)


def known(crossing: AttemptRow) -> bool | None:
    """Whether an attempt had its effect: as it said late, else as it was settled; None if nobody knows."""
    late = told_late(crossing)
    if late is not None or crossing.outcome is None:
        return late
    unknown = crossing.outcome not in HAPPENED and crossing.sent == "unknown"
    return None if unknown else happened(crossing.outcome, None)


def absent_but_for(generation: int, crossings: Sequence[AttemptRow]) -> bool:
    """Whether every other attempt is known to have had no effect."""
    return all(known(crossing) is False for crossing in crossings if crossing.generation != generation)


def others_in_doubt(row: CallRow, generation: int) -> Fact[bool]:
    """Whether another attempt may have had an effect; never so of a read, which has none."""
    if row.generation <= 1 or row.is_read:
        return False
    return not absent_but_for(generation, (yield from fetch(SELECT_ATTEMPTS, call_id=row.call_id)))


def find_answer(row: CallRow, crossings: Sequence[AttemptRow]) -> AttemptRow | None:
    """The attempt whose late settlement answers for the call, if there is one.

    One that says that it happened answers; one that does not say so answers only if no other attempt is in doubt.
    """
    late = [
        one for one in reversed(crossings) if one.late is not None and json.loads(one.late)["outcome"] != "ambiguous"
    ]
    for crossing in late:
        if told_late(crossing):
            return crossing
    return next((one for one in late if row.is_read or absent_but_for(one.generation, crossings)), None)


def contradicted(row: CallRow, crossings: Sequence[AttemptRow]) -> bool:
    """Whether late evidence denies what an ended call's row says of its effect. A read has none to deny."""
    if row.is_read or row.outcome is None:
        return False
    stated = happened(row.outcome, json.loads(row.details) if row.details else None)
    if stated is None:
        return False
    late = [told_late(crossing) for crossing in crossings]
    if not stated:
        return True in late
    return False in late and all(known(crossing) is False for crossing in crossings)


def establish_absent(call_id: str, at: int) -> Fact[None]:
    """It is established, by a person or by time, that no attempt that nobody knew of had an effect."""
    yield from change(_ESTABLISH_ABSENT, of=call_id, at=at)
