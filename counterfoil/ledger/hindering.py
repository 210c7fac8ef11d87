"""What stands in the way of a call that has a row, beside the decision: asked before anybody is, and by its view.

T1 asks the same in an order of its own, and its word is final.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from .admission import GrantLapsed, Held, Unresolved
from .dispatching import in_the_way, lapsed
from .holding import standing_hold
from .rows import CallRow
from .run_rows import standing
from .sql import Fact

Hindrance: TypeAlias = Held | GrantLapsed | Unresolved
_NEW_INTENTS: Final = frozenset({"direct", "step"})


def hindrance(row: CallRow, at: int) -> Fact[Hindrance | None]:
    """A hold, authority that has lapsed, or a call elsewhere of which nobody knows; what passes first is told last."""
    found = (yield from standing_hold(row)) or (yield from _lapsed(row, at))
    if found is not None or row.sent == "unknown":  # it is one itself, which waits for no other
        return found
    siblings = row.route in _NEW_INTENTS and not (row.is_read or row.resource_keys or row.generation)
    other = yield from in_the_way(row, siblings=siblings)
    return other if isinstance(other, Unresolved) else None


def _lapsed(row: CallRow, at: int) -> Fact[GrantLapsed | None]:
    if not row.in_run:
        return lapsed(row, at)
    ends = (yield from standing(row.run_id)).grant_expires_at
    return GrantLapsed(ends) if at >= ends else None
