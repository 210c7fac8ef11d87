"""Plans as they were accepted. None ever changes, so each is read once; those used last stay in memory."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...ledger.plans import get_plan
from ..plan.stored import from_stored

if TYPE_CHECKING:
    from ...ledger.run_rows import PlanRow
    from ...ledger.store import Ledger
    from ..plan.model import Plan

STEPS_KEPT: Final = 20_000
"""How many steps the plans in memory have together; the one used last is kept however many it has."""


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan and whose it is."""

    row: PlanRow
    plan: Plan


class Plans:
    """The plans of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: OrderedDict[str, StoredPlan] = OrderedDict()
        self._steps = 0

    async def find(self, plan_id: str) -> StoredPlan | None:
        """A plan; None if there is none.

        Raises:
            LedgerError: it cannot be read now.
        """
        kept = self._kept.get(plan_id)
        if kept is not None:
            self._kept.move_to_end(plan_id)
            return kept
        row = await self._ledger.reads.look(lambda: get_plan(plan_id))
        if row is None:
            return None
        found = StoredPlan(row, from_stored(json.loads(await self._ledger.open_payload(row.payload))))
        self.keep(found)
        return found

    def keep(self, stored: StoredPlan) -> None:
        """Have a plan in memory, which is in the ledger."""
        if stored.row.plan_id not in self._kept:
            self._steps += stored.row.steps
        self._kept[stored.row.plan_id] = stored
        while self._steps > STEPS_KEPT and len(self._kept) > 1:
            self._steps -= self._kept.popitem(last=False)[1].row.steps
